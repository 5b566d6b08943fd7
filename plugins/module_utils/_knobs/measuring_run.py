# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run that measures on this host: which one it is, its present step, and how it is ended from outside.

A run holds the lock file, and writes its record into it: process, begin and name of the run. To end the run, its
process gets SIGTERM; it then restores everything by itself.
"""

from __future__ import annotations

import json
import os
import signal
import time

from .._errors import Absent, TuningError
from .._io import textfile
from .._io.store import TRIAL
from .._kernel import processes
from .._notation.shape import first_misfit_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .._io.store import Store

#: The file with the present step of a run, the lock that all runs share, and the file whose time of change is the last
#: question of the controller of a run.
STEP, LOCK = "/run/sovereign-epyc/benchmark", "/run/sovereign-epyc/benchmark.lock"
ASKED = "/run/sovereign-epyc/benchmark.asked"
#: The record in the lock file. ``started`` is the start time of the process, which tells it from a later process.
SHAPE = {"process": int, "started": str, "since": str, "name": str}
STOP_COMMAND = "sovereign-epyc bench --stop"
#: Seconds that a run may take to restore everything: an instance may read its model for minutes.
STOP_TIMEOUT = 1800.0
#: Seconds that the guard of a run which was killed has to begin and end its work.
GUARD_TIMEOUT = 60.0


class MeasuringRun:
    """A run that measures now: its process, its name as "the ablation of chat", and its begin as UTC text."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.process: int = record["process"]
        self.started: str = record["started"]
        self.since: str = record["since"]
        self.name: str = record["name"]

    def description(self) -> str:
        """Return name, process, begin and present step of the run as text."""
        step = (textfile.read_text(STEP) or "").strip()
        at_step = f", at the step '{step}'" if step else ""
        return f"{self.name} (process {self.process}) has run since {self.since}{at_step}"

    def has_ended(self, fs: KernelFS) -> bool:
        """Return whether the process of the run has ended."""
        try:
            return processes.read_process_start_time(fs, self.process) != self.started
        except Absent:
            return True


def build_run_record(fs: KernelFS, name: str, since: str) -> str:
    """Return the text of the record of a run of this process."""
    process = os.getpid()
    started = processes.read_process_start_time(fs, process)
    return json.dumps({"process": process, "started": started, "since": since, "name": name}) + "\n"


def find_measuring_run(fs: KernelFS) -> MeasuringRun | None:
    """Return the run that measures on this host; None where no run does."""
    try:
        record = json.loads(textfile.read_text(LOCK) or "null")
    except ValueError:
        return None
    if first_misfit_message(record, SHAPE):
        return None
    run = MeasuringRun(record)
    return None if run.has_ended(fs) else run


def stop_measuring_run(
    fs: KernelFS, store: Store, restore_stored: Callable[[], list[str]], print_line: Callable[[str], None]
) -> None:
    """End the run that measures on this host, wait until everything is restored, and print a line on each step.

    ``restore_stored`` restores the stored settings where the run was killed before it could do so; it returns what
    could not be restored. TuningError where the run does not end, or not all settings were restored.
    """
    run = find_measuring_run(fs)
    if run is None and not store.has_file(TRIAL):
        print_line("No run measures on this host.")
        return
    if run is not None:
        print_line(f"{run.description()}. It ends now, and puts everything back.")
        _send_termination_signal(run)
        _wait_for_end_of_run(fs, run, print_line)
    if _is_journal_left(store):
        failures = restore_stored()
        if failures:
            raise TuningError(
                f"Not all stored settings could be put back: {' '.join(failures)} 'sovereign-epyc settle' tries it "
                "again."
            )
    print_line("The run has ended, and the instance and the host run with their stored settings.")


def _send_termination_signal(run: MeasuringRun) -> None:
    try:
        os.kill(run.process, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise TuningError(f"Only root may end {run.name}. Run this as root, as with sudo.") from None


def _wait_for_end_of_run(fs: KernelFS, run: MeasuringRun, print_line: Callable[[str], None]) -> None:
    last_step = ""
    until = time.monotonic() + STOP_TIMEOUT
    while not run.has_ended(fs):
        if time.monotonic() > until:
            raise TuningError(
                f"{run.name} (process {run.process}) has not ended after {STOP_TIMEOUT:.0f} seconds. 'kill -KILL "
                f"{run.process}' ends it at once; a unit that waits for its end then puts everything back."
            )
        step = (textfile.read_text(STEP) or "").strip()
        if step and step != last_step:
            last_step = step
            print_line(step)
        time.sleep(0.2)


def _is_journal_left(store: Store) -> bool:
    """Return whether a trial is still under way after its process has ended and its guard had time to restore."""
    until = time.monotonic() + GUARD_TIMEOUT
    while store.has_file(TRIAL):
        if time.monotonic() > until:
            return True
        time.sleep(0.2)
    return False
