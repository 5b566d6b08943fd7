# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import judge
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.survey import Survey
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import Verdict
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import save_measured_speed
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import boot_service, checklist, checklist_items
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist_items import Item
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.pending_reboot import (
    ineffective_reboot_reasons,
    parameters_restored_at_next_boot,
    read_boot_id_and_parameters,
    waits_for_reboot_messages,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import firmware, hosts

SHOW = {
    "LoadState": "loaded",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "Result": "success",
    "ExecMainStatus": "0",
    "ConditionResult": "yes",
    "ConditionTimestampMonotonic": "123",
}


def verdict(address: str, wanted: str | None, found: str | None, **changes: Any) -> Verdict:
    knob = address.partition(":")[0]
    request = next((f"{knob}/{label}" for label in KNOBS[knob].roles), "") if knob in KNOBS else f"{knob}/x"
    one = Verdict(request, address, wanted)
    one.found = found
    one.live = "ok" if wanted == found else "drift"
    one.persistent = "ok"
    for name, value in changes.items():
        setattr(one, name, value)
    return one


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hosts.Host:
    """A small machine whose systemd answers what the test puts into SHOW, and started in 2026."""

    def run(words: list[str]) -> str:
        if words[0] == "systemctl":
            return "\n".join(f"{key}={value}" for key, value in SHOW.items())
        assert words[:3] == ["env", "TZ=UTC", "systemctl"]
        return "Tue 2026-11-24 18:26:44 UTC\n"

    monkeypatch.setattr(boot_service.command, "run_command", run)
    host = hosts.small(tmp_path)
    host.put("/proc/cmdline", "ro")
    host.put("/sys/devices/system/cpu/isolated", "")
    return host


def check(tree: hosts.Host, verdicts: list[Verdict], **expected: Any) -> dict[str, Item]:
    rules = {"bios": {}, "layers": [], "units": {}, "allow_pending_reboot": False, **expected}
    run, host = boot_service.read_boot_service_state(tree.fs), Host(tree.fs)
    survey = Survey(host, [*verdicts, *judge.judge_roles_with_offline_cpus(host)])
    return {item.name: item for item in checklist.Checklist(**rules).check_host(survey, run)}


def test_a_bare_host_is_asked_nothing(tree: hosts.Host) -> None:
    items = check(tree, [])
    assert {name for name, item in items.items() if item.verdict != "not asked for"} == {"boot_service"}
    assert checklist_items.messages_of_unclean_items(list(items.values())) == []


def test_a_memory_module_that_failed_is_missed(tree: hosts.Host) -> None:
    assert not {"memory_channels", "cores"} & set(check(tree, []))
    names = [(f"DIMM_P0_{letter}0", "BANK 0") for letter in "ABCDEFGHIJKL"]
    for missing, expected in ((["DIMM_P0_C0"], "wrong"), ([], "ok")):
        firmware.give(tree, firmware.filled(names, missing))
        items = check(tree, [], bios={"memory_channels": "all"})
        assert items["memory_channels"].verdict == expected
        assert "memory_speed" not in items


def test_a_layer_that_shall_be_there_and_never_ran_is_wrong(tree: hosts.Host) -> None:
    item = check(tree, [], layers=["msr"])["msr"]
    assert (item.verdict, item.sentence) == (
        "wrong",
        "Nothing is stored for it on this host, but it is required. Run site.yml.",
    )


def test_drift_is_named_with_both_values_and_the_way_out(tree: hosts.Host) -> None:
    rows = [verdict("resctrl:draft/L3/2", "f", "ff"), verdict("resctrl:draft/L3/3", "f", "f")]
    item = check(tree, rows)["resctrl"]
    assert item.verdict == "wrong"
    assert item.sentence == (
        "L3 share of group draft, L3 domain 2 (CCD 1): found ff, wanted f. Run site.yml --tags cat."
    )


def test_many_are_counted(tree: hosts.Host) -> None:
    rows = [verdict(f"irq:{number}/affinity", "0", str(number + 1)) for number in range(9)]
    assert "CPUs, interrupt 2: found 3, wanted 0; and 6 more. Run" in check(tree, rows)["irq"].sentence


def test_what_is_right_now_and_not_at_boot_is_wrong(tree: hosts.Host) -> None:
    rows = [verdict("sysfs:thp/enabled", "always", "always", persistent="drift", reason="set persistent")]
    item = check(tree, rows)["sysfs"]
    assert item.verdict == "wrong"
    assert item.sentence.startswith("transparent huge pages: always now, as wanted; nothing after a boot; set ")


def test_unknown_is_not_fine(tree: hosts.Host) -> None:
    rows = [
        verdict("msr:0xc0000108[1]/cpu3", "1", None, live="unknown", persistent="unknown", reason="CPU 3 is offline")
    ]
    item = check(tree, rows)["msr"]
    assert (item.verdict, item.is_clean) == ("unknown", False)
    assert item.sentence.startswith("prefetcher l1_stride, CPU 3: unknown: CPU 3 is offline. ")


def test_what_a_host_cannot_have_comes_with_no_advice_that_cannot_help(tree: hosts.Host) -> None:
    gone = verdict("msr:", None, None, live="unknown", persistent="unknown", supported=False, reason="Locked down.")
    item = check(tree, [gone])["msr"]
    assert (item.verdict, item.is_clean) == ("unsupported", False)
    assert item.sentence == (
        "not supported here: Locked down. No command gives a host what it cannot have: change what the inventory asks "
        "for."
    )
    assert checklist_items.render_checklist([item]).splitlines() == [
        f"UNSUPPORTED prefetchers  {item.sentence}",
        "1 items: 0 ok, 0 wrong, 0 unknown, 1 unsupported",
    ]


def test_the_worst_of_a_layer_is_what_it_is(tree: hosts.Host) -> None:
    unread = verdict("sysfs:", None, None, live="unknown", persistent="unknown", reason="cannot be read")
    never = verdict("sysfs:", None, None, live="unknown", persistent="unknown", supported=False, reason="no such CPU")
    wrong = verdict("sysfs:thp/enabled", "never", "always")
    for verdicts, expected in (([unread], "unknown"), ([unread, never], "unsupported"), ([never, wrong], "wrong")):
        item = check(tree, verdicts)["sysfs"]
        assert item.verdict == expected
        assert ("found always, wanted never" in item.sentence) is (wrong in verdicts)
        assert all(one.reason in item.sentence for one in verdicts)


@pytest.mark.parametrize(("allowed", "expected"), [(False, "wrong"), (True, "pending")])
def test_a_parameter_that_waits_for_a_reboot(tree: hosts.Host, allowed: bool, expected: str) -> None:
    rows = [verdict("cmdline:nohz_full", "1-3", None, pending_reboot=True)]
    item = check(tree, rows, allow_pending_reboot=allowed)["cmdline"]
    assert item.verdict == expected
    assert item.sentence == (
        "boot parameter, nohz_full: found nothing, wanted 1-3, which waits for a reboot. Run reboot.yml -e "
        "epyc_reboot_ok=true."
    )
    assert waits_for_reboot_messages(tree.fs, rows) == [
        "cmdline:nohz_full is nothing and should be 1-3, which waits for a reboot"
    ]


def test_waiting_excuses_no_drift(tree: hosts.Host) -> None:
    rows = [
        verdict("cmdline:nohz_full", "1-3", None, pending_reboot=True),
        verdict("cmdline:quiet", None, "", persistent="drift"),
    ]
    assert check(tree, rows, allow_pending_reboot=True)["cmdline"].verdict == "wrong"


def test_only_a_boot_parameter_waits_for_a_reboot() -> None:
    assert not judge.waits_for_reboot(verdict("irq:irqbalance/banned", "1", "2", pending_reboot=True))


@pytest.mark.parametrize(
    ("parameter", "value", "shown", "expected"),
    [
        ("nohz_full", "1-3", "1-3", "ok"),
        ("nohz_full", "1-15:1/2", "1,3,5,7,9,11,13,15", "ok"),
        ("nohz_full", "1-3", "1-2", "wrong"),
        ("nohz_full", "1-3", " (null)", "wrong"),
        ("nohz_full", "1-3", None, "wrong"),
        ("isolcpus", "domain,managed_irq,1-3", "1-3", "ok"),
        ("isolcpus", "1-3", "", "wrong"),
        ("isolcpus", "managed_irq,1-3", "", "not asked for"),
    ],
)
def test_the_kernel_must_have_isolated_what_its_line_says(
    tree: hosts.Host, parameter: str, value: str, shown: str | None, expected: str
) -> None:
    file = {"nohz_full": "nohz_full", "isolcpus": "isolated"}[parameter]
    if shown is not None:
        tree.put(f"/sys/devices/system/cpu/{file}", shown)
    assert check(tree, [verdict(f"cmdline:{parameter}", value, value)])["isolation"].verdict == expected


@pytest.mark.parametrize(
    ("shown", "word", "expected"),
    [
        ({}, "done", "ok"),
        ({"LoadState": "not-found"}, "missing", "wrong"),
        ({"UnitFileState": "disabled"}, "missing", "wrong"),
        ({"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "1"}, "failed", "wrong"),
        ({"ActiveState": "activating"}, "starting", "unknown"),
        ({"ActiveState": "inactive", "Job": "77"}, "starting", "unknown"),
        ({"ActiveState": "inactive", "ConditionResult": "no"}, "idle", "ok"),
    ],
)
def test_boot_service(
    tree: hosts.Host, monkeypatch: pytest.MonkeyPatch, shown: dict[str, str], word: str, expected: str
) -> None:
    for key, value in shown.items():
        monkeypatch.setitem(SHOW, key, value)
    item = check(tree, [verdict("sysfs:numa_balancing", "0", "0")])["boot_service"]
    assert (item.found, item.verdict) == (word, expected)


@pytest.mark.parametrize("asked", ["0", "123"], ids=["never asked", "asked"])
@pytest.mark.parametrize(
    ("installed", "word", "expected"),
    [(1795544803, "missed", "wrong"), (1795544804, "missed", "wrong"), (1795544805, "idle", "ok")],
    ids=["before", "with", "after"],
)
def test_a_boot_service_younger_than_the_boot_had_no_turn_yet(
    tree: hosts.Host, monkeypatch: pytest.MonkeyPatch, installed: int, word: str, expected: str, asked: str
) -> None:
    monkeypatch.setitem(SHOW, "ActiveState", "inactive")
    monkeypatch.setitem(SHOW, "ConditionTimestampMonotonic", asked)
    tree.put(boot_service.UNIT, "")
    os.utime(tree.root / boot_service.UNIT.lstrip("/"), (installed, installed))
    item = check(tree, [])["boot_service"]
    assert (item.found, item.verdict) == (word, expected)


def test_a_host_without_systemd_is_unknown(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(words: object) -> str:
        raise TuningError("'systemctl show' failed.")

    monkeypatch.setattr(boot_service.command, "run_command", refuse)
    item = check(tree, [])["boot_service"]
    assert (item.verdict, item.sentence) == ("unknown", "'systemctl show' failed.")


def test_a_role_without_some_of_its_cpus_is_wrong(tree: hosts.Host) -> None:
    """Every setting is as planned then; drift says the same."""
    assert "cpus" not in check(tree, [])
    tree.offline("5-7")
    item = check(tree, [])["cpus"]
    assert (item.verdict, item.is_clean) == ("wrong", False)
    assert "verify is without CPU 5-7, which is offline. Bring each back with " in item.sentence
    assert item.sentence.endswith(" Run 'chcpu --enable 5-7' on the host.")


def threads(tree: hosts.Host, *where: tuple[str, int]) -> None:
    """Put a service whose threads may run on some CPUs and were last on one."""
    tree.put("/sys/fs/cgroup/system.slice/llama.service/cgroup.procs", "100")
    for number, (may, last) in enumerate(where):
        folder = f"/proc/100/task/{100 + number}"
        switches = "voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0"
        tree.put(f"{folder}/status", f"Name:\tllama\nCpus_allowed_list:\t{may}\n{switches}")
        tree.put(f"{folder}/stat", f"{100 + number} (a) b) S {' '.join(['0'] * 35)} {last} 0")


def placement(tree: hosts.Host, cpus: str = "") -> Item:
    return check(tree, [], units={"llama.service": cpus})["threads/llama.service"]


def test_a_service_that_does_not_run_is_unknown(tree: hosts.Host) -> None:
    item = placement(tree)
    assert item.verdict == "unknown"
    assert "it does not run" in item.sentence


def test_threads_outside_of_their_cpus(tree: hosts.Host) -> None:
    threads(tree, ("4-7", 4), ("0-15", 5))
    item = placement(tree, "4-7")
    assert item.verdict == "wrong"
    assert item.sentence == (
        "1 of 2 threads may also run on 0-3,8-15, outside of 4-7 (4-7). Set AllowedCPUs=4-7 for llama.service."
    )
    assert placement(tree).verdict == "ok"


@pytest.mark.parametrize(
    ("isolated", "where", "expected"),
    [
        ("4-7", [("4-7", 4)] * 4, "wrong"),  # piled up
        ("", [("4-7", 4)] * 4, "ok"),  # the kernel moves them when they have work
        ("4-7", [("4-7", 4), ("4-7", 5), ("4-7", 6), ("4-7", 7)], "ok"),
        ("4-7", [("4", 4), ("5", 5), ("6", 6), ("7", 7)], "ok"),  # pinned
        ("4-7", [("4-7", 4)], "ok"),
    ],
)
def test_threads_on_isolated_cpus_must_be_spread(
    tree: hosts.Host, isolated: str, where: list[tuple[str, int]], expected: str
) -> None:
    tree.put("/sys/devices/system/cpu/isolated", isolated)
    threads(tree, *where)
    assert placement(tree).verdict == expected


def partition(tree: hosts.Host, kind: str) -> None:
    tree.put("/sys/fs/cgroup/cgroup.subtree_control", "cpuset")
    tree.put("/sys/fs/cgroup/llama.slice/cpuset.cpus.partition", kind)
    tree.put("/sys/fs/cgroup/llama.slice/cpuset.cpus.effective", "4-7")
    tree.put("/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-3,8-15")


def test_threads_on_a_partition_must_be_spread_where_it_is_isolated(tree: hosts.Host) -> None:
    threads(tree, *[("4-7", 4)] * 4)
    partition(tree, "root")
    assert placement(tree).verdict == "ok"
    partition(tree, "isolated")
    assert placement(tree).verdict == "wrong"


def test_isolated_cpus_that_wait_for_a_reboot_are_not_called_not_asked_for(tree: hosts.Host) -> None:
    waiting = [verdict(f"cmdline:{name}", "1-3", None, pending_reboot=True) for name in ("nohz_full", "isolcpus")]
    item = check(tree, waiting)["isolation"]
    assert (item.verdict, item.sentence) == (
        "pending",
        "No CPU is isolated yet: a reboot brings isolcpus and nohz_full.",
    )


def test_only_its_own_tasks_run_on_a_partition(tree: hosts.Host) -> None:
    partition(tree, "root")
    item = check(tree, [])["isolation"]
    assert item.verdict == "ok"
    assert item.sentence.startswith("llama.slice is a partition (root) of CPUs 4-7: only its tasks run there, and ")
    tree.put("/sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-4")
    item = check(tree, [])["isolation"]
    assert (item.verdict, item.sentence) == (
        "wrong",
        "user.slice may run on CPUs of the partition of llama.slice.",
    )


def test_the_page_counts_and_shouts(tree: hosts.Host) -> None:
    items = check(tree, [verdict("resctrl:draft/L3/2", "f", "ff")], bios={"nps": "NPS4", "smt": "on"})
    page = checklist_items.render_checklist(list(items.values())).splitlines()
    nps = "It is NPS4 (4 NUMA nodes with CPUs, 1 socket, 4 L3 domains)."
    assert page[0] == f"ok            NUMA nodes per socket  {nps}"
    assert page[1].startswith("WRONG         SMT  ")
    assert page[-1] == "14 items: 2 ok, 2 wrong, 0 unknown, 10 not asked for"


def test_a_restored_host_needs_no_boot_service_and_may_wait_for_a_reboot(
    tree: hosts.Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the reboot that ends an undo would call the host not clean."""
    monkeypatch.setitem(SHOW, "LoadState", "not-found")
    assert check(tree, [])["boot_service"].verdict == "not asked for"
    assert check(tree, [verdict("sysfs:numa_balancing", "0", "0")])["boot_service"].verdict == "wrong"
    assert parameters_restored_at_next_boot(tree.fs, []) == []
    tree.put("/run/sovereign-epyc/waits-for-reboot", "isolcpus\nnohz_full")
    asked = [verdict("cmdline:nohz_full", "1", "1")]
    assert parameters_restored_at_next_boot(tree.fs, asked) == ["isolcpus"]
    assert waits_for_reboot_messages(tree.fs, asked) == ["cmdline:isolcpus was put back, which waits for a reboot"]


def test_a_reboot_has_an_effect_where_the_boot_and_the_restored_parameters_changed(tree: hosts.Host) -> None:
    tree.put("/run/sovereign-epyc/waits-for-reboot", "isolcpus\nmem-encrypt\nquiet")
    tree.put("/proc/cmdline", "ro isolcpus=1-3 mem_encrypt=on")
    tree.put("/proc/sys/kernel/random/boot_id", "first")
    before = read_boot_id_and_parameters(tree.fs, [])
    assert ineffective_reboot_reasons(before, before) == ["It has not rebooted: its boot id is still that from before."]
    tree.put("/proc/sys/kernel/random/boot_id", "second")
    (reason,) = ineffective_reboot_reasons(before, read_boot_id_and_parameters(tree.fs, []))
    assert reason.startswith("The kernel was started with isolcpus, mem-encrypt as before, which had been put back")
    tree.put("/proc/cmdline", "ro isolcpus=1 quiet")
    assert ineffective_reboot_reasons(before, read_boot_id_and_parameters(tree.fs, [])) == []


def test_memory_that_reads_a_third_is_the_first_line(tree: hosts.Host) -> None:
    host = Host(tree.fs)
    assert next(iter(check(tree, []))) != "memory_bandwidth"
    assert check(tree, [])["memory_bandwidth"].verdict == "not asked for"
    nodes = [node.id for node in host.topology.nodes]
    # The small machine has two CCDs, which carry 115.2 GB/s.
    save_measured_speed(host, Store(str(tree.root)), dict.fromkeys(nodes, 10.0), 38.0)
    items = check(tree, [])
    assert next(iter(items)) == "memory_bandwidth"
    assert items["memory_bandwidth"].verdict == "wrong"
    assert "reads 38 of 115 GB/s" in items["memory_bandwidth"].sentence
    reported = check(tree, [], memory_bandwidth=False)
    assert (next(iter(reported)), reported["memory_bandwidth"].verdict) == ("nps", "not asked for")
    save_measured_speed(host, Store(str(tree.root)), dict.fromkeys(nodes, 25.0), 95.0)
    assert check(tree, [])["memory_bandwidth"].verdict == "ok"
    tree.put("/proc/sys/kernel/osrelease", "6.13.0")
    stale = check(tree, [])["memory_bandwidth"]
    assert (stale.verdict, "does not count any more" in stale.sentence) == ("not asked for", True)
