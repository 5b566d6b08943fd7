# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts: values that outlive a boot are compared by what they mean, and what a host cannot have is told once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import judge
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq.irqbalance import Irqbalance
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.interrupts import FILE, Systemd, ledger, with_interrupts
from ansible_collections.sovereign.epyc.tests.unit.fakes.registers import give_registers

REQUEST = {"irq/irq": {"cpus": "0-1"}}


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    return with_interrupts(tmp_path)


def verdicts(tree: hosts.Host, knob: Knob, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, bool]:
    """The verdicts on the only setting of a knob: now, at boot, and whether a reboot is pending."""
    monkeypatch.setattr(KNOBS["irq"], "build_knobs", lambda host, options: [knob])
    (one,) = judge.judge_requests(Host(tree.fs), Store(str(tree.root), read_only=True), REQUEST)
    return one.live, one.persistent, one.pending_reboot


def balance(tree: hosts.Host, systemd: Systemd, mode: str) -> Irqbalance:
    return Irqbalance(Host(tree.fs), mode, lambda: (0, 1), run=systemd)


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("enabled", ["disabled", "masked", "static", "enabled"])
def test_a_service_that_stays_stopped_is_stopped_in_any_word_of_systemd(
    tree: hosts.Host, monkeypatch: pytest.MonkeyPatch, active: bool, enabled: str
) -> None:
    fits = not active and enabled != "enabled"
    knob = balance(tree, Systemd(tree, active, enabled), "stop")
    word = "ok" if fits else "drift"
    assert verdicts(tree, knob, monkeypatch) == (word, word, False)
    assert bool(converge_knobs([knob], ledger(tree), check=True).changes) is not fits, (
        "site.yml must see it as drift does"
    )


@pytest.mark.parametrize(
    ("spelled", "fits"),
    [("2-15", True), ('"2-15"', True), ("2,3,4-15", True), ("15,2-14", True), ("2-14", False), ("some", False)],
)
def test_a_list_of_banned_cpus_is_its_cpus(
    tree: hosts.Host, monkeypatch: pytest.MonkeyPatch, spelled: str, fits: bool
) -> None:
    tree.put(FILE, f"IRQBALANCE_BANNED_CPULIST={spelled}")
    knob = balance(tree, Systemd(tree), "ban")
    word = "ok" if fits else "drift"
    assert verdicts(tree, knob, monkeypatch) == (word, word, False)
    assert bool(converge_knobs([knob], ledger(tree), check=True).changes) is not fits


def test_a_daemon_that_has_not_read_its_file_is_drift(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    systemd = Systemd(tree)
    tree.put(FILE, "IRQBALANCE_BANNED_CPULIST=2-15")
    assert verdicts(tree, balance(tree, systemd, "ban"), monkeypatch)[0] == "drift"


def test_a_boot_parameter_runs_whatever_becomes_of_the_boot_entries() -> None:
    """Its ``values_equal`` looks at boot entries, which say nothing about what runs."""
    knob = KNOBS["cmdline"].build_knobs(Host(hosts.standing("small").fs), {"parameters": ["quiet"]})[0]
    knob._find = lambda fs: SimpleNamespace(remake_hint="update-grub makes them")  # type: ignore[attr-defined]
    assert knob.is_in_force("cmdline:quiet", "", "")
    assert not knob.is_in_force("cmdline:quiet", "", None)
    assert not knob.values_equal("cmdline:quiet", "", ""), "there is no boot entry"


# What a host cannot have, and what cannot be read


@pytest.fixture
def small(tmp_path: Path) -> hosts.Host:
    return hosts.small(tmp_path)


OFF = {"settings": [{"cpus": "all", "prefetch_control": {"l1_stream": "disabled"}}], "load_module": True}


def survey(small: hosts.Host, **requests: dict[str, object]) -> list[tuple[str, str, bool]]:
    """What is said of requests, by the name of the knob: address, reason, and whether the host could have it."""
    found = judge.judge_requests(
        Host(small.fs),
        Store(str(small.root), read_only=True),
        {f"{name.partition('_')[0]}/{name}": options for name, options in requests.items()},
    )
    return [(one.address, one.reason, one.supported) for one in found]


@pytest.mark.parametrize("loaded", [True, False])
def test_registers_of_a_locked_down_kernel_have_one_verdict(small: hosts.Host, loaded: bool) -> None:
    small.fs.read_only = True
    small.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality")
    if loaded:
        give_registers(small, range(16))
    ((address, reason, supported),) = survey(small, msr=OFF)
    assert (address, supported) == ("msr:", False), "not that a kernel module has to be loaded, too"
    assert reason.startswith("Registers of this host can be read but not written: the kernel is locked down")
    assert ("'modprobe -a msr'" in reason) is not loaded, "it may be that they hold what is asked"


def test_registers_that_hold_what_is_asked_are_fine_on_a_locked_down_kernel(small: hosts.Host) -> None:
    small.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality")
    give_registers(small, range(16))
    on = {"settings": [{"cpus": "all", "prefetch_control": {"l1_stream": "enabled"}}]}
    assert {supported for dummy, dummy, supported in survey(small, msr=on)} == {True}
    assert len(survey(small, msr=on)) == 16


def test_a_verdict_on_a_whole_request_replaces_no_other(small: hosts.Host) -> None:
    told = survey(small, sysfs_one={"thp": "always"}, sysfs_two={"workqueue_cpus": "nowhere"})
    assert [address for address, dummy, dummy in told] == ["sysfs:", "sysfs:"]
    assert len({reason for dummy, reason, dummy in told}) == 2


def test_of_two_requests_for_one_address_the_later_one_is_judged(small: hosts.Host) -> None:
    """They are applied in the order of their labels, so the kernel has the value of the last one."""
    small.put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    requests = {"sysfs/two": {"thp": "madvise"}, "sysfs/one": {"thp": "always"}}
    (verdict,) = judge.judge_requests(Host(small.fs), Store(str(small.root), read_only=True), requests)
    assert (verdict.request, verdict.wanted, verdict.live) == ("sysfs/two", "madvise", "ok")


@pytest.mark.parametrize("options", [{"settings": 5}, {"settings": [5]}, {"settings": [{}]}, {"settings": "x"}])
def test_unusable_stored_options_do_not_end_the_check(small: hosts.Host, options: dict[str, object]) -> None:
    ((address, reason, supported),) = survey(small, msr=options)
    assert (address, supported) == ("msr:", True)
    assert reason.startswith("the stored options cannot be used (")
