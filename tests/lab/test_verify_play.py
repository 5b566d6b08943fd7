# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/verify.yml on a machine that site.yml has tuned: green, red for each thing that is wrong, green again."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

VERIFY = "playbooks/verify.yml"
#: Without the boot parameters, which the fixture takes back.
ASKED = ("-e", json.dumps({"epyc_steps": ["base", "numa", "irq", "cat", "cpufreq"]}))
CHECK = "Go through the checklist"
TUNED = [
    "Compare each tuned instance with the state of the host in which it was measured",
    "Warn where the state of the host differs from the measured state",
]
FAIL = "Fail where something is not as configured"
STORED = "find /var/lib/sovereign-epyc -printf '%p %s %T@ %C@\n' | sort"
THREADS = """
import os, threading, time

def work(cpu):
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    while True:
        time.sleep(0.05)

for cpu in CPUS:
    threading.Thread(target=work, args=(cpu,), daemon=True).start()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def tuned(tuned_guest):
    """A tuned machine without the boot parameters, which would wait for a reboot."""
    assert tuned_guest.module("kernel_cmdline", state="original")["reboot_required"] is False
    return tuned_guest


@pytest.fixture
def service(tuned):
    """Start a service of four threads, each pinned to its CPU."""

    def start(cpus):
        text = THREADS.replace("CPUS", json.dumps(cpus))
        tuned.machine.run("cat >/run/threads.py", input=text)
        tuned.run("systemd-run --quiet --collect --unit model python3 /run/threads.py")
        tuned.run(
            "until [ $(wc -l </sys/fs/cgroup/system.slice/model.service/cgroup.threads) = 5 ]; do sleep 0.2; done"
        )

    yield start
    tuned.run("systemctl stop model", check=False)


def verify_complaints(guest, **asked):
    """What the playbook's module complains of, without the seconds that a play takes."""
    return guest.module("epyc_verify", smt=False, **asked)["complaints"]


def require_success(guest, *arguments):
    play = guest.play(VERIFY, *ASKED, *arguments)
    assert play[CHECK]["complaints"] == []
    return play


def require_failure(guest, *arguments):
    """Run the playbook; it must fail. Return what it complains of."""
    play = guest.play(VERIFY, *ASKED, *arguments, succeeds=False)
    assert play.returncode == 2, play.output
    assert play[FAIL]["msg"] == "\n".join(play[CHECK]["complaints"])
    return play[CHECK]["complaints"]


def test_tuned_host_is_green_and_left_as_it_was(tuned):
    before = tuned.state(), tuned.run(STORED)
    play = require_success(tuned, "-e", "epyc_verify_nps=4", "-e", '{"epyc_verify_layers": ["resctrl"]}')
    assert (tuned.state(), tuned.run(STORED)) == before
    items = {item["name"]: item for item in play[CHECK]["checklist"]}
    assert {name: item["verdict"] for name, item in items.items()} == {
        "nps": "ok",
        "smt": "ok",
        "sysfs": "ok",
        "hugepages": "not asked for",
        "resctrl": "ok",
        "cpufreq": "ok",
        "cpuidle": "not asked for",
        "msr": "not asked for",
        "irq": "ok",
        "partition": "not asked for",
        "cmdline": "not asked for",
        "isolation": "not asked for",
        "memory_bandwidth": "not asked for",
        "boot_service": "ok",
    }
    assert items["boot_service"]["sentence"].endswith("it has not had to run yet.")
    assert items["resctrl"]["sentence"].endswith(" settings in force, and kept over a boot.")
    # One module on the host; the others run where Ansible does, or, without anything tuned, not at all.
    assert [result["task"] for result in play.results][1:] == [CHECK, "Show the checklist", *TUNED, FAIL]
    assert "14 items: 7 ok, 0 wrong, 0 unknown, 7 not asked for" in play.output, "a person sees the page"


def test_changed_mask_is_red_until_it_is_repaired(tuned):
    tuned.run("echo L3:0=ff >/sys/fs/resctrl/draft/schemata")
    (complaint,) = require_failure(tuned)
    assert complaint.startswith("L3 partition: L3 share of group draft, L3 domain 0")
    assert complaint.endswith(": found ff, wanted f. Run site.yml --tags cat.")
    tuned.run("sovereign-epyc apply")
    assert verify_complaints(tuned) == []


