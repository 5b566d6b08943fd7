# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/drift.yml on two tuned machines: five faults made by hand, named, repaired, gone.

They differ in SKU, kernel and release: Debian 12 and 13.
"""

from __future__ import annotations

import contextlib
import json
import shlex

import pytest

from vepyc.play import run

from .conftest import guest_of

#: What the faults need that no default asks for.
ASKED = {
    "numa_hugepages": [{"pages": 8}],
    "prefetch_draft": {"l1_stride": "disabled"},
}
#: For the first of them: its timer fires once, minutes after it booted, and a second time when nobody looks any more.
TEXTFILE = {"base_textfile": "/var/lib/node-exporter/sovereign-epyc.prom", "base_textfile_interval": "1h"}
MSR = """
import os
with open("/dev/cpu/CPU/msr", "r+b", buffering=0) as file:
    bits = int.from_bytes(os.pread(file.fileno(), 8, 0xC0000108), "little")
    os.pwrite(file.fileno(), (bits ^ 2).to_bytes(8, "little"), 0xC0000108)
"""
DROP_IN = "/etc/default/grub.d/95-sovereign-epyc.cfg"


class Fleet:
    """The two machines, and what the callback plugin says of them."""

    def __init__(self, stack, folders):
        self.one = stack.enter_context(guest_of("small", "drift-one", folders("one"), kernel="6.1"))
        self.two = stack.enter_context(guest_of("epyc9354", "drift-two", folders("two")))
        self.folder = self.one.folder
        hosts = {
            "small": {"one": {"ansible_port": self.one.machine.port, **ASKED, **TEXTFILE}},
            "epyc9354": {"two": {"ansible_port": self.two.machine.port, **ASKED}},
        }
        children = {group: {"hosts": members} for group, members in hosts.items()}
        (self.folder / "hosts.json").write_text(json.dumps({"all": {"children": children}}))

    def play(self, playbook, *arguments):
        """Run a playbook on both as any other test does."""
        self.one.machine.disconnect()
        self.two.machine.disconnect()
        return self.one.play(playbook, *arguments)

    def report(self, *command):
        """Run drift.yml, or another command; return its exit code, its output and the JSON report."""
        command = command or ("ansible-playbook", "-i", str(self.folder / "hosts.json"), "playbooks/drift.yml")
        done = run(
            *command,
            ANSIBLE_STDOUT_CALLBACK="sovereign.epyc.drift",
            SOVEREIGN_EPYC_DRIFT_JSON=str(self.folder / "report.json"),
            SOVEREIGN_EPYC_DRIFT_HTML=str(self.folder / "report.html"),
        )
        return done.returncode, done.stdout, json.loads((self.folder / "report.json").read_text())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, lambda name: tmp_path_factory.mktemp(name))
        fleet.play("playbooks/site.yml")
        yield fleet


def test_boot_parameters_wait_until_both_are_rebooted(fleet):
    code, output, report = fleet.report()
    assert code == 2, output
    assert {one["what"] for one in report["findings"]} == {"boot parameter"}, output
    for finding in report["findings"]:
        verdicts = finding["live"], finding["persistent"], finding["pending_reboot"]
        assert verdicts == ("drift", "ok", True)
        assert "sovereign.epyc.reboot" in finding["command"]
    fleet.play("playbooks/reboot.yml", "-e", "epyc_reboot_ok=true", "-e", '{"epyc_reboot_batches": [2]}')
    code, output, report = fleet.report()
    assert (code, output.splitlines()[0]) == (0, "Drift of 2 hosts: 2 clean."), output
    assert report["findings"] == []
    assert report["summary"]["settings"]["ok"] > 100
    assert {one["what"] for one in report["gone"]} == {"boot parameter"}


def test_five_faults_are_named_and_repaired_by_the_commands_that_are_named(fleet):
    one, two = fleet.one, fleet.two
    cpu = one.read("draft", "cpus_list").split(",")[-1].split("-")[-1]
    one.run("echo L3:2=ff >/sys/fs/resctrl/draft/schemata")
    one.machine.run("python3 -", input=MSR.replace("CPU", cpu))
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
    assert (mask["found"], mask["wanted"], mask["role"], mask["variables"]) == ("ff", "f", "cat", ["plan_draft"])
    assert (bit["what"], bit["where"], bit["found"], bit["wanted"]) == (
        "prefetcher l1_stride", f"CPU {cpu}", "enabled", "disabled"
    )  # fmt: skip
    assert bit["variables"] == ["prefetch_draft"]
    assert (pages["where"], pages["found"], pages["wanted"]) == ("node 1", "3", "8")
    assert by_layer["cmdline"]["variables"] == ["grub_params_isolation"]
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
    site = ("ansible-playbook", "-i", str(fleet.folder / "hosts.json"), "playbooks/site.yml", "--check")
    try:
        code, output, report = fleet.report(*site)
    finally:
        fleet.one.run("sovereign-epyc apply")
    assert code == 2, output
    (finding,) = report["findings"]
    assert (finding["what"], finding["where"]) == ("L3 share of group draft", "L3 domain 2")
    assert (finding["live"], finding["persistent"], finding["role"]) == ("drift", "unknown", "cat")
    assert fleet.report(*site)[0] == 0
    play = fleet.play("playbooks/site.yml", "--check")
    looks = [result for result in play.results if result["task"] == "Look whether a check would find anything"]
    assert [look["reason"] for look in looks] == ["", ""]
    looked = play.executions
    assert sorted(module.rpartition(".")[2] for module, dummy in looked) == ["epyc_last_run", "epyc_last_run"]


def test_the_host_checks_itself_by_a_timer(fleet):
    file = TEXTFILE["base_textfile"]
    fleet.one.run(f"timeout 300 sh -c 'until grep -q \"sovereign_epyc_check_success 1\" {file}; do sleep 1; done'")
    fleet.one.run("systemctl is-active sovereign-epyc-check.timer")
    assert fleet.one.run("systemctl show -P TriggeredBy sovereign-epyc-check.service") == "sovereign-epyc-check.timer\n"
    fleet.one.run("echo L3:2=ff >/sys/fs/resctrl/draft/schemata")
    fleet.one.run("systemctl start sovereign-epyc-check.service")
    fleet.one.run(f"grep '^sovereign_epyc_drift.*L3 share of group draft' {file}")
    assert fleet.one.run("systemctl show -P Result sovereign-epyc-check.service").strip() == "success"
    fleet.one.run("sovereign-epyc apply")
