#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print for each knob and each kernel of the lab how the conformance tests ended when they last ran on these sources.

Run as `make kernels`. Whatever did not run on these very sources is "not run"; `make test-all TIER=lab` runs all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.harness.record import Outcome, Record, sources_digest
from vepyc.images.guest_image import image_dir
from vepyc.images.guest_system import RELEASES

ROOT = Path(__file__).resolve().parents[1]
#: The file of a knob, and at the end of a test in it the kernel.
TEST = re.compile(r"tests/lab/test_(\w+)_conformance\.py::.*\[([^\]]*)\]")
NOT_RUN = "not run"
#: From the worst outcome of the tests of a cell to the best one.
WORST_FIRST = ("failed", "skipped", "passed")


def list_knobs(folder: Path) -> list[str]:
    """Return the knobs that have a file of conformance tests."""
    return sorted(path.stem[len("test_") : -len("_conformance")] for path in folder.glob("test_*_conformance.py"))


def worst_outcomes(outcomes: Mapping[str, Outcome]) -> dict[tuple[str, str], str]:
    """Return the worst outcome of the tests of each knob with each kernel."""
    cells: dict[tuple[str, str], str] = {}
    for test, outcome in outcomes.items():
        if match := TEST.fullmatch(test):
            cell = match[1], match[2]
            cells[cell] = min(cells.get(cell, "passed"), outcome.outcome, key=WORST_FIRST.index)
    return cells


def render_table(
    knobs: Iterable[str], releases: Mapping[str, str], cells: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    """Yield a head with the kernels and their releases, and a line for each knob."""
    titles = {kernel: f"{kernel} ({release})" if release else kernel for kernel, release in releases.items()}
    yield "  ".join([f"{'knob':<10}", *titles.values()]).rstrip()
    for knob in knobs:
        words = (f"{cells.get((knob, kernel), NOT_RUN):<{len(title)}}" for kernel, title in titles.items())
        yield "  ".join([f"{knob:<10}", *words]).rstrip()


def read_kernel_release(kernel: str) -> str:
    """Return the release of the kernel in the image of the lab, an empty text where no image was built."""
    file = image_dir(RELEASES[kernel]) / "release"
    return file.read_text().strip() if file.exists() else ""


def main() -> None:
    releases = {kernel: read_kernel_release(kernel) for kernel in RELEASES}
    cells = worst_outcomes(Record.of_sources(sources_digest()).outcomes())
    print(*render_table(list_knobs(ROOT / "tests/lab"), releases, cells), sep="\n")


if __name__ == "__main__":
    main()
