# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a trial that is killed before any of its steps: the next end of it puts the instance back all the same."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import progress
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import TRIAL, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import measuring_run, trial
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.apply_stored import end_trial_and_apply_stored
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.killed_runs import killed_runs, standing_run

# The threads of pytest's workers hold nothing that the child needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

UNIT, VARIANT = "llama-chat.service", "[Service]\nEnvironment=A=1\n"
COMMANDS = [(command, "run_command"), (command, "try_command")]


class Machine:
    """A host with one instance, whose systemd reads a drop-in at a reload and starts the server with what it has read.

    What systemd knows is in a file, so that a process that was killed leaves it.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        tree = hosts.small(root / "host")
        tree.put("/proc/sys/kernel/random/boot_id", "this-boot")
        self.fs, self.store = KernelFS(str(tree.root)), Store(str(tree.root))
        self.drop_in = root / f"units/{UNIT}.d/{trial.DROP_IN}"
        self._systemd = root / "systemd.json"
        self._remember(read="", runs="")
        patch.setattr(trial, "UNITS", str(root / "units"))
        patch.setattr(command, "run_command", self.run)
        patch.setattr(command, "try_command", lambda words: CommandResult(0 if self.runs is not None else 3, "", ""))

    @property
    def runs(self) -> Any:
        """The drop-in with which the server was started; None where it does not run."""
        return json.loads(self._systemd.read_text())["runs"]

    def _remember(self, **known: Any) -> None:
        self._systemd.write_text(json.dumps(known))

    def run(self, words: list[str]) -> str:
        known = json.loads(self._systemd.read_text())
        if words[1] == "daemon-reload":
            known["read"] = self.drop_in.read_text() if self.drop_in.exists() else ""
        elif words[1] == "restart":
            known["runs"] = known["read"]
        elif words[1] == "stop":
            known["runs"] = None
        self._remember(**known)
        return ""

    def begin_trial(self) -> None:
        """Let a process that has ended since measure a variant of the instance."""
        journal = {"boot_id": "this-boot", "process": 1 << 30, "started": "5", "unit": UNIT}
        self.store.save_document(TRIAL, journal)
        command.run_command(["systemctl", "stop", UNIT])
        trial.set_temporary_drop_in(UNIT, VARIANT)
        trial.restart_unit_and_wait(UNIT)
        assert self.runs == VARIANT

    def settle(self) -> None:
        assert end_trial_and_apply_stored(self.store, self.fs).failures == []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_an_end_that_was_killed_at_any_step_is_repeated_by_the_next(machine: Machine) -> None:
    turns = 0
    for dummy in killed_runs(machine.begin_trial, machine.settle, COMMANDS):
        turns += 1
        machine.settle()
        assert machine.runs == "", turns
        assert not machine.drop_in.parent.exists() and not machine.store.has_file(TRIAL)
    assert turns > 8


def test_a_variant_that_was_killed_at_any_step_is_put_back(machine: Machine) -> None:
    turns = 0
    for dummy in killed_runs(machine.settle, machine.begin_trial, COMMANDS):
        turns += 1
        machine.settle()
        assert machine.runs == "" and not machine.store.has_file(TRIAL), turns
    assert turns > 8


def test_an_end_leaves_the_journal_of_the_next_trial(machine: Machine) -> None:
    """Of two that end a trial at once, the slower one finds the next trial under way."""
    machine.begin_trial()

    def begin_next_trial() -> bool:
        machine.settle()
        machine.begin_trial()
        machine.store.save_document(TRIAL, {**machine.store.load_document(TRIAL), "process": 1 << 31})
        return True

    trial.end_trial(machine.store, machine.fs, begin_next_trial)
    assert machine.store.load_document(TRIAL)["process"] == 1 << 31
    machine.settle()
    assert machine.runs == ""


def test_a_benchmark_that_was_killed_holds_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring_run, "LOCK", str(tmp_path / "run/benchmark.lock"))
    monkeypatch.setattr(measuring_run, "STEP", str(tmp_path / "run/benchmark"))

    def measure() -> None:
        with progress.hold_run_lock("the benchmark of chat"), progress.progress_file_writer() as report:
            report("a step")

    turns = 0
    for dummy in killed_runs(lambda: None, measure):
        turns += 1
        assert measuring_run.find_measuring_run(KernelFS(read_only=True)) is None
    assert turns > 8
    measure()
    assert sorted(os.listdir(tmp_path / "run")) == ["benchmark.lock"]
    assert os.stat(measuring_run.LOCK).st_mode & 0o077 == 0, "whoever could open it could hold it"


def test_of_two_benchmarks_the_second_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring_run, "LOCK", str(tmp_path / "run/benchmark.lock"))
    monkeypatch.setattr(measuring_run, "STEP", str(tmp_path / "run/benchmark"))

    def measure() -> None:
        with progress.hold_run_lock("the benchmark of chat"):
            os.mkdir(tmp_path / "measured")

    # The first two changes make the folder and the file of the lock.
    with standing_run(3, measure) as stands:
        assert stands
        with pytest.raises(BadRequest, match=r"the benchmark of chat \(process \d+\) has run since"):
            measure()
    assert (tmp_path / "measured").exists()
