# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A trial: an ablation or a tuning changes settings of this host for a while, to measure their effect.

The journal of the trial is written before the first change. The measuring program, the unit that waits for its end, and
a person all end a trial with the same function, which puts the stored settings back. After a power cut the kernel has
lost the settings of the trial, and the boot service applies the stored ones as at every boot. Source: systemd.unit(5)
(drop-ins).
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from .._errors import Absent, Damaged, TuningError
from .._io import command, textfile
from .._io.store import TRIAL
from .._kernel import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .._io.store import Store

#: ``process`` is the id of the measuring process, ``started`` its start time, which tells it from a later process.
SHAPE = {"boot_id": str, "process": int, "started": str, "unit": str}
#: The folder of drop-ins that end with the boot, and the name of the drop-in of a trial.
UNITS, DROP_IN = "/run/systemd/system", "90-sovereign-epyc-trial.conf"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: Seconds that the measuring process has to end before it is killed.
PATIENCE = 10.0


def end_trial(store: Store, fs: KernelFS, restore_stored: Callable[[], bool]) -> None:
    """End the running trial, if there is one, and the measuring process, unless this is the calling process.

    ``restore_stored`` is called before the service restarts with its own unit. If it returns False, the trial counts as
    running, so that a check reports it and the end can be tried again.
    """
    if not store.has_file(TRIAL):
        return
    journal = _load_journal(store)
    if journal and journal["boot_id"] == fs.read(BOOT_ID):
        _end_measuring_process(fs, journal)
    restored = restore_stored()
    _restart_with_own_unit(journal.get("unit", ""))
    if restored:
        with store.hold_lock():
            # Another process may have ended this trial too, and the next one may have begun.
            if _load_journal(store) == journal:
                store.remove_file(TRIAL)


def remove_trial_of_earlier_boot(store: Store, fs: KernelFS) -> None:
    """Remove the journal of a trial of an earlier boot, whose settings ended with that boot."""
    if store.has_file(TRIAL) and _load_journal(store).get("boot_id") != fs.read(BOOT_ID):
        with store.hold_lock():
            store.remove_file(TRIAL)


def _load_journal(store: Store) -> dict[str, Any]:
    """Return the journal of the trial, {} for a damaged one. Raises NewerFormat for that of a newer version."""
    try:
        return store.load_document(TRIAL, SHAPE)
    except Damaged:
        return {}


def set_temporary_drop_in(unit: str, text: str | None) -> bool:
    """Give a unit a drop-in with this text until the next boot, or remove it for None; return whether it changed.

    A restart of the unit makes the change effective.
    """
    path = _drop_in_path(unit)
    if textfile.read_text(path) == text:
        return False
    if text is None:
        textfile.remove_file(path)
        with suppress(OSError):  # The folder has a drop-in of another program.
            os.rmdir(os.path.dirname(path))
    else:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        textfile.write_file(path, text)
    command.run_command(["systemctl", "daemon-reload"])
    return True


def _drop_in_path(unit: str) -> str:
    return f"{UNITS}/{unit}.d/{DROP_IN}"


def _restart_with_own_unit(unit: str) -> None:
    """Restart a unit that has the drop-in of a trial, or that does not run, without the drop-in; "" for no unit.

    The unit is stopped before its drop-in is removed: when this is killed, the next call finds a unit that does not
    run. Otherwise it would find no drop-in and a server that still runs as the drop-in said.
    """
    if not unit:
        return
    if os.path.exists(_drop_in_path(unit)):
        with suppress(TuningError):
            command.run_command(["systemctl", "stop", unit])
        set_temporary_drop_in(unit, None)
    elif command.try_command(["systemctl", "is-active", "--quiet", unit]).code:
        # A killed call may have removed the drop-in, and systemd may not know it.
        with suppress(OSError):
            os.rmdir(os.path.dirname(_drop_in_path(unit)))
        command.run_command(["systemctl", "daemon-reload"])
    else:
        return
    restart_unit_and_wait(unit)


def restart_unit_and_wait(unit: str) -> None:
    """Restart a unit and wait until it serves; raise TuningError if it does not.

    The start limit of a unit is meant for crashes, so the count of its starts is reset before.
    """
    with suppress(TuningError):
        command.run_command(["systemctl", "reset-failed", unit])
    command.run_command(["systemctl", "restart", unit])


def _end_measuring_process(fs: KernelFS, journal: dict[str, Any]) -> None:
    process = journal["process"]
    if process == os.getpid():
        return
    last = time.monotonic() + PATIENCE
    signals = [signal.SIGTERM, signal.SIGKILL]
    while True:
        try:
            if processes.read_process_start_time(fs, process) != journal["started"]:
                return
            if signals and (len(signals) > 1 or time.monotonic() > last):
                os.kill(process, signals.pop(0))
        except (Absent, ProcessLookupError):
            return
        time.sleep(0.1)
