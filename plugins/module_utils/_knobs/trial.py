# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A trial: for a while settings of this host differ from the stored ones, because a run measures what they do.

The journal says so before the first change. Whoever ends a trial puts the stored settings back, in this one way: the
program that measures, the unit that waits for its end, a person. After a power cut the kernel has forgotten what the
trial had set, and the boot service applies the stored settings as always.
Source: systemd.unit(5) (drop-ins).
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from .._errors import Absent, TuningError
from .._io import command, textfile
from .._io.store import TRIAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .._io.store import Store

#: ``process`` measures; ``started`` is its start in clock ticks since the boot, so that no later one is taken for it.
SHAPE = {"boot_id": str, "process": int, "started": str, "unit": str}
#: A drop-in here is gone with the boot.
UNITS, DROP_IN = "/run/systemd/system", "90-sovereign-epyc-trial.conf"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: Seconds that the program which measures has to end, before it is killed.
PATIENCE = 10.0


def end_trial(store: Store, fs: KernelFS, restore_stored: Callable[[], bool]) -> None:
    """End the trial that is under way, if one is; the process that measures too, unless it is this one.

    ``settle`` is called before the service starts as its unit says. Where it returns False, the trial stays under way,
    so that a check says so and this can be done again.
    """
    if not store.has_file(TRIAL):
        return
    journal = store.load_cache(TRIAL, SHAPE)
    if journal and journal["boot_id"] == fs.read(BOOT_ID):
        _end_process(fs, journal)
    settled = restore_stored()
    unit = journal.get("unit", "")
    if override_unit(unit, None) or (unit and command.try_command(["systemctl", "is-active", "--quiet", unit]).code):
        restart_unit(unit)
    if settled:
        with store.hold_lock():
            store.remove_file(TRIAL)


def forget_earlier_trial(store: Store, fs: KernelFS) -> None:
    """Remove the journal of an earlier boot: what it was about went with that."""
    if store.has_file(TRIAL) and store.load_cache(TRIAL, SHAPE).get("boot_id") != fs.read(BOOT_ID):
        with store.hold_lock():
            store.remove_file(TRIAL)


def override_unit(unit: str, text: str | None) -> bool:
    """Have a unit with these lines instead of its own until the next boot, or with its own; return if that is new.

    It has to be started anew to take effect.
    """
    if not unit:
        return False
    path = f"{UNITS}/{unit}.d/{DROP_IN}"
    if textfile.read_text(path) == text:
        return False
    if text is None:
        textfile.remove_file(path)
        with suppress(OSError):  # Somebody else has a drop-in there.
            os.rmdir(os.path.dirname(path))
    else:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        textfile.write_file(path, text)
    command.run_command(["systemctl", "daemon-reload"])
    return True


def restart_unit(unit: str) -> None:
    """Start a unit, anew where it runs, and wait until it serves. TuningError where it does not.

    How often it may start is meant for one that dies, so systemd shall count anew.
    """
    with suppress(TuningError):
        command.run_command(["systemctl", "reset-failed", unit])
    command.run_command(["systemctl", "restart", unit])


def read_start_time(fs: KernelFS, process: int) -> str:
    """Return when a process started, an empty text for one that has ended and that its parent did not look for yet.

    These are fields 22 and 3 of proc_pid_stat(5), counted from behind the name, which may hold anything.
    """
    fields = fs.read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _end_process(fs: KernelFS, journal: dict[str, Any]) -> None:
    process = journal["process"]
    if process == os.getpid():
        return
    last = time.monotonic() + PATIENCE
    signals = [signal.SIGTERM, signal.SIGKILL]
    while True:
        try:
            if read_start_time(fs, process) != journal["started"]:
                return
            if signals and (len(signals) > 1 or time.monotonic() > last):
                os.kill(process, signals.pop(0))
        except (Absent, ProcessLookupError):
            return
        time.sleep(0.1)
