# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet from its first site.yml to its drift reports: each host that can be tuned is tuned, and the others are named.

Two hosts can be: they differ in SKU, kernel and release, Debian 12 and 13. The tests follow one another: site.yml, a
reboot that is refused, a reboot, and then five faults made by hand, which are named, repaired and gone.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import socket

import pytest

from tests.fixtures.virtual_epyc import guest_of
from vepyc.playbook_runs import run_recorded_command, write_inventory

pytestmark = pytest.mark.slow

OK = ("-e", "epyc_reboot_ok=true")
GUARD = "Refuse before anything is changed what this host cannot have"
STOP = "Stop at a host that did not come back clean"
#: What the faults need that no default asks for.
ASKED = {
    "epyc_numa_hugepages": [{"pages": 8}],
    "epyc_prefetch_draft": {"l1_stride": "disabled"},
}
#: For the first host. Its timer fires minutes after a boot, and again an hour later, when the tests are over.
TEXTFILE = {"epyc_base_textfile": "/var/lib/node-exporter/sovereign-epyc.prom", "epyc_base_textfile_interval": "1h"}
#: The hosts that can be tuned, for a run of these only.
BOTH = ("-l", "one,two")
MSR = """
import os
with open("/dev/cpu/CPU/msr", "r+b", buffering=0) as file:
    bits = int.from_bytes(os.pread(file.fileno(), 8, 0xC0000108), "little")
    os.pwrite(file.fileno(), (bits ^ 2).to_bytes(8, "little"), 0xC0000108)
"""
DROP_IN = "/etc/default/grub.d/zzz-sovereign-epyc.cfg"


class Fleet:
    """Two shapes, a host in the group of another SKU, and one that nobody answers for; site.yml has run on them."""

    def __init__(self, stack, folders):
        self.one = stack.enter_context(guest_of("small", "fleet-one", folders("one"), kernel="6.1"))
        self.two = stack.enter_context(guest_of("epyc9354", "fleet-two", folders("two")))
        self.wrong = stack.enter_context(guest_of("small", "fleet-wrong", folders("wrong")))
        self.folder = self.one.folder
        with socket.create_server(("127.0.0.1", 0)) as server:
            nobody = server.getsockname()[1]
        hosts = {
            "small": {
                "one": {"ansible_port": self.one.machine.port, **ASKED, **TEXTFILE},
                # What the plan asks for would fit; only the name of the CPU tells.
                "wrong": {"ansible_port": self.wrong.machine.port, "epyc_plan_sku": "9654"},
            },
            "epyc9354": {"two": {"ansible_port": self.two.machine.port, **ASKED}},
            "epyc9654": {"gone": {"ansible_port": nobody}},
        }
        write_inventory(self.folder, {name: {} for members in hosts.values() for name in members}, **hosts)
        self.wrong_before = self.wrong.untouched()
        self.first = self.play("playbooks/site.yml")

    def play(self, playbook, *arguments):
        """Run a playbook on all of them. Some host always fails, so the run has to."""
        self.disconnect()
        play = self.one.play(playbook, *arguments, succeeds=False)
        assert play.returncode != 0, play.output
        assert {result["host"] for result in play.results if result["status"] == "unreachable"} == {"gone"}
        return play

    def report(self, *command):
        """Run drift.yml on the two, or another command; return its exit code, its output and the JSON report.

        ``did`` is then what it did.
        """
        drift = ("ansible-playbook", "-i", str(self.folder / "hosts.json"), "playbooks/drift.yml", *BOTH)
        self.did = run_recorded_command(
            self.folder,
            *(command or drift),
            ANSIBLE_STDOUT_CALLBACK="sovereign.epyc.drift",
            SOVEREIGN_EPYC_DRIFT_JSON=str(self.folder / "report.json"),
            SOVEREIGN_EPYC_DRIFT_HTML=str(self.folder / "report.html"),
        )
        return self.did.returncode, self.did.output, json.loads((self.folder / "report.json").read_text())

    def disconnect(self):
        for guest in (self.one, self.two, self.wrong):
            guest.machine.disconnect()

    def boot_ids(self):
        return {
            name: guest.run("cat /proc/sys/kernel/random/boot_id")
            for name, guest in (("one", self.one), ("two", self.two), ("wrong", self.wrong))
        }


