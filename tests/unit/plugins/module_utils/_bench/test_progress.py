# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that is ended from outside, by real processes: it restores everything, and says who ended it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import progress
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import TRIAL, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import measuring_run

#: A run that measures until it is ended; ``restored`` is written where a run restores the host.
PROGRAM = """
import sys, time
from pathlib import Path
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import progress
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import measuring_run
folder, controller_timeout = Path(sys.argv[1]), float(sys.argv[2])
for name, file in (("STEP", "step"), ("LOCK", "lock"), ("ASKED", "asked")):
    setattr(measuring_run, name, str(folder / file))
progress.LOOK_INTERVAL = 0.01
try:
    with progress.progress_file_writer(controller_timeout) as report_step:
        with progress.hold_run_lock("the ablation of chat"):
            report_step("ablation, round 3: without boost")
            (folder / "began").touch()
            try:
                try:
                    time.sleep(600)
                except TuningError:
                    print("taken for an arm that fails")
            finally:
                report_step("it puts all back")
                (folder / "restored").touch()
except TuningError as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, file in (("STEP", "step"), ("LOCK", "lock"), ("ASKED", "asked")):
        monkeypatch.setattr(measuring_run, name, str(tmp_path / file))
    monkeypatch.setattr(measuring_run, "GUARD_TIMEOUT", 0.5)
    return tmp_path


class Process:
    """The process of a run, and what it printed."""

    def __init__(self, folder: Path, controller_timeout: float = 0) -> None:
        self.folder = folder
        self.popen = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), str(controller_timeout)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(progress.__file__).parents[6])},
        )
        while not (folder / "began").exists():
            assert self.popen.poll() is None
            time.sleep(0.01)

    def output(self) -> str:
        return self.popen.communicate(timeout=60)[0]


@pytest.fixture
def measuring(folder: Path) -> Iterator[Process]:
    process = Process(folder)
    yield process
    process.popen.kill()
    process.popen.communicate()


def stop(folder: Path, failures: list[str] | None = None) -> tuple[list[str], int]:
    """End the run; return what is printed, and how often the stored settings were restored for it."""
    lines: list[str] = []
    restored: list[int] = []

    def restore() -> list[str]:
        restored.append(1)
        return failures or []

    measuring_run.stop_measuring_run(KernelFS(), Store(str(folder)), restore, lines.append)
    return lines, len(restored)


def test_a_second_run_is_told_which_one_measures_since_when_and_how_it_is_ended(measuring: Process) -> None:
    message = rf"""(?x)they\ would\ disturb\ each\ other:\ the\ ablation\ of\ chat\ \(process\ {measuring.popen.pid}\)
        \ has\ run\ since\ 20..-..-..T..:..:..Z,\ at\ the\ step\ 'ablation,\ round\ 3:\ without\ boost'\.
        .*'sovereign-epyc\ bench\ --stop'"""
    with pytest.raises(BadRequest, match=message), progress.hold_run_lock("the benchmark of chat"):
        pytest.fail("two runs measure")
    assert measuring.popen.poll() is None


def test_a_run_is_ended_from_outside_and_puts_all_back(measuring: Process, folder: Path) -> None:
    lines, restored = stop(folder)
    assert lines[0].startswith("the ablation of chat (process ") and lines[-1].startswith("The run has ended")
    assert (folder / "restored").exists() and restored == 0
    assert measuring.output() == "the ablation of chat ended early: somebody ended it. All was put back.\n"
    with progress.hold_run_lock("the benchmark of chat"):
        pass


def test_a_run_that_was_killed_is_put_back_by_who_ends_it(measuring: Process, folder: Path) -> None:
    store = Store(str(folder))
    with store.hold_lock():
        store.save_document(TRIAL, {})
    measuring.popen.kill()
    measuring.popen.wait()
    assert stop(folder)[1] == 1
    with pytest.raises(TuningError, match="Not all stored settings could be put back: boost"):
        stop(folder, ["boost: refused."])


def test_where_no_run_measures_nothing_is_ended(folder: Path) -> None:
    assert stop(folder) == (["No run measures on this host."], 0)
    (folder / "lock").write_text(json.dumps({"process": 1, "started": "0", "since": "", "name": "a later process"}))
    assert stop(folder) == (["No run measures on this host."], 0)
    (folder / "lock").write_text("torn")
    assert measuring_run.find_measuring_run(KernelFS()) is None


def test_a_run_whose_controller_asks_no_more_ends_by_itself(folder: Path) -> None:
    output = Process(folder, controller_timeout=0.2).output()
    assert output == "the ablation of chat ended early: its controller does not ask any more. All was put back.\n"
    assert (folder / "restored").exists()


def test_a_run_goes_on_as_long_as_its_controller_asks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the host may be set back meanwhile. The last question is at 100 seconds of 200."""
    killed: list[tuple[float, int]] = []

    class Clock:
        now = 0.0

        def wait(self, seconds: float) -> bool:
            self.now += seconds
            if self.now <= 100 and self.now % 20 == 0:
                (folder / "asked").touch()
                os.utime(folder / "asked", (1e9 - self.now, 1e9 - self.now))
            return self.now > 200

    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(progress.os, "kill", lambda process, number: killed.append((clock.now, number)))
    progress._watch_controller(60, clock)  # type: ignore[arg-type]
    progress._controller_is_lost.clear()
    assert killed == [(161.0, signal.SIGTERM)]
