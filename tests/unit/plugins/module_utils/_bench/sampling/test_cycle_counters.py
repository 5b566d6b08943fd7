# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mean frequency over a time, from counters that begin anew; None where a host has none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.sampling import cycle_counters
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


class Registers(KernelFS):
    """Registers of CPUs: their offsets are numbers, so that those of neighbours overlap in a plain file."""

    def __init__(self, root: str) -> None:
        super().__init__(root, read_only=True)
        self.values: dict[str, dict[int, int]] = {}

    def read_words(self, path: str, offsets: Iterable[int]) -> list[int]:
        return [self.values[path][at] for at in offsets] if path in self.values else super().read_words(path, offsets)


class Tree:
    """A tree of kernel files with those of frequency."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fs = Registers(str(root))

    def put(self, path: str, data: object) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{data}\n")

    def registers(self, cpu: int, mperf: int, aperf: int) -> None:
        self.fs.values[f"/dev/cpu/{cpu}/msr"] = {0xE7: mperf, 0xE8: aperf}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_mean_frequency_of_the_work(tree: Tree) -> None:
    """One CPU worked at 3600 MHz and the other, for half as long, at the nominal 2250; one counter began anew."""
    tree.put("/sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", 2250)
    tree.registers(0, mperf=2**64 - 500, aperf=100)
    tree.registers(1, mperf=0, aperf=0)
    before = cycle_counters.read_cycle_counters(tree.fs, [0, 1, 2])
    tree.registers(0, mperf=500, aperf=1700)
    tree.registers(1, mperf=500, aperf=500)
    after = cycle_counters.read_cycle_counters(tree.fs, [0, 1, 2])
    assert sorted(after) == [0, 1]
    assert cycle_counters.mean_frequency_mhz(tree.fs, before, after) == pytest.approx(2250 * 2100 / 1500)
    assert cycle_counters.mean_frequency_mhz(tree.fs, before, before) is None
    (tree.root / "sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq").unlink()
    assert cycle_counters.mean_frequency_mhz(tree.fs, before, after) is None


def test_no_registers(tree: Tree) -> None:
    tree.put("/sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", 2250)
    assert (
        cycle_counters.read_cycle_counters(tree.fs, [0, 1]) == {}
        and cycle_counters.mean_frequency_mhz(tree.fs, {}, {}) is None
    )