def failed_results(play):
    return {result["host"]: result for result in play.results if result["status"] == "failed"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Fleet(stack, lambda name: tmp_path_factory.mktemp(name))


def hook(folder, name, *failing):
    """A file with a task that fails on some hosts."""
    path = folder / f"{name.replace(' ', '-')}.yml"
    words = f"{{{{ 'echo no model is loaded >&2; exit 3' if inventory_hostname in {list(failing)} else 'true' }}}}"
    path.write_text(
        json.dumps([{"name": name, "ansible.builtin.command": {"argv": ["sh", "-c", words]}, "changed_when": False}])
    )
    return str(path)


def test_site_tunes_those_who_can_be_and_names_the_others(fleet):
    assert failed_results(fleet.first).keys() == {"wrong"}, failed_results(fleet.first)
    refusal = failed_results(fleet.first)["wrong"]
    assert refusal["task"] == GUARD
    assert refusal["msg"].startswith(
        "The CPU calls itself 'AMD EPYC 9754 128-Core Processor', but the variables of this host are for an EPYC"
    )
    assert fleet.wrong.touched_since(fleet.wrong_before) == set()
    for guest in (fleet.one, fleet.two):
        checked = guest.run("sovereign-epyc check", check=False)
        assert not checked.endswith(" 0 not as configured\n"), "boot parameters wait"
        assert guest.masks("draft")


def test_a_drain_that_fails_in_the_first_batch_keeps_the_later_ones_from_being_touched(fleet, tmp_path):
    before = fleet.boot_ids()
    drain = hook(tmp_path, "Leave", "one")
    batches = ("-e", '{"epyc_reboot_batches": [1, 1]}', "-e", f"epyc_reboot_drain_tasks={drain}")
    play = fleet.play("playbooks/reboot.yml", *OK, *batches, "-l", "one,two,gone")
    assert play[STOP]["host"] == "one"
    assert "one did not come back clean, at 'Leave'" in play[STOP]["msg"]
    assert "Leave" not in {result["task"] for result in play.results if result["host"] == "two"}
    assert fleet.boot_ids() == before


def test_boot_parameters_that_wait_for_a_reboot_are_drift(fleet):
    code, output, report = fleet.report()
    assert code == 2, output
    assert {one["what"] for one in report["findings"]} == {"boot parameter"}, output
    for finding in report["findings"]:
        verdicts = finding["live"], finding["persistent"], finding["pending_reboot"]
        assert verdicts == ("drift", "ok", True)
        assert "sovereign.epyc.reboot" in finding["command"]


def test_one_that_is_not_healthy_after_its_reboot_is_named_and_the_others_of_its_batch_are_finished(fleet, tmp_path):
    before = fleet.boot_ids()
    drain, health = hook(tmp_path, "Leave"), hook(tmp_path, "Ask the model", "two")
    hooks = ("-e", f"epyc_reboot_drain_tasks={drain}", "-e", f"epyc_reboot_health_tasks={health}")
    batches = ("-e", '{"epyc_reboot_batches": [2]}')
    play = fleet.play("playbooks/reboot.yml", *OK, *batches, *hooks, "-l", "one,two,gone")
    stops = {
        result["host"]: result["msg"]
        for result in play.results
        if result["task"] == STOP and result["status"] == "failed"
    }
    assert stops.keys() == {"two"}, failed_results(play)
    assert stops["two"].startswith("two did not come back clean, at 'Ask the model': ")
    assert stops["two"].endswith(" It says: no model is loaded. Later batches were not touched.")
    order = ["Leave", "Reboot the host", "Prove that the host came back as configured", "Ask the model", STOP]
    tasks = [result["task"] for result in play.results if result["host"] == "two"]
    assert [task for task in tasks if task in order] == order
    after = fleet.boot_ids()
    assert {name for name in before if before[name] != after[name]} == {"one", "two"}
    for guest in (fleet.one, fleet.two):  # the proof came before the health check, for both
        assert guest.run("sovereign-epyc check").endswith(" 0 not as configured\n")
    healthy = [r["host"] for r in play.results if r["task"] == "Ask the model" and r["status"] == "ok"]
    assert healthy == ["one"]


def test_verify_tells_of_each_host_what_it_is(fleet):
    play = fleet.play("playbooks/verify.yml", "-e", '{"epyc_verify_layers": ["resctrl", "cmdline"]}')
    assert failed_results(play).keys() == {"wrong"}, failed_results(play)
    assert "Nothing is stored for it on this host, but it is required." in failed_results(play)["wrong"]["msg"]


def test_after_the_reboot_nothing_is_drift(fleet):
    code, output, report = fleet.report()
    assert (code, output.splitlines()[0]) == (0, "Drift of 2 hosts: 2 clean."), output
    assert report["findings"] == []
    assert report["summary"]["settings"]["ok"] > 100
    assert {one["what"] for one in report["gone"]} == {"boot parameter"}


def test_five_faults_are_named_and_repaired_by_the_commands_that_are_named(fleet):
    one, two = fleet.one, fleet.two
    cpu = one.read("draft", "cpus_list").split(",")[-1].split("-")[-1]
    one.run("echo L3:2=ff >/sys/fs/resctrl/draft/schemata")
    one.python(MSR.replace("CPU", cpu))
    one.run("echo 3 >/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages")
    two.run(f"rm {DROP_IN}")
    two.run("systemctl disable sovereign-epyc.service")

    code, output, report = fleet.report()
    assert code == 2, output
    found = {
        (finding["label"], finding["layer"]): (finding["live"], finding["persistent"], finding["pending_reboot"])
        for finding in report["findings"]
    }
    assert found == {
        ("one", "resctrl"): ("drift", "ok", False),
        ("one", "msr"): ("drift", "ok", False),
        ("one", "hugepages"): ("drift", "ok", False),
        ("two", "cmdline"): ("ok", "drift", False),
        ("two", "boot"): ("ok", "drift", False),
    }, output
    by_layer = {finding["layer"]: finding for finding in report["findings"]}
    mask, bit, pages = (by_layer[layer] for layer in ("resctrl", "msr", "hugepages"))
    # QEMU and Linux 6.1 together make every L3 domain a CCD (lab/README.md, limits).
    assert (mask["what"], mask["where"]) == ("L3 share of group draft", "L3 domain 2 (CCD 2)")
    assert (mask["found"], mask["wanted"], mask["role"], mask["variables"]) == ("ff", "f", "cat", ["epyc_plan_draft"])
    assert (bit["what"], bit["where"], bit["found"], bit["wanted"]) == (
        "prefetcher l1_stride", f"CPU {cpu}", "enabled", "disabled"
    )  # fmt: skip
    assert bit["variables"] == ["epyc_prefetch_draft"]
    assert (pages["where"], pages["found"], pages["wanted"]) == ("node 1", "3", "8")
    assert by_layer["cmdline"]["variables"] == ["epyc_grub_params_isolation"]
    assert by_layer["cmdline"]["at_boot"] == "nothing"
    assert all(finding["new"] for finding in report["findings"])
    page = (fleet.folder / "report.html").read_text()
    for finding in report["findings"]:
        assert finding["where"] in output
        assert finding["where"] in page

    again = fleet.report()[2]
    assert not any(finding["new"] for finding in again["findings"])
    assert [{**one, "new": 0} for one in again["findings"]] == [{**one, "new": 0} for one in report["findings"]]

    for command in dict.fromkeys(finding["command"] for finding in again["findings"]):
        code, output, dummy = fleet.report(*shlex.split(command))
        assert code == 0, output
    code, output, report = fleet.report()
    assert (code, report["summary"]["gone"]) == (0, 5), output


def test_a_check_of_the_site_finds_the_same_as_far_as_it_can(fleet):
    fleet.one.run("echo L3:2=ff >/sys/fs/resctrl/draft/schemata")
    site = ("ansible-playbook", "-i", str(fleet.folder / "hosts.json"), "playbooks/site.yml", "--check", *BOTH)
    try:
        code, output, report = fleet.report(*site)
    finally:
        fleet.one.run("sovereign-epyc apply")
    assert code == 2, output
    (finding,) = report["findings"]
    assert (finding["what"], finding["where"]) == ("L3 share of group draft", "L3 domain 2")
    assert (finding["live"], finding["persistent"], finding["role"]) == ("drift", "unknown", "cat")
    assert fleet.report(*site)[0] == 0
    looks = [result for result in fleet.did.results if result["task"] == "Ask whether the last run still holds"]
    assert [look["reason"] for look in looks] == ["", ""]
    looked = fleet.did.executions
    assert sorted(module.rpartition(".")[2] for module, dummy in looked) == ["epyc_last_run", "epyc_last_run"]


def test_the_host_checks_itself_by_a_timer(fleet):
    file = TEXTFILE["epyc_base_textfile"]
    fleet.one.run(f"timeout 300 sh -c 'until grep -q \"sovereign_epyc_check_success 1\" {file}; do sleep 1; done'")
    fleet.one.run("systemctl is-active sovereign-epyc-check.timer")
    assert fleet.one.run("systemctl show -P TriggeredBy sovereign-epyc-check.service") == "sovereign-epyc-check.timer\n"
    fleet.one.run("echo L3:2=ff >/sys/fs/resctrl/draft/schemata")
    fleet.one.run("systemctl start sovereign-epyc-check.service")
    fleet.one.run(f"grep '^sovereign_epyc_drift.*L3 share of group draft' {file}")
    assert fleet.one.run("systemctl show -P Result sovereign-epyc-check.service").strip() == "success"
    fleet.one.run("sovereign-epyc apply")
