# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that goes on: a lock, so that there is only one on a host, and a file that says how far it is.

A module itself says nothing until it ends.
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
def alone() -> Iterator[None]:
    """Hold the lock of all runs on this host; BadRequest where another one goes on."""
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
def shown() -> Iterator[Callable[[str], None]]:
    """Return a function that puts a line into the file, which goes when the block ends."""
    os.makedirs(os.path.dirname(FILE), 0o755, exist_ok=True)
    try:
        yield lambda line: textfile.write_file(FILE, f"{line}\n")
    finally:
        textfile.remove_file(FILE)
