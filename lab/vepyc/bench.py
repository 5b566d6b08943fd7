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
from .images.guest_system import get_release
from .machine.saved_states import snapshot_dir
from .machine.start import start_machine


@dataclass(frozen=True)
class MeasuredStart:
    """A start of a machine that is measured, and the most seconds that it may take."""

    name: str
    shape: str
    cold: bool
    limit: float


STARTS = (
    MeasuredStart("small_cold_start", "small", True, 45),
    MeasuredStart("small_snapshot_start", "small", False, 5),
    MeasuredStart("epyc9754_cold_start", "epyc9754", True, 240),
    MeasuredStart("epyc9754_snapshot_start", "epyc9754", False, 15),
)


def measure_start_seconds(start: MeasuredStart) -> float:
    """Return the seconds from the request to start a machine until a first command has run in its guest."""
    name = f"bench-{start.shape}"
    begun = time.monotonic()
    machine = start_machine(start.shape, name=name, cold=start.cold)
    try:
        machine.run("true")
        return time.monotonic() - begun
    finally:
        machine.discard()


def main() -> None:
    """Measure every start and print a line for each; exit with 1 when a start takes longer than its limit."""
    figures = Figures()
    try:
        for shape in dict.fromkeys(way.shape for way in STARTS):
            if not snapshot_dir(get_shape(shape), get_release("6.12")).exists():
                start_machine(shape, name=f"bench-{shape}").discard()
        for way in STARTS:
            figures.print_figure(way.name, measure_start_seconds(way), "s", Bar("<", way.limit))
    except VepycError as error:
        print(f"vepyc: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    raise SystemExit(int(figures.missed))


if __name__ == "__main__":
    main()
