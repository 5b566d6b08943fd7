# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs in processes of their own that are killed, or stand still, before any of their changes.

A change is a system call of the module os that changes a file, or one of further functions that a test names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

CHANGING = ("open", "write", "fsync", "fchmod", "fchown", "rename", "unlink", "mkdir", "rmdir")
WRITING = os.O_CREAT | os.O_WRONLY | os.O_RDWR
KILLED = 137

#: Objects and the names of their functions that count as changes too.
More = Sequence[tuple[Any, str]]


def _call_before_change(turn: int, act: Callable[[], None], more: More) -> None:
    """Have ``act`` called before change number ``turn`` of this process."""
    calls, opened = count(1), os.open

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if not (real is opened and not args[1] & WRITING) and next(calls) == turn:
                act()
            return real(*args, **options)

        return call

    for owner, name in [*((os, name) for name in CHANGING), *more]:
        setattr(owner, name, watched(getattr(owner, name)))


def kill_at(turn: int, run: Callable[[], object], more: More = ()) -> int:
    """Do a run in a process that dies before its change number ``turn``; return its exit code."""
    child = os.fork()
    if not child:
        try:
            _call_before_change(turn, lambda: os._exit(KILLED), more)
            run()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_runs(before: Callable[[], object], run: Callable[[], object], more: More = ()) -> Iterator[int]:
    """Kill a run before each of its changes in turn; yield the number of each that was killed."""
    for turn in count(1):
        before()
        code = kill_at(turn, run, more)
        assert code in (0, KILLED)
        if not code:
            return
        yield turn


@contextmanager
def standing_run(turn: int, run: Callable[[], object], more: More = ()) -> Iterator[bool]:
    """Do a run in a process that stands still before its change number ``turn`` until the block ends.

    Yields whether it stands there; False where it has ended with fewer changes. The run has to end without an error.
    """
    stands, standing = os.pipe()
    goes, going = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(stands)
            os.close(going)
            write = os.write

            def stand() -> None:
                write(standing, b".")
                os.read(goes, 1)

            _call_before_change(turn, stand, more)
            run()
            os._exit(0)
        finally:
            os._exit(1)
    os.close(standing)
    os.close(goes)
    try:
        yield bool(os.read(stands, 1))
    finally:
        os.close(going)
        os.close(stands)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0
