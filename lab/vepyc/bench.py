# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long machines take to answer over ssh, against the limits the lab promises on two cores.

Run as `python -m vepyc.bench`. Each figure is one start of a machine of its own; images are built and snapshots saved
before the clock runs.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from .epyc.shapes import get_shape
from .errors import VepycError
from .figures import Bar, Figures
from .guest import get_release
from .machine.saved_states import snapshot_dir
from .machine.start import up


@dataclass(frozen=True)
class Start:
    """A way to start a machine, and the seconds it may take."""

    name: str
    shape: str
    cold: bool
    limit: float


STARTS = (
    Start("small_cold_start", "small", True, 45),
    Start("small_snapshot_start", "small", False, 5),
    Start("epyc9754_cold_start", "epyc9754", True, 240),
    Start("epyc9754_snapshot_start", "epyc9754", False, 15),
)


def measure(way: Start) -> float:
    """Seconds from the request to the first command that ran in the guest."""
    name = f"bench-{way.shape}"
    start = time.monotonic()
    machine = up(way.shape, name=name, cold=way.cold)
    try:
        machine.run("true")
        return time.monotonic() - start
    finally:
        machine.down()


def main() -> None:
    """Print one line per figure; exit 1 when one misses its limit."""
    figures = Figures()
    try:
        for shape in dict.fromkeys(way.shape for way in STARTS):
            if not snapshot_dir(get_shape(shape), get_release("6.12")).exists():
                up(shape, name=f"bench-{shape}").down()
        for way in STARTS:
            figures.show(way.name, measure(way), "s", Bar("<", way.limit))
    except VepycError as error:
        print(f"vepyc: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    raise SystemExit(int(figures.missed))


if __name__ == "__main__":
    main()
