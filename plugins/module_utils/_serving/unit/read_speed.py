# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures how fast the files of a model can be read, which decides how long a server may take to start.

A few pieces of a file, far from each other, are read past the page cache. Source: O_DIRECT in open(2).
"""

from __future__ import annotations

import mmap
import os
import time

from ..._io.safe_open import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How many pieces of a file are read, the bytes of each piece, and the seconds after which reading stops.
PIECE_COUNT, PIECE_BYTES, LONGEST_SECONDS = 8, 4 << 20, 2.0


def measure_direct_read_speed(path: str, clock: Any = time) -> float | None:
    """Return the bytes per second at which a file is read; None where its file system has no direct reads.

    None also for a small file, because a time of a few milliseconds says little about the speed.
    """
    started_at, bytes_read = clock.monotonic(), 0
    try:
        descriptor = open_file(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size < PIECE_COUNT * PIECE_BYTES:
            return None
        # A direct read must begin at a page boundary, in the file and in memory.
        with mmap.mmap(-1, PIECE_BYTES) as buffer:
            for number in range(PIECE_COUNT):
                bytes_read += os.preadv(descriptor, [buffer], size * number // PIECE_COUNT // PIECE_BYTES * PIECE_BYTES)
                if clock.monotonic() - started_at > LONGEST_SECONDS:
                    break
    except OSError:
        return None
    finally:
        os.close(descriptor)
    seconds = clock.monotonic() - started_at
    return bytes_read / seconds if bytes_read and seconds > 0 else None
