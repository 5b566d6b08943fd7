# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guards a trial: restores the stored settings when the measuring program ends, also when it crashes or is killed.

The guard is a transient unit that waits until the program has ended, and then calls ``sovereign-epyc settle``.

Source: systemd-run(1), systemd.service(5) (ExecStopPost).
"""

from __future__ import annotations

import os

from .._errors import BadRequest, TuningError
from .._io import command
from .._io.paths import HOST_TOOL
from .._io.store import TRIAL
from .._kernel import processes
from .._knobs import trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS
    from .._io.store import Store

UNIT = "sovereign-epyc-trial.service"


def start_restore_guard(store: Store, fs: KernelFS, unit: str) -> None:
    """Start the guard of this process, before any change; the trial may restart ``unit``.

    BadRequest where another trial is under way, or the host tool is missing.
    """
    require_host_tool_and_no_trial(store)
    process = os.getpid()
    wait = ["tail", f"--pid={process}", "--sleep-interval=0.2", "-f", "/dev/null"]
    properties = (f"ExecStopPost={HOST_TOOL} settle", "TimeoutStopSec=infinity")
    options = [f"--unit={UNIT}", "--collect", "--quiet", *(f"--property={setting}" for setting in properties)]
    with store.hold_lock():
        write_trial_journal(store, fs, unit)
        try:
            command.run_command(["systemd-run", *options, *wait])
        except TuningError:
            store.remove_file(TRIAL)
            raise


def require_host_tool_and_no_trial(store: Store) -> None:
    """Raise BadRequest where another trial is under way, or the host tool is missing."""
    if store.has_file(TRIAL):
        raise BadRequest(
            f"An ablation or a tuning did not end, or goes on: {store.file_path(TRIAL)} is there. 'sovereign-epyc "
            "settle' ends it and puts the stored settings back."
        )
    if not os.path.exists(HOST_TOOL):
        raise BadRequest(f"There is no {HOST_TOOL}, which puts settings back when this is ended: run site.yml first.")


def write_trial_journal(store: Store, fs: KernelFS, unit: str) -> None:
    """Write the journal of the trial of this process, whose instance is ``unit``, to disk.

    The journal is valid in this boot only: in the next boot the boot service restores the stored settings and removes
    the journal.
    """
    process = os.getpid()
    with store.hold_lock():
        journal = {
            "boot_id": fs.read(trial.BOOT_ID),
            "process": process,
            "started": processes.read_process_start_time(fs, process),
            "unit": unit,
        }
        store.save_document(TRIAL, journal)
