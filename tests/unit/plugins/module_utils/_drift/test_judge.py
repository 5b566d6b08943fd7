# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on what outlives a boot: values are compared by what they mean, per knob."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import judge
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.converge import converge
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq.irqbalance import Irqbalance
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.knob import Knob
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.interrupts import FILE, Systemd, ledger, with_interrupts

REQUEST = {"irq/irq": {"cpus": "0-1"}}


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    return with_interrupts(tmp_path)


def verdicts(tree: hosts.Host, knob: Knob, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, bool]:
    """The verdicts on the only setting of a knob: now, at boot, and whether a reboot is pending."""
    monkeypatch.setattr(KNOBS["irq"], "build", lambda host, options: [knob])
    (one,) = judge.survey(Host(tree.fs), Store(str(tree.root), read_only=True), REQUEST)
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
    assert bool(converge([knob], ledger(tree), check=True).changes) is not fits, "site.yml must see it as drift does"


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
    assert bool(converge([knob], ledger(tree), check=True).changes) is not fits


def test_a_daemon_that_has_not_read_its_file_is_not_told(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    systemd = Systemd(tree)
    tree.put(FILE, "IRQBALANCE_BANNED_CPULIST=2-15")
    assert verdicts(tree, balance(tree, systemd, "ban"), monkeypatch)[0] == "drift"


def test_a_boot_parameter_runs_whatever_becomes_of_the_boot_entries() -> None:
    """Its ``same`` looks at boot entries, which say nothing about what runs."""
    knob = KNOBS["cmdline"].build(Host(hosts.standing("small").fs), {"parameters": ["quiet"]})[0]
    assert knob.in_force("cmdline:quiet", "", "")
    assert not knob.in_force("cmdline:quiet", "", None)
    assert not knob.same("cmdline:quiet", "", ""), "there is no boot entry"
