# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal of a trial, and who may end it. What a real systemd does of it is tested in tests/lab."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import restore_guard
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import TRIAL, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import processes
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import apply_stored, trial
from ansible_collections.sovereign.epyc.tests.unit.fakes import disks, hosts

UNIT = "llama-chat.service"


class Machine:
    """A machine with the files of this one's processes, whose systemctl only writes down what it was told."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.tree = hosts.small(root / "host")
        self.boot("this-boot")
        self.fs = Processes(str(self.tree.root))
        self.store = Store(str(self.tree.root))
        self.told: list[str] = []
        self.refuses: tuple[str, ...] = ()
        patch.setattr(restore_guard, "HOST_TOOL", str(root / "sovereign-epyc"))
        patch.setattr(trial, "UNITS", str(root / "units"))
        patch.setattr(trial.command, "run_command", self.run)
        patch.setattr(trial.command, "try_command", lambda words: trial.command.CommandResult(0, "", ""))
        (root / "sovereign-epyc").touch()
        self.drop_in = root / f"units/{UNIT}.d/90-sovereign-epyc-trial.conf"

    def boot(self, name: str) -> None:
        self.tree.put("/proc/sys/kernel/random/boot_id", name)

    def run(self, words: list[str]) -> str:
        self.told.append(" ".join(words))
        if words[0] in self.refuses:
            raise TuningError(f"{words[0]} is not to be had.")
        return ""

    def begin(self) -> None:
        restore_guard.start_restore_guard(self.store, self.fs, UNIT)

    def journal(self, **other: Any) -> None:
        known = {"boot_id": "this-boot", "process": 1 << 30, "started": "5", "unit": UNIT}
        self.store.save_document(TRIAL, {**known, **other})


class Processes(KernelFS):
    """A tree, but processes are those of this machine."""

    def read(self, path: str, limit: int = 1 << 20) -> str:
        return KernelFS().read(path) if path.endswith("/stat") else super().read(path, limit)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_journal_is_there_before_the_unit_that_puts_back(machine: Machine) -> None:
    machine.begin()
    (told,) = machine.told
    assert told.startswith("systemd-run --unit=sovereign-epyc-trial.service ") and " settle --" in told
    assert f"tail --pid={os.getpid()} " in told
    with pytest.raises(
        BadRequest, match=r"did not end, or goes on: .*trial\.json is there. 'sovereign-epyc settle' ends it"
    ):
        machine.begin()


def test_without_a_way_back_there_is_no_trial(machine: Machine, tmp_path: Path) -> None:
    machine.refuses = ("systemd-run",)
    with pytest.raises(TuningError, match="systemd-run is not to be had"):
        machine.begin()
    assert not machine.store.has_file(TRIAL)
    (tmp_path / "sovereign-epyc").unlink()
    with pytest.raises(BadRequest, match=r"There is no .*/sovereign-epyc, which puts .*: run site\.yml first"):
        machine.begin()


def test_it_is_put_back_by_the_process_itself(machine: Machine) -> None:
    machine.begin()
    assert trial.set_temporary_drop_in(UNIT, "[Service]\n") and machine.drop_in.read_text() == "[Service]\n"
    assert not trial.set_temporary_drop_in(UNIT, "[Service]\n")
    assert apply_stored.end_trial_and_apply_stored(machine.store, machine.fs).failures == []
    assert not machine.drop_in.parent.exists() and not machine.store.has_file(TRIAL)
    assert machine.told[-3:] == [
        "systemctl daemon-reload",
        f"systemctl reset-failed {UNIT}",
        f"systemctl restart {UNIT}",
    ]


def test_a_journal_that_cannot_be_removed_is_told_with_what_was_put_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.begin()
    disks.refuse_changes(monkeypatch, machine.store.folder, errno.EROFS)
    with pytest.raises(
        TuningError, match=r"trial\.json cannot be removed: Read-only file system\. 0 stored settings were put back"
    ):
        apply_stored.end_trial_and_apply_stored(machine.store, machine.fs)
    assert machine.store.has_file(TRIAL)


def test_a_service_without_a_drop_in_goes_on(machine: Machine) -> None:
    machine.begin()
    machine.told.clear()
    apply_stored.end_trial_and_apply_stored(machine.store, machine.fs)
    assert machine.told == []


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=subprocess.PIPE
    )


def test_a_process_that_still_measures_is_ended_first(machine: Machine) -> None:
    with sleeper() as process:
        assert process.stdout is not None and process.stdout.readline()
        machine.journal(process=process.pid, started=processes.read_process_start_time(machine.fs, process.pid))
        apply_stored.end_trial_and_apply_stored(machine.store, machine.fs)
        assert process.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize("journal", [{"started": "1"}, {"boot_id": "earlier"}])
def test_another_process_of_that_number_is_left_alone(machine: Machine, journal: dict[str, str]) -> None:
    with sleeper() as process:
        assert process.stdout is not None and process.stdout.readline()
        machine.journal(
            **{"process": process.pid, "started": processes.read_process_start_time(machine.fs, process.pid), **journal}
        )
        apply_stored.end_trial_and_apply_stored(machine.store, machine.fs)
        assert process.poll() is None
        process.kill()


def test_what_cannot_be_applied_leaves_it_under_way(machine: Machine) -> None:
    machine.store.save_document("ledger.json", {})
    machine.store.save_document("desired.json", {"intent": {}, "requests": {"nothing/here": {}}})
    machine.journal()
    work = apply_stored.end_trial_and_apply_stored(machine.store, machine.fs)
    assert work.failures == ["nothing/here: This version of the collection has no knob nothing."]
    assert machine.store.has_file(TRIAL)
    # An undo has no use for stored settings.
    trial.end_trial(machine.store, machine.fs, lambda: True)
    assert not machine.store.has_file(TRIAL)


def test_the_next_boot_forgets_it(machine: Machine) -> None:
    machine.journal()
    trial.remove_trial_of_earlier_boot(machine.store, machine.fs)
    assert machine.store.has_file(TRIAL)
    machine.boot("next")
    trial.remove_trial_of_earlier_boot(machine.store, machine.fs)
    assert not machine.store.has_file(TRIAL)


def test_a_damaged_journal_does_not_stand_in_the_way(machine: Machine) -> None:
    Path(machine.store.folder).mkdir(parents=True, exist_ok=True)
    Path(machine.store.file_path(TRIAL)).write_text("{")
    apply_stored.end_trial_and_apply_stored(machine.store, machine.fs)
    assert not machine.store.has_file(TRIAL)


def test_the_drift_check_says_that_it_goes_on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.journal()
    (one,) = survey.check_host(machine.fs, store=machine.store).verdicts
    assert not one.is_clean and one.reason == survey.UNDER_TRIAL
