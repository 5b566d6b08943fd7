# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lock that allows one run at a time on a host, and the file with the present step of the run.

A module returns nothing before its end, so the controller shows the progress from this file.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager

from .._errors import BadRequest
from .._io import textfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE, LOCK = "/run/sovereign-epyc/benchmark", "/run/sovereign-epyc/benchmark.lock"


@contextmanager
def hold_run_lock() -> Iterator[None]:
    """Hold the lock of all runs on this host; BadRequest while another run holds it."""
    os.makedirs(os.path.dirname(LOCK), 0o755, exist_ok=True)
    with open(LOCK, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequest(
                "Another run measures on this host, and they would disturb each other: wait until it has ended."
            ) from None
        yield


@contextmanager
def progress_file_writer() -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line into the progress file, which is removed when the block ends."""
    os.makedirs(os.path.dirname(FILE), 0o755, exist_ok=True)
    try:
        yield lambda line: textfile.write_file(FILE, f"{line}\n")
    finally:
        textfile.remove_file(FILE)
