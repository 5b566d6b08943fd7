# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way back from a trial, ready before its first change; it does not depend on the program that measures.

A transient unit waits until that program has ended, in whatever way, and then calls ``sovereign-epyc settle``.
Source: systemd-run(1), systemd.service(5) (ExecStopPost).
"""

from __future__ import annotations

import os

from .._errors import BadRequest, TuningError
from .._io import command
from .._io.paths import HOST_TOOL
from .._io.store import TRIAL
from .._knobs import trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS
    from .._io.store import Store

UNIT = "sovereign-epyc-trial.service"


def begin(store: Store, fs: KernelFS, unit: str) -> None:
    """Have the way back ready, for a trial by this process that may start a unit anew; to be called before any change.

    BadRequest where another trial is under way, or the command of the engine is not on this host.
    """
    refuse_another(store)
    process = os.getpid()
    wait = ["tail", f"--pid={process}", "--sleep-interval=0.2", "-f", "/dev/null"]
    properties = (f"ExecStopPost={HOST_TOOL} settle", "TimeoutStopSec=infinity")
    options = [f"--unit={UNIT}", "--collect", "--quiet", *(f"--property={one}" for one in properties)]
    with store.hold_lock():
        note(store, fs, unit)
        try:
            command.run_command(["systemd-run", *options, *wait])
        except TuningError:
            store.remove_file(TRIAL)
            raise


def refuse_another(store: Store) -> None:
    """Raise BadRequest where another trial is under way, or the command of the engine is not on this host."""
    if store.has_file(TRIAL):
        raise BadRequest(
            f"An ablation or a tuning did not end, or goes on: {store.file_path(TRIAL)} is there. 'sovereign-epyc "
            "settle' ends it and puts the stored settings back."
        )
    if not os.path.exists(HOST_TOOL):
        raise BadRequest(f"There is no {HOST_TOOL}, which puts settings back when this is ended: run site.yml first.")


def note(store: Store, fs: KernelFS, unit: str) -> None:
    """Write down that a trial of this process begins, on the disk when this returns.

    The journal is of this boot: the boot service puts the stored settings back in the next one, and removes it.
    """
    process = os.getpid()
    with store.hold_lock():
        journal = {
            "boot_id": fs.read(trial.BOOT_ID),
            "process": process,
            "started": trial.read_start_time(fs, process),
            "unit": unit,
        }
        store.save_document(TRIAL, journal)
