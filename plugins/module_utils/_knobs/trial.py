# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A trial: for a while settings of this host differ from the stored ones, because an ablation measures what they do.

The way back does not depend on the program that measures. Before the first change a journal is on the disk, and a
transient unit waits until that program has ended, in whatever way; then it puts the stored settings back. After a power
cut the kernel has forgotten what the trial had set, and the boot service applies the stored settings as always.
Source: systemd-run(1), systemd.service(5) (ExecStopPost), systemd.unit(5) (drop-ins).
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from .._errors import Absent, BadRequest, TuningError
from .._io import command, textfile
from .._io.paths import COMMAND
from .._io.store import TRIAL
from .application import Application

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .._io.store import Store

#: ``process`` measures; ``started`` is its start in clock ticks since the boot, so that no later one is taken for it.
SHAPE = {"boot_id": str, "process": int, "started": str, "unit": str}
GUARD = "sovereign-epyc-trial.service"
#: A drop-in here is gone with the boot.
UNITS, DROP_IN = "/run/systemd/system", "90-sovereign-epyc-trial.conf"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: Seconds that the program which measures has to end, before it is killed.
PATIENCE = 10.0


def begin(store: Store, fs: KernelFS, unit: str) -> None:
    """Have the way back ready, for a trial by this process that may start a unit anew; to be called before any change.

    BadRequest where another trial is under way, or the command of the engine is not on this host.
    """
    if store.has(TRIAL):
        raise BadRequest(
            f"An ablation did not end, or goes on: {store.path(TRIAL)} is there. 'sovereign-epyc settle' ends it and "
            "puts the stored settings back."
        )
    if not os.path.exists(COMMAND):
        raise BadRequest(f"There is no {COMMAND}, which puts settings back when this is ended: run site.yml first.")
    process = os.getpid()
    wait = ["tail", f"--pid={process}", "--sleep-interval=0.2", "-f", "/dev/null"]
    properties = (f"ExecStopPost={COMMAND} settle", "TimeoutStopSec=infinity")
    options = [f"--unit={GUARD}", "--collect", "--quiet", *(f"--property={one}" for one in properties)]
    with store.lock():
        journal = {"boot_id": fs.read(BOOT_ID), "process": process, "started": _started(fs, process), "unit": unit}
        store.save(TRIAL, journal)
        try:
            command.run(["systemd-run", *options, *wait])
        except TuningError:
            store.remove(TRIAL)
            raise


def put_back(store: Store, fs: KernelFS, apply: bool = True) -> Application:
    """End the trial that is under way, and put the stored settings back; with ``apply`` off only what is no setting.

    The process that measures is ended, unless it is this one. Where stored settings cannot be applied, the trial stays
    under way, so that a check says so and this can be done again.
    """
    work = Application(fs, store)
    if not store.has(TRIAL):
        return work
    journal = store.load_cache(TRIAL, SHAPE)
    if journal and journal["boot_id"] == fs.read(BOOT_ID):
        _end(fs, journal)
    if apply:
        work.run()
    unit = journal.get("unit", "")
    if change_unit(unit, None) or (unit and command.attempt(["systemctl", "is-active", "--quiet", unit]).code):
        restart(unit)
    if not work.failures:
        with store.lock():
            store.remove(TRIAL)
    return work


def forget_earlier(store: Store, fs: KernelFS) -> None:
    """Remove the journal of an earlier boot: what it was about went with that."""
    if store.has(TRIAL) and store.load_cache(TRIAL, SHAPE).get("boot_id") != fs.read(BOOT_ID):
        with store.lock():
            store.remove(TRIAL)


def change_unit(unit: str, text: str | None) -> bool:
    """Have a unit with these lines instead of its own until the next boot, or with its own; return if that is new.

    It has to be started anew to take effect.
    """
    if not unit:
        return False
    path = f"{UNITS}/{unit}.d/{DROP_IN}"
    if textfile.read(path) == text:
        return False
    if text is None:
        textfile.remove(path)
        with suppress(OSError):  # Somebody else has a drop-in there.
            os.rmdir(os.path.dirname(path))
    else:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        textfile.replace(path, text)
    command.run(["systemctl", "daemon-reload"])
    return True


def stop(unit: str) -> None:
    """Stop a unit."""
    command.run(["systemctl", "stop", unit])


def restart(unit: str) -> None:
    """Start a unit, anew where it runs, and wait until it serves. TuningError where it does not.

    How often it may start is meant for one that dies, so systemd shall count anew.
    """
    with suppress(TuningError):
        command.run(["systemctl", "reset-failed", unit])
    command.run(["systemctl", "restart", unit])


def _started(fs: KernelFS, process: int) -> str:
    """Return when a process started, an empty text for one that has ended and that its parent did not look for yet.

    These are fields 22 and 3 of proc_pid_stat(5), counted from behind the name, which may hold anything.
    """
    fields = fs.read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _end(fs: KernelFS, journal: dict[str, Any]) -> None:
    process = journal["process"]
    if process == os.getpid():
        return
    last = time.monotonic() + PATIENCE
    signals = [signal.SIGTERM, signal.SIGKILL]
    while True:
        try:
            if _started(fs, process) != journal["started"]:
                return
            if signals and (len(signals) > 1 or time.monotonic() > last):
                os.kill(process, signals.pop(0))
        except (Absent, ProcessLookupError):
            return
        time.sleep(0.1)