def test_host_that_is_not_as_expected_is_red(tuned):
    nodes, layer = require_failure(tuned, "-e", "epyc_verify_nps=1", "-e", '{"epyc_verify_layers": ["msr"]}')
    assert nodes.startswith(
        "NUMA nodes per socket: It is NPS4 (4 NUMA nodes with CPUs, 1 socket, 4 L3 domains) and should"
    )
    assert layer == "prefetchers: Nothing is stored for it on this host, but it is required. Run site.yml."


#: As no command does it: systemctl masks no unit whose file is in /etc.
MASK = "ln -sf /dev/null /etc/systemd/system/sovereign-epyc.service && systemctl daemon-reload"


@pytest.mark.parametrize(
    ("how", "state"),
    [("systemctl disable sovereign-epyc.service", "disabled"), (MASK, "masked")],
    ids=lambda it: it[:9],
)
def test_boot_service_that_will_not_run_is_red_until_it_is_repaired(tuned, how, state):
    tuned.run(how)
    assert verify_complaints(tuned) == [
        f"boot service: sovereign-epyc.service is {state}, so no setting is applied at boot. Run site.yml --tags base."
    ]
    assert "host_tool:sovereign-epyc.service/enabled" in tuned.module("epyc_host_tool")["diff"]["changes"]["before"]
    assert verify_complaints(tuned) == []


def test_a_layer_that_was_taken_out_by_hand_is_red_and_so_is_a_run_that_did_not_end(tuned):
    """Until it is made again, and until a run of the same layers has ended."""
    steps = ["-e", json.dumps({"epyc_steps": ["base", "numa", "irq", "cat", "cpufreq", "prefetch"]})]
    assert require_success(tuned, *steps, "-e", '{"epyc_prefetch_draft": {}, "epyc_prefetch_verify": {}}')
    stored = "/var/lib/sovereign-epyc/desired.json"
    tuned.run(f"cp -a {stored} /run/kept.json && sed -i 's,resctrl/resctrl,resctrl/other,' {stored}")
    tuned.run(
        f"python3 -c \"import json; d = json.load(open('{stored}')); d['requests'].pop('resctrl/other'); "
        f"json.dump(d, open('{stored}', 'w'))\""
    )
    try:
        (complaint,) = require_failure(tuned)
    finally:
        tuned.run(f"cp -a /run/kept.json {stored}")
    assert complaint == (
        "L3 partition: found nothing, wanted stored; the layer cat is asked for, and nothing is stored "
        "for it on this host. Run site.yml --tags cat."
    )
    begun = tuned.module("epyc_history", state="begun", layers=["numa"], requested=["base", "numa"])
    try:
        (complaint,) = require_failure(tuned)
    finally:
        tuned.module("epyc_history", state="ended", run=begun["run"])
    assert complaint.startswith("run of site.yml: the run of ") and " did not end" in complaint
    assert complaint.endswith(": it was to do numa. Run site.yml.")


@pytest.mark.parametrize("days", [-400, 400])
def test_a_clock_that_jumps_changes_no_verdict(tuned, days):
    """Whether the boot service has run since the boot, and since its request was stored, is no matter of the clock."""
    before = tuned.module("epyc_verify", smt=False)["checklist"]
    tuned.run(f"date -s '{days} days' >/dev/null")
    try:
        assert tuned.module("epyc_verify", smt=False)["checklist"] == before
    finally:
        tuned.run(f"date -s '{-days} days' >/dev/null")


