# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast a model comes from where it lies, which decides how long its server may take to start.

A few pieces of the file, far from each other, are read past the page cache. Source: O_DIRECT in open(2).
"""

from __future__ import annotations

import mmap
import os
import time

from ..._io.safe_open import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Pieces of a file, the bytes of each, and the seconds after which no other one is read.
PIECES, PIECE, LONGEST = 8, 4 << 20, 2.0


def measure_read_speed(path: str, clock: Any = time) -> float | None:
    """Return the bytes per second at which a file is read; None where its file system cannot be asked.

    None also for a small file, which is read soon at any speed, and of which a time would tell little.
    """
    begun, got = clock.monotonic(), 0
    try:
        descriptor = open_file(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size < PIECES * PIECE:
            return None
        # What is read directly has to begin at a page, in the file and in memory.
        with mmap.mmap(-1, PIECE) as room:
            for number in range(PIECES):
                got += os.preadv(descriptor, [room], size * number // PIECES // PIECE * PIECE)
                if clock.monotonic() - begun > LONGEST:
                    break
    except OSError:
        return None
    finally:
        os.close(descriptor)
    seconds = clock.monotonic() - begun
    return got / seconds if got and seconds > 0 else None
