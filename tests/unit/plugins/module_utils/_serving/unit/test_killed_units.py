# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of an instance that are killed before any of their steps: the next run has the server run as it was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.managed_units import RESTARTS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import drift
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.instance import Instance
from ansible_collections.sovereign.epyc.tests.unit.fakes.killed_runs import killed_runs
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import LastingSystemd

# The threads of pytest's workers hold nothing that the child needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

MAIN = "llama-chat.service"
ONE, TWO = f"{INSTANCE_HEAD}\n[Service]\nNice=1\n", f"{INSTANCE_HEAD}\n[Service]\nNice=2\n"


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LastingSystemd:
    fake = LastingSystemd(tmp_path, {MAIN: "multi-user.target"})
    monkeypatch.setattr(command, "run_command", fake.run)
    return fake


def converge(systemd: LastingSystemd, text: str) -> bool:
    """Have the instance run with this unit file; return whether something was changed."""
    root = str(systemd.root)
    knob = Instance("chat", {f"{UNIT_FOLDER}/{MAIN}": text}, root=root)
    return bool(converge_knobs([knob], Ledger(Store(root), KernelFS(root))).changes)


@pytest.mark.parametrize("twice", [False, True])
def test_an_update_that_was_killed_at_any_step_is_finished_by_the_next_run(
    systemd: LastingSystemd, twice: bool
) -> None:
    """Also where the next run is killed too, at the last step before the restart."""
    turns = 0
    for dummy in killed_runs(
        lambda: converge(systemd, ONE), lambda: converge(systemd, TWO), [(command, "run_command")]
    ):
        turns += 1
        if twice:
            list(zip(range(turns), killed_runs(lambda: None, lambda: converge(systemd, TWO))))
        converge(systemd, TWO)
        assert systemd.running_text(MAIN) == TWO, turns
        assert not converge(systemd, TWO)
    assert turns > 8
    converge(systemd, ONE)
    assert not (systemd.root / RESTARTS.lstrip("/")).exists()


def test_a_stopped_instance_is_not_started_with_what_systemd_has_read_before(systemd: LastingSystemd) -> None:
    turns = 0

    def begin() -> None:
        converge(systemd, ONE)
        systemd.run(["systemctl", "stop", MAIN])

    for dummy in killed_runs(begin, lambda: converge(systemd, TWO), [(command, "run_command")]):
        turns += 1
        converge(systemd, TWO)
        assert systemd.running_text(MAIN) == TWO, turns
    assert turns > 8


def test_the_check_of_the_host_names_a_server_that_waits_for_its_restart(systemd: LastingSystemd) -> None:
    seen = set()
    for dummy in killed_runs(
        lambda: converge(systemd, ONE), lambda: converge(systemd, TWO), [(command, "run_command")]
    ):
        is_old = systemd.running_text(MAIN) == ONE and systemd.file(MAIN).read_text() == TWO
        (state,) = (
            verdict
            for verdict in drift.list_unit_verdicts(str(systemd.root))
            if verdict.address == f"llama:{MAIN}/active"
        )
        seen.add((is_old, not state.is_clean))
    assert (True, True) in seen and (True, False) not in seen
