# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The zones of a node, as kernels of several years show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import zones

ZONE = """\
Node {node}, zone   {name}
  pages free     4096
        min      16
        low      20
        high     24
  pagesets
    cpu: 0
              count:    0
              high:     {high}
              batch:    63
{limits}  vm stats threshold: 12
    cpu: 1
              count:    7
              high:     {high}
              batch:    63
{limits}  vm stats threshold: 12
"""
LIMITS = "              high_min: 90\n              high_max: {high_max}\n"


@pytest.mark.parametrize(
    ("shown", "pages", "low"),
    [
        pytest.param([(1, "Normal", 100, 4000)], 4000, 20, id="Linux 6.7 and later: lists grow"),
        pytest.param([(1, "Normal", 100, None)], 100, 20, id="before: lists keep their length"),
        pytest.param([(0, "DMA", 0, 10), (0, "Normal", 90, 900)], 0, 0, id="zones of other nodes do not count"),
        pytest.param([(1, "DMA32", 10, 50), (11, "Normal", 9, 9), (1, "Normal", 90, 900)], 950, 40, id="zones add up"),
        pytest.param([], 0, 0, id="nothing to read"),
    ],
)
def test_the_zones_of_a_node(
    tmp_path: Path, shown: list[tuple[int, str, int, int | None]], pages: int, low: int
) -> None:
    text = "".join(
        ZONE.format(node=node, name=name, high=high, limits=LIMITS.format(high_max=high_max) if high_max else "")
        for node, name, high, high_max in shown
    )
    if text:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/zoneinfo").write_text(text)
    read = zones.read_zones(KernelFS(str(tmp_path)), 1)
    assert sum(zone.pages_per_cpu_list for zone in read) == pages
    assert sum(zone.low_pages for zone in read) == low
