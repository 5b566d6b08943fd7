# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What irqbalance is told, with a systemctl that is played; tests/lab/test_irqbalance.py has the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq import irqbalance
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq import knob as irq_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import RestoringKnob
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.interrupts import FILE, Systemd, ledger, with_interrupts

SHIPPED = "# The environment file\n#IRQBALANCE_BANNED_CPULIST=\n#\nIRQBALANCE_ARGS=--journal"  # no newline at its end


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    return with_interrupts(tmp_path)


def balance(tree: hosts.Host, systemd: Any, mode: str, spread: bool = False) -> irqbalance.Irqbalance:
    return irqbalance.Irqbalance(Host(tree.fs), mode, lambda: (0, 1), spread, systemd)


@pytest.fixture
def shipped(tree: hosts.Host) -> Path:
    tree.put(FILE, "")
    path = tree.root / FILE.lstrip("/")
    path.write_text(SHIPPED)
    return path


@pytest.mark.parametrize("active", [True, False])
def test_ban_and_back(tree: hosts.Host, shipped: Path, active: bool) -> None:
    systemd = Systemd(tree, active)
    assert converge_knobs([balance(tree, systemd, "ban")], ledger(tree)).to_diff() == {
        "before": {"irq:irqbalance/banned_cpus": None},
        "after": {"irq:irqbalance/banned_cpus": "2-15"},
    }
    assert shipped.read_text() == f"IRQBALANCE_BANNED_CPULIST=2-15\n{SHIPPED}"
    assert systemd.calls == ["try-restart"]
    again = balance(tree, systemd, "ban")
    assert converge_knobs([again], ledger(tree)).changes == []
    assert again.read_live_settings([irqbalance.BANNED]) == {irqbalance.BANNED: "2-15"}
    converge_knobs([RestoringKnob(balance(tree, systemd, "ignore"), ledger(tree))], ledger(tree))
    assert shipped.read_text() == SHIPPED


def test_a_daemon_older_than_its_file_is_restarted(tree: hosts.Host, shipped: Path) -> None:
    systemd = Systemd(tree)
    shipped.write_text(f"{SHIPPED}\nIRQBALANCE_BANNED_CPULIST='2-14,15'\n")
    knob = balance(tree, systemd, "ban")
    assert knob.read_live_settings([irqbalance.BANNED]) == {irqbalance.BANNED: None}
    assert [change.address for change in converge_knobs([knob], ledger(tree)).changes] == [irqbalance.BANNED]
    assert converge_knobs([balance(tree, systemd, "ban")], ledger(tree)).changes == []


def test_a_file_that_only_we_made_goes_again(tree: hosts.Host) -> None:
    systemd = Systemd(tree)
    converge_knobs([balance(tree, systemd, "ban")], ledger(tree))
    converge_knobs([RestoringKnob(balance(tree, systemd, "ignore"), ledger(tree))], ledger(tree))
    assert not (tree.root / FILE.lstrip("/")).exists()


@pytest.mark.parametrize(("active", "enabled"), [(True, "enabled"), (True, "disabled"), (False, "enabled")])
def test_stop_and_back(tree: hosts.Host, active: bool, enabled: str) -> None:
    systemd = Systemd(tree, active, enabled)
    assert len(converge_knobs([balance(tree, systemd, "stop")], ledger(tree)).changes) == 1
    assert (systemd.active, systemd.enabled) == (False, "disabled")
    assert converge_knobs([balance(tree, systemd, "stop")], ledger(tree)).changes == []
    converge_knobs([RestoringKnob(balance(tree, systemd, "ignore"), ledger(tree))], ledger(tree))
    assert (systemd.active, systemd.enabled) == (active, enabled)


def test_one_that_is_masked_is_stopped(tree: hosts.Host) -> None:
    assert converge_knobs([balance(tree, Systemd(tree, False, "masked"), "stop")], ledger(tree)).changes == []


def test_one_that_is_masked_needs_no_ban(tree: hosts.Host) -> None:
    assert balance(tree, Systemd(tree, False, "masked"), "ban").wanted_settings() == {}
    with pytest.raises(BadRequest, match="names no EnvironmentFile"):
        balance(tree, Systemd(tree, True, "masked"), "ban").wanted_settings()


def test_ignored_ones_are_told_of_when_they_run(tree: hosts.Host) -> None:
    for active, count in ((True, 1), (False, 0)):
        knob = balance(tree, Systemd(tree, active), "ignore")
        assert knob.wanted_settings() == {}
        assert len(knob.list_remarks()) == count


@pytest.mark.parametrize("mode", ["ban", "stop", "ignore"])
def test_none_is_none(tree: hosts.Host, mode: str) -> None:
    knob = balance(tree, None, mode)
    assert (knob.wanted_settings(), knob.list_remarks(), knob.module_facts()) == (
        {},
        [],
        {"irqbalance": "not installed"},
    )


def test_what_irqbalance_would_not_heed_is_refused(tree: hosts.Host, shipped: Path) -> None:
    shipped.write_text("IRQBALANCE_BANNED_CPUS=ff\n")
    with pytest.raises(BadRequest, match="does not look at"):
        balance(tree, Systemd(tree), "ban").wanted_settings()
    with pytest.raises(BadRequest, match="spread"):
        balance(tree, Systemd(tree), "ban", spread=True).wanted_settings()
    shipped.write_text("IRQBALANCE_BANNED_CPUS=\n")
    assert balance(tree, Systemd(tree), "ban").wanted_settings() == {irqbalance.BANNED: "2-15"}


def test_a_banned_irqbalance_may_choose_among_the_cpus(tree: hosts.Host) -> None:
    host = Host(tree.fs)
    for active, fits in ((True, True), (False, False)):
        knob = irq_knob.IrqAffinity(host, {}, balance(tree, Systemd(tree, active), "ban"))
        assert knob.values_equal("irq:9/affinity", "0-3", "2") is fits
        assert knob.values_equal("irq:9/affinity", "0-3", "2,8") is False
        assert knob.values_equal("irq:9/affinity", "0-3", "") is False


ROWS = st.lists(st.sampled_from(["", "# A=1", "B=2", " A=3", 'A="4"', "AA=5"]), max_size=6)


@given(ROWS, st.sampled_from(["\n", ""]))
def test_a_variable_is_set_and_taken_out_without_a_trace(rows: list[str], end: str) -> None:
    text = "\n".join(rows) + end
    before = irqbalance.find_shell_variable(text, "A")
    changed = irqbalance.set_shell_variable(text, "A", "9")
    assert irqbalance.find_shell_variable(changed, "A") == "9"
    back = irqbalance.set_shell_variable(changed, "A", before)
    assert back.replace(" A=", "A=") == text.replace(" A=", "A=")
