# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs that end before any of their calls that change a file: the next run and a restore go on.

No file stays but the history.

On a kernel runs are killed in tests/lab/test_killed.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HISTORY, REQUESTS, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import FILES, Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import StoredRequests
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.undo import undo_changes
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.killed_runs import killed_runs

# The threads of pytest's workers hold nothing that the child needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

OPTIONS = {"numa_balancing": False}


class Machine:
    """A small machine with one setting that a run changes and stores."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small_to_tune(root)
        self.store = Store(str(root))
        self.fs = KernelFS(str(root))

    def tune(self) -> None:
        knobs = [
            *KNOBS["sysfs"].build_knobs(Host(self.fs), OPTIONS),
            StoredRequests(self.store, {"sysfs/numa": OPTIONS}),
        ]
        converge_knobs(knobs, Ledger(self.store, self.fs))

    def restore(self) -> None:
        assert undo_changes(Host(self.fs), Ledger(self.store, self.fs)).left == []

    def files(self) -> set[str]:
        """Return the files of the store but for the history, which an undo keeps."""
        folder = Path(self.store.folder)
        return {path.name for path in folder.iterdir()} - {HISTORY} if folder.exists() else set()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_run_after_one_that_was_killed_leaves_no_file_of_it(machine: Machine) -> None:
    left = set()
    for turn in killed_runs(machine.restore, machine.tune):
        left |= {name for name in machine.files() if name.startswith(".")}
        machine.tune()
        assert machine.fs.read(hosts.BALANCING) == "0", turn
        assert machine.files() == {*FILES, REQUESTS}, turn
    assert len(left) > 2, "some of these runs are killed with a file beside"


def test_a_restore_after_a_run_that_was_killed_leaves_no_file(machine: Machine) -> None:
    def check() -> None:
        machine.restore()
        assert machine.fs.read(hosts.BALANCING) == "1"
        assert machine.files() == set()

    assert len(list(killed_runs(check, machine.tune))) > 20


def test_a_restore_after_one_that_was_killed_leaves_no_file(machine: Machine) -> None:
    for turn in killed_runs(machine.tune, machine.restore):
        machine.restore()
        assert machine.fs.read(hosts.BALANCING) == "1", turn
        assert machine.files() == set(), turn
