# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The progress of a download: a module shows nothing until it ends, so a file shows it while it runs."""

from __future__ import annotations

import time
from contextlib import suppress

from .._errors import TuningError
from .._io import textfile
from .._notation.sizes import format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two lines.
INTERVAL = 5


class Progress:
    """A file with one line about the progress of a download."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.clock = clock
        self.written = self.begun = clock()
        self.first: int | None = None

    def __call__(self, have: int, total: int | None) -> None:
        now = self.clock()
        self.first = have if self.first is None else self.first
        if now - self.written < INTERVAL:
            return
        self.written = now
        speed = max(1, round((have - self.first) / (now - self.begun)))
        text = f"{format_bytes_short(have)}, {format_bytes_short(speed)}/s"
        if total:
            left = round((total - have) / speed)
            text = (
                f"{format_bytes_short(have)} of {format_bytes_short(total)} ({100 * have // total} %), "
                f"{format_bytes_short(speed)}/s, {left} s left"
            )
        # A download must not fail because its progress cannot be written.
        with suppress(TuningError):
            textfile.write_file(self.path, f"{text}\n")
