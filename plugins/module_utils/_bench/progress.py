# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lock that allows one run at a time on a host, the file with the step of the run, and how a run ends early.

A module returns nothing before its end, so the controller shows the progress from this file, and asks for it again and
again. A run whose controller asks no more ends by itself. SIGTERM ends a run too. In both cases the run restores
everything, and its document has all samples until then.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from contextlib import contextmanager

from .._errors import BadRequest, TuningError
from .._io import textfile
from .._io.kernelfs import KernelFS
from .._knobs import measuring_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds between two looks at the time of the last question of the controller.
LOOK_INTERVAL = 1.0
#: Why a run ended early.
STOPPED, LOST_CONTROLLER = "somebody ended it.", "its controller does not ask any more."


#: Set before the SIGTERM that the thread which watches the controller sends.
_controller_is_lost = threading.Event()


class RunStopped(Exception):
    """The run was ended from outside. It is no TuningError, so that nothing takes it for the failure of an arm."""


@contextmanager
def hold_run_lock(name: str) -> Iterator[None]:
    """Hold the lock of all runs on this host, and let SIGTERM end the block in order.

    ``name`` names the run for people, as "the ablation of chat". BadRequest while another run holds the lock.
    TuningError where the run was ended from outside.
    """
    os.makedirs(os.path.dirname(measuring_run.LOCK), 0o755, exist_ok=True)
    # Other users cannot open the file, so that they cannot hold the lock.
    with open(
        measuring_run.LOCK, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)
    ) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequest(_other_run_message()) from None
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        file.truncate(0)
        file.write(measuring_run.build_run_record(KernelFS(read_only=True), name, since))
        file.flush()
        try:
            with _termination_signal_as_exception():
                yield
        except RunStopped as reason:
            raise TuningError(f"{name} ended early: {reason} All was put back.") from None
        finally:
            file.truncate(0)


def _other_run_message() -> str:
    other = measuring_run.find_measuring_run(KernelFS(read_only=True))
    description = f": {other.description()}" if other else ""
    return (
        f"Another run measures on this host, and they would disturb each other{description}. Wait until it has ended, "
        f"or end it on the host by '{measuring_run.STOP_COMMAND}', which puts everything back."
    )


@contextmanager
def _termination_signal_as_exception() -> Iterator[None]:
    """Raise RunStopped at the first SIGTERM, and ignore later ones, which would interrupt the restoring."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        # A handler is not inherited by the programs that restore the host, as an ignored signal would be.
        signal.signal(signal.SIGTERM, lambda *dummy: None)
        raise RunStopped(LOST_CONTROLLER if _controller_is_lost.is_set() else STOPPED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def progress_file_writer(controller_timeout: float = 0) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line into the progress file, which is removed when the block ends.

    Where the controller has not asked for ``controller_timeout`` seconds, this process gets SIGTERM; 0 for never.
    """
    os.makedirs(os.path.dirname(measuring_run.STEP), 0o755, exist_ok=True)
    has_ended = threading.Event()
    if controller_timeout:
        threading.Thread(target=_watch_controller, args=(controller_timeout, has_ended), daemon=True).start()
    try:
        yield lambda line: textfile.write_file(measuring_run.STEP, f"{line}\n")
    finally:
        has_ended.set()
        textfile.remove_file(measuring_run.STEP)


def _watch_controller(controller_timeout: float, has_ended: threading.Event) -> None:
    """End this process by SIGTERM where the controller has not asked for so many seconds.

    The file of its questions has times of the wall clock, which may be set anew. So only a change of the time counts.
    """
    last_question, seen_at = None, time.monotonic()
    while not has_ended.wait(LOOK_INTERVAL):
        question = _read_time_of_last_question()
        if question != last_question:
            last_question, seen_at = question, time.monotonic()
        elif time.monotonic() - seen_at > controller_timeout:
            _controller_is_lost.set()
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _read_time_of_last_question() -> int | None:
    try:
        return os.stat(measuring_run.ASKED).st_mtime_ns
    except OSError:
        return None
