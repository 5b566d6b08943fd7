# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much page cache beyond the wanted is dropped, because CPUs keep some of the freed pages on their own lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import page_cache

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
    ("zones", "pages"),
    [
        pytest.param([(1, "Normal", 100, 4000)], 4000, id="Linux 6.7 and later: lists grow"),
        pytest.param([(1, "Normal", 100, None)], 100, id="before: lists keep their length"),
        pytest.param([(0, "DMA", 0, 10), (0, "Normal", 90, 900)], 0, id="zones of other nodes do not count"),
        pytest.param([(1, "DMA32", 10, 50), (11, "Normal", 9, 9), (1, "Normal", 90, 900)], 950, id="zones add up"),
        pytest.param([], 0, id="nothing to read"),
    ],
)
def test_the_list_of_a_cpu(tmp_path: Path, zones: list[tuple[int, str, int, int | None]], pages: int) -> None:
    text = "".join(
        ZONE.format(node=node, name=name, high=high, limits=LIMITS.format(high_max=high_max) if high_max else "")
        for node, name, high, high_max in zones
    )
    if text:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/zoneinfo").write_text(text)
    assert page_cache._read_bytes_on_list_of_cpu(KernelFS(str(tmp_path)), 1) == 4096 * pages
