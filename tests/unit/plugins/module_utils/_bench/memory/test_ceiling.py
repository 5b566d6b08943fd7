# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A step held against the memory: the figures, and what is said where they cannot be right."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.bandwidth import Bandwidth
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.ceiling import (
    Ceiling,
    compare_step_with_memory_time,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest

MIB = 1 << 20


def held(size: float, step_ms: float, gbps: float | None = 200.0, source: str = "reader") -> Ceiling:
    """A step of these bytes on a host with 32 MiB of L3."""
    return compare_step_with_memory_time(size, Bandwidth([0], [0], gbps, source), step_ms, 32 * MIB)


def test_a_step_is_split_into_memory_and_other_time() -> None:
    """10 GB at 200 GB/s take 50 ms."""
    found = held(10e9, 80.0)
    assert (found.memory_ms, found.memory_time_share, found.problem, found.remarks) == (50.0, 0.625, "", [])


def test_the_ceiling_itself_is_no_problem() -> None:
    assert held(10e9, 50.0).memory_time_share == 1.0 and held(10e9, 50.0).problem == ""


def test_above_the_ceiling_something_is_wrong() -> None:
    found = held(10e9, 49.0)
    assert found.problem == (
        "A step took 49.00 ms, and reading its 9.3 GiB at 200.0 GB/s takes 50.00 ms, which is longer: the bytes or the "
        "bandwidth are wrong, and the 32 MiB of L3 cache do not hold the model. Compare the bytes with what gguf_info "
        "says of the file that is served, and measure the bandwidth again on an idle host."
    )
    assert held(10e9, 49.0, source="paper").problem.endswith("that is served, and measure the bandwidth.")


def test_a_model_in_the_cache_is_said_so() -> None:
    found = held(32 * MIB, 0.1)
    assert found.problem.endswith("longer: the model lies in the 32 MiB of L3 cache. Measure a model that is larger.")
    slow = held(32 * MIB, 10.0)
    assert slow.problem == "" and slow.remarks == found.remarks
    assert slow.remarks == [
        "The 32 MiB that a step reads fit into the 32 MiB of L3 cache of these CPUs: memory is not the limit."
    ]
    assert held(32 * MIB + 1, 10.0).remarks == []


def test_what_was_not_measured_is_marked() -> None:
    found = held(10e9, 80.0, source="paper")
    assert not found.measured
    assert found.remarks == ["The bandwidth was not measured: 200 GB/s is the paper figure."]
    found = held(10e9, 80.0, None, "nothing")
    assert (found.memory_ms, found.memory_time_share, found.problem) == (None, None, "")
    assert found.remarks == ["The bandwidth of this memory was not measured and is not known: there is no ceiling."]


@pytest.mark.parametrize("step_ms", [0.0, -1.0])
def test_a_step_that_took_no_time(step_ms: float) -> None:
    with pytest.raises(BadRequest, match="cannot be compared with the memory; measure it again"):
        held(10e9, step_ms)