def test_boot_service_that_failed_is_red(tuned):
    store = "/var/lib/sovereign-epyc/desired.json"
    tuned.run(f"cp -a {store} /run/desired.json && sed -i 's/fff0/fffff0/; s/12MiB/99MiB/' {store}")
    tuned.run("systemctl start sovereign-epyc.service", check=False)
    tuned.run(f"cp -a /run/desired.json {store}")
    try:
        (service,) = verify_complaints(tuned)
    finally:
        tuned.run("systemctl restart sovereign-epyc.service")
    assert service == (
        "boot service: Enabled, and its last run failed (exit-code, exit code 1). 'journalctl -b -u "
        "sovereign-epyc.service' on the host shows why."
    )
    repaired = tuned.module("epyc_verify", smt=False)
    assert (repaired["complaints"], repaired["boot_service"]) == ([], "done")


def test_parameter_that_waits_for_a_reboot_is_red_unless_allowed(tuned):
    asked = {"parameters": ["foo.bar=1"], "persistent": True}
    assert tuned.module("kernel_cmdline", **asked)["reboot_required"] is True
    try:
        assert verify_complaints(tuned) == [
            "boot parameters: boot parameter, foo.bar: found nothing, wanted 1, which waits for a reboot. Run "
            "reboot.yml -e epyc_reboot_ok=true."
        ]
        play = require_success(tuned, "-e", "epyc_verify_allow_pending_reboot=true")
        assert play[CHECK]["pending_reboot"] == ["cmdline:foo.bar is nothing and should be 1, which waits for a reboot"]
    finally:
        tuned.module("kernel_cmdline", state="original")
    assert verify_complaints(tuned) == []


def test_threads_must_keep_to_their_cpus(tuned, service):
    service([12, 13, 14, 15])
    (complaint,) = require_failure(tuned, "-e", '{"epyc_verify_units": {"model.service": "12-15"}}')
    assert complaint == (  # the main thread may run anywhere
        "threads of model.service: 1 of 5 threads may also run on 0-11, outside of 12-15 (12-15). Set "
        "AllowedCPUs=12-15 for model.service."
    )
    tuned.run("taskset -p -c 12-15 $(systemctl show -P MainPID model)")
    assert verify_complaints(tuned, units={"model.service": "12-15"}) == []
    (complaint,) = verify_complaints(tuned, units={"nobody.service": ""})
    assert "The unit nobody.service has no control group" in complaint


def test_bios_check_reports_and_fails_only_when_told(tuned, tmp_path):
    play = tmp_path / "bios.yml"
    play.write_text("[{hosts: all, gather_facts: false, roles: [sovereign.epyc.epyc_bios_check]}]")
    wrong = ("-e", '{"epyc_bios_check_nps": 1, "epyc_bios_check_determinism": "power"}')
    report = tuned.play(play, *wrong)["Look at the BIOS settings"]
    assert {one["name"]: (one["verdict"], one["found"]) for one in report["settings"]} == {
        "nps": ("wrong", "NPS4"),
        "l3_as_numa": ("not asked for", None),
        "cores": ("not asked for", "16 of 128"),
        "smt": ("ok", "off"),
        "memory_channels": ("not asked for", "1 of 12"),  # QEMU describes one module, without a speed
        "memory_speed": ("not asked for", None),
        "memory_sizes": ("not asked for", "equal"),
        "memory_encryption": ("not asked for", None),
        "prefetchers": ("not asked for", "on"),
        "boost": ("ok", "on"),
        "cppc": ("not asked for", "off"),
        "preferred_cores": ("not asked for", None),
        "power_limit": ("not asked for", None),
        "determinism": ("unknown", None),
        "c_states": ("not asked for", "on"),
        "df_cstates": ("not asked for", None),
        "iommu": ("not asked for", "off"),
        "hsmp": ("not asked for", None),
    }
    refused = tuned.play(play, *wrong, "-e", "epyc_bios_check_enforce=true", succeeds=False)
    assert refused.returncode == 2
    message = refused["Refuse a host whose BIOS is not as expected"]["msg"]
    assert message.startswith(
        "NUMA nodes per socket: It is NPS4 (4 NUMA nodes with CPUs, 1 socket, 4 L3 domains) and should"
    )
    assert "determinism: It should be power, but its value is unknown: no kernel file shows it." in message
    assert message.endswith("The layers after bios_check were not run.")
    assert tuned.play(play, "-e", '{"epyc_bios_check_nps": 4, "epyc_bios_check_enforce": true}').returncode == 0
