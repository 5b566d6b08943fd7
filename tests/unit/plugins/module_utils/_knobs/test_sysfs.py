# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of the plain settings, and what SMT may say, which no machine of the lab has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io import paths
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import competing_programs, sysfs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import find_differences
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change, Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

CONTROL = f"{sysfs.CPUS}/smt/control"
WORD = st.text(alphabet="abcdefghijklmnopqrstuvwxyz_+", min_size=1, max_size=12)


class Machine:
    """The small machine with all settings, as a stock kernel shows them."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small(root)
        self.host = Host(self.tree.fs)
        put = self.tree.put
        put(f"{sysfs.CPUS}/possible", "0-39")
        put(f"{sysfs.THP}/enabled", "[always] madvise never")
        put(f"{sysfs.THP}/defrag", "always defer defer+madvise [madvise] never")
        put("/proc/sys/kernel/numa_balancing", 1)
        put("/proc/sys/kernel/nmi_watchdog", 1)
        put(paths.CACHE_AWARE, 1)
        put(f"{sysfs.WORKQUEUE}/cpumask", "ff,ffffffff")
        put(f"{sysfs.WORKQUEUE}/writeback/cpumask", "ff,ffffffff")

    def knobs(self, **options: Any) -> tuple[sysfs.Smt, sysfs.PlainSettings]:
        smt, plain = sysfs.build_knobs(self.host, options)[:2]
        assert isinstance(smt, sysfs.Smt) and isinstance(plain, sysfs.PlainSettings)
        return smt, plain

    def wanted(self, **options: Any) -> dict[str, str | None]:
        smt, plain = self.knobs(**options)
        return {**smt.wanted_settings(), **plain.wanted_settings()}

    def left(self, **options: Any) -> list[str]:
        """The addresses that would change."""
        changes = []
        for knob in sysfs.build_knobs(self.host, options):
            wanted = knob.wanted_settings()
            changes += find_differences(knob, wanted, knob.read_settings(wanted))
        return list(dict.fromkeys(change.address for change in changes))

    def text(self, path: str) -> str:
        return (self.tree.root / path[1:]).read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# Bracketed values


@given(st.lists(WORD, min_size=1, max_size=6, unique=True), st.data())
def test_a_bracketed_text_tells_its_word_and_all_offers(words: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(words))
    text = " ".join(f"[{word}]" if word == chosen else word for word in words)
    assert sysfs.parse_bracketed(text) == (chosen, words)
    assert sysfs.parse_bracketed(f"{text}\n") == (chosen, words)
    assert sysfs.parse_bracketed(" ".join(words)) == (None, words)


@given(st.text(alphabet="ab[] \n", max_size=20))
def test_no_text_breaks_the_parser_and_a_choice_is_offered(text: str) -> None:
    chosen, offers = sysfs.parse_bracketed(text)
    assert chosen is None or chosen.strip("[]") in offers


# What is asked


def test_options_become_the_words_of_the_kernel(machine: Machine) -> None:
    assert machine.wanted(
        thp="never",
        thp_defrag="defer+madvise",
        numa_balancing=False,
        nmi_watchdog=True,
        cache_aware_scheduling=False,
        workqueue_cpus="housekeeping",
        writeback_cpus="0-3,8",
        smt="off",
    ) == {
        "sysfs:smt/control": "off",
        "sysfs:thp/enabled": "never",
        "sysfs:thp/defrag": "defer+madvise",
        "sysfs:numa_balancing": "0",
        "sysfs:nmi_watchdog": "1",
        "sysfs:cache_aware_scheduling": "0",
        "sysfs:workqueue/cpumask": "0",
        "sysfs:writeback/cpumask": "0-3,8",
    }


def test_every_address_has_exactly_one_owner_and_can_be_read_without_a_request(machine: Machine) -> None:
    knobs: list[Knob] = list(machine.knobs())
    found = {}
    for name in sysfs.SETTINGS:
        (owner,) = [knob for knob in knobs if knob.owns_address(f"sysfs:{name}")]
        found.update(owner.read_settings([f"sysfs:{name}"]))
        assert owner.unreachable_reason(f"sysfs:{name}") is None
    assert found == {
        "sysfs:smt/control": "notsupported",
        "sysfs:thp/enabled": "always",
        "sysfs:thp/defrag": "madvise",
        "sysfs:numa_balancing": "1",
        "sysfs:nmi_watchdog": "1",
        "sysfs:cache_aware_scheduling": "1",
        "sysfs:workqueue/cpumask": "0-39",
        "sysfs:writeback/cpumask": "0-39",
    }
    assert machine.wanted() == {}


def test_masks_are_written_as_wide_as_the_host_could_be(machine: Machine) -> None:
    machine.knobs()[1].write_changes(
        [Change("sysfs:workqueue/cpumask", "0-39", "0,4"), Change("sysfs:thp/enabled", "", "never")]
    )
    assert machine.text(f"{sysfs.WORKQUEUE}/cpumask").startswith("00,00000011")
    machine.knobs()[1].write_changes([Change("sysfs:writeback/cpumask", "0-39", "")])
    assert machine.text(f"{sysfs.WORKQUEUE}/writeback/cpumask").startswith("00,00000000")


def test_memory_tiering_is_kept_where_balancing_is_asked_for(machine: Machine) -> None:
    machine.tree.put("/proc/sys/kernel/numa_balancing", 2)
    assert machine.wanted(numa_balancing=True) == {"sysfs:numa_balancing": "3"}
    assert machine.wanted(numa_balancing=False) == {"sysfs:numa_balancing": "0"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"thp": "sometimes"}, "thp: this kernel does not offer 'sometimes', only always, madvise, never"),
        ({"thp_defrag": "no"}, "thp_defrag: this kernel does not offer 'no'"),
        ({"numa_balancing": "yes"}, "numa_balancing: 'yes' is neither true nor false"),
        ({"workqueue_cpus": "99"}, "CPU 99 is not on this host"),
        ({"smt": "maybe"}, "smt: 'maybe' is not one of on, off and forceoff"),
        ({"workqueue_cpus": "0-3", "writeback_cpus": "4"}, "writeback_cpus: .* none in common"),
    ],
)
def test_what_makes_no_sense_is_refused(machine: Machine, options: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        machine.wanted(**options)


# What the kernel does not have


def test_what_is_not_there_is_off(machine: Machine) -> None:
    for name in ("numa_balancing", "nmi_watchdog"):
        machine.tree.drop(f"/proc/sys/kernel/{name}")
    machine.tree.drop(f"{sysfs.THP}/*")
    assert machine.left(numa_balancing=False, nmi_watchdog=False, thp="never") == []
    for options in ({"numa_balancing": True}, {"nmi_watchdog": True}, {"thp": "madvise"}, {"thp_defrag": "never"}):
        with pytest.raises(BadRequest, match="is not there: it needs CONFIG_"):
            machine.wanted(**options)


def test_a_kernel_without_cache_aware_scheduling_has_it_off(machine: Machine) -> None:
    machine.tree.drop(paths.CACHE_AWARE)
    machine.tree.put(f"{paths.SCHEDULER}/features", "PLACE_LAG")
    assert machine.left(cache_aware_scheduling=False) == []
    with pytest.raises(BadRequest, match=r"cannot be '1' here, .*/llc_balancing/enabled is not there: it needs kernel"):
        machine.wanted(cache_aware_scheduling=True)


@pytest.mark.parametrize("value", [True, False])
def test_without_debugfs_nothing_shows_cache_aware_scheduling(machine: Machine, value: bool) -> None:
    shutil.rmtree(machine.tree.root / paths.SCHEDULER[1:])
    with pytest.raises(
        BadRequest, match=r"nothing shows whether the kernel has it\. Mount debugfs on /sys/kernel/debug"
    ):
        machine.wanted(cache_aware_scheduling=value)
    reason = machine.knobs()[1].unreachable_reason("sysfs:cache_aware_scheduling")
    assert reason == "/sys/kernel/debug/sched is not there, so nothing shows it: mount debugfs on /sys/kernel/debug"


@pytest.mark.parametrize(("mode", "answer"), [(0o444, 0), (0o644, 524)], ids=["6.12", "6.1"])
def test_a_watchdog_without_a_counter(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, mode: int, answer: int
) -> None:
    machine.tree.put("/proc/sys/kernel/nmi_watchdog", 0)
    (machine.tree.root / "proc/sys/kernel/nmi_watchdog").chmod(mode)
    monkeypatch.setattr(machine.tree.fs, "write_refusal_errno", lambda path, nonsense: answer)
    assert machine.left(nmi_watchdog=False) == []
    with pytest.raises(BadRequest, match="has found no performance counter for it"):
        machine.wanted(nmi_watchdog=True)


def test_a_watchdog_that_only_refuses_nonsense_can_be_switched_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.tree.put("/proc/sys/kernel/nmi_watchdog", 0)
    monkeypatch.setattr(machine.tree.fs, "write_refusal_errno", lambda path, nonsense: 22)
    assert machine.wanted(nmi_watchdog=True) == {"sysfs:nmi_watchdog": "1"}


# SMT


@pytest.mark.parametrize(
    ("asked", "found", "active", "outcome"),
    [
        ("off", "on", 1, "change"),
        ("off", "off", 0, "met"),
        ("off", "forceoff", 0, "met"),
        ("off", "notsupported", 0, "met"),
        ("off", "notimplemented", 0, "met"),
        ("off", "notimplemented", 1, "CONFIG_HOTPLUG_SMT"),
        ("on", "on", 1, "met"),
        ("on", "off", 0, "change"),
        ("on", "forceoff", 0, "takes no other word until it boots again"),
        ("on", "notsupported", 0, "SMT is off in the BIOS or the CPU has one thread per core"),
        ("on", "notimplemented", 0, "CONFIG_HOTPLUG_SMT"),
        ("forceoff", "on", 1, "change"),
        ("forceoff", "off", 0, "change"),
        ("forceoff", "forceoff", 0, "met"),
        ("forceoff", "notsupported", 0, "met"),
        (True, "on", 1, "met"),
        (False, "on", 1, "change"),
    ],
)
def test_smt(machine: Machine, asked: object, found: str, active: int, outcome: str) -> None:
    machine.tree.put(CONTROL, found)
    machine.tree.put(f"{sysfs.CPUS}/smt/active", active)
    if outcome in ("change", "met"):
        assert machine.left(smt=asked) == (["sysfs:smt/control"] if outcome == "change" else [])
    else:
        with pytest.raises(BadRequest, match=outcome):
            machine.left(smt=asked)


def test_switching_smt_on_tells_what_the_new_cpus_lack(machine: Machine) -> None:
    machine.tree.put(CONTROL, "off")
    smt = machine.knobs(smt="on")[0]
    smt.wanted_settings()
    assert "start with the kernel's defaults" in smt.list_remarks()[0]


def test_after_switching_smt_the_cpus_are_read_anew(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.tree.put(CONTROL, "on")
    assert len(machine.host.parse_cpus("all")) == 16
    machine.tree.put(f"{sysfs.CPUS}/online", "0-7")
    machine.knobs(smt="off")[0].write_changes([Change("sysfs:smt/control", "on", "off")])
    assert machine.wanted(workqueue_cpus="all") == {"sysfs:workqueue/cpumask": "0-7"}


def test_smt_is_forced_off_last_because_that_cannot_be_undone(machine: Machine) -> None:
    machine.tree.put(CONTROL, "on")
    knobs = sysfs.build_knobs(machine.host, {"smt": "forceoff", "thp": "never"})
    assert [knob.wanted_settings() for knob in knobs] == [
        {"sysfs:smt/control": "off"},
        {"sysfs:thp/enabled": "never"},
        {"sysfs:smt/control": "forceoff"},
    ]
    assert sum(knob.owns_address("sysfs:smt/control") for knob in knobs) == 1


def test_a_forced_smt_cannot_be_put_back_before_the_next_boot(machine: Machine) -> None:
    machine.tree.put(CONTROL, "forceoff")
    assert "until it boots again" in (machine.knobs()[0].unreachable_reason("sysfs:smt/control") or "")
    assert machine.knobs(smt="forceoff")[0].unreachable_reason("sysfs:smt/control") is None
    switched, dummy, forced = sysfs.build_knobs(machine.host, {"smt": "forceoff"})
    for knob in (switched, forced):
        knob.write_changes([Change("sysfs:smt/control", "on", "forceoff")])
        assert "until it boots again" in (
            knob.unreachable_reason("sysfs:smt/control") or ""
        )  # What an undo of this run asks.
    machine.tree.drop(CONTROL)
    assert "is not there" in (machine.knobs()[0].unreachable_reason("sysfs:smt/control") or "")
    with pytest.raises(BadRequest, match=r"smt: .* is not there"):
        machine.wanted(smt="off")


# Masks that depend on each other, and other owners


def test_a_mask_that_the_kernel_would_ignore_is_told(machine: Machine) -> None:
    machine.tree.put(f"{sysfs.WORKQUEUE}/writeback/cpumask", "00,000000f0")
    plain = machine.knobs(workqueue_cpus="0-3")[1]
    plain.wanted_settings()
    assert plain.list_remarks()[0].startswith("workqueue_cpus: writeback may run on CPUs 4-7")
    with pytest.raises(BadRequest, match="Choose CPUs of 0-3"):
        machine.wanted(workqueue_cpus="0-3", writeback_cpus="4-7")
    assert machine.wanted(workqueue_cpus="0-3", writeback_cpus="2-7")["sysfs:writeback/cpumask"] == "2-7"


def test_isolated_cpus_are_told(machine: Machine) -> None:
    machine.tree.put(f"{sysfs.WORKQUEUE}/cpumask_isolated", "00,00000300")
    plain = machine.knobs(workqueue_cpus="0-3")[1]
    plain.wanted_settings()
    assert plain.list_remarks()[0].startswith("CPUs 8-9 are isolated by a cpuset partition")


def test_tuned_is_named_while_it_runs(machine: Machine) -> None:
    plain = machine.knobs(thp="never")[1]
    machine.tree.put("/run/tuned/tuned.pid", 812)
    plain.wanted_settings()
    assert plain.list_remarks() == []  # A pid file that nobody removed.
    machine.tree.put("/proc/812/comm", "tuned")
    machine.tree.put("/etc/tuned/active_profile", "throughput-performance")
    plain.wanted_settings()
    assert "TuneD runs here too (process 812, profile throughput-performance)" in plain.list_remarks()[0]
    assert competing_programs.running_tuned_remarks(KernelFS(str(machine.tree.root / "elsewhere")), "anything") == []


def test_what_interrupts_lose_with_smt_is_remembered_before(tmp_path: Path) -> None:
    """The kernel sends one anywhere whose CPUs all go, and its own layer comes too late to know."""
    tree = hosts.small(tmp_path, smt=True)
    tree.put("/sys/devices/system/cpu/smt/control", "on")
    tree.put("/proc/sys/kernel/random/boot_id", "this-boot")
    for number, cpus in {7: "0-31", 8: "17", 9: "16-18", 10: "0,17"}.items():
        tree.put(f"/proc/irq/{number}/smp_affinity_list", cpus)
    ledger = Ledger(Store(str(tmp_path)), tree.fs)
    smt = sysfs.build_knobs(Host(tree.fs), {"smt": "off"})[0]
    ledger.remember_originals(smt, [Change("sysfs:smt/control", "on", "off")])
    assert ledger.load_originals() == {
        "sysfs:smt/control": "on", "irq:8/affinity": "17", "irq:9/affinity": "16-18"
    }  # fmt: skip
    assert smt.settings_of_other_knobs_lost_by([Change("sysfs:smt/control", "off", "on")]) == {}
