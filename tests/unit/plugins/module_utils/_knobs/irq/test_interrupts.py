# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where each interrupt goes, and which the kernel lets go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq import interrupts
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.interrupts import with_interrupts
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import RuledFS


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    return with_interrupts(tmp_path)


FOUND = st.dictionaries(st.integers(0, 99), st.lists(st.integers(0, 9), max_size=2, unique=True), max_size=30)


@given(FOUND, st.lists(st.integers(0, 9), min_size=1, max_size=10, unique=True))
def test_spreading_is_even_and_stays_as_it_is(found: dict[int, list[int]], cpus: list[int]) -> None:
    placed = interrupts.assign_irqs_to_cpus(found, cpus)
    assert list(placed) == sorted(found)
    loads = [list(placed.values()).count(cpu) for cpu in cpus]
    assert sum(loads) == len(found)
    assert max(loads) <= -(-len(found) // len(cpus))
    assert interrupts.assign_irqs_to_cpus({number: [cpu] for number, cpu in placed.items()}, cpus) == placed
    # A new one moves nobody, as long as there is room for it.
    more = interrupts.assign_irqs_to_cpus({**{number: [cpu] for number, cpu in placed.items()}, 100: []}, cpus)
    assert {number: more[number] for number in placed} == placed


def test_a_kernel_whose_file_modes_tell_is_not_asked_by_a_write(tree: hosts.Host, monkeypatch: Any) -> None:
    for number in (0, 41):
        (Path(tree.fs.root) / f"proc/irq/{number}/smp_affinity_list").chmod(0o444)
    monkeypatch.setattr(RuledFS, "write_refusal_errno", lambda *asked: pytest.fail("it was asked"))
    assert [interrupts.is_movable(tree.fs, number) for number in (0, 41, 50, 99)] == [False, False, True, None]
