# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Predicted decode rates: a floor of operations, barriers and computing, and the time for memory."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import MEASURED, PAPER
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import ModelShape
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction import step_floor
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.decode_rate import (
    count_streams_at_rate,
    predict_decode_rate,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.step_floor import Processor

DENSE_70B = ModelShape("70b", "Q4_K_M", "llama", 70.6e9, 70.6e9, 42.5e9, 42.5e9, 80, 327_680, 131_072)
MIXTURE_30B = ModelShape("30b", "Q4_K_M", "qwen3moe", 30.5e9, 3.3e9, 18.6e9, 1.83e9, 48, 98_304, 262_144, 1 / 16)


def test_a_token_takes_the_floor_and_the_time_for_memory() -> None:
    predicted = predict_decode_rate(DENSE_70B, 96, 400.0, MEASURED)
    assert predicted.memory_ms == pytest.approx(42.5 / 400 * 1000)
    assert predicted.tokens_per_second == pytest.approx(1000 / (predicted.floor_ms + predicted.memory_ms))
    assert predicted.low < predicted.tokens_per_second < predicted.high < predicted.ceiling
    assert predicted.ceiling == pytest.approx(400 / 42.5)
    assert predicted.arithmetic == (
        "42.50 GB / 400 GB/s (measured) = 106.2 ms, and 40.8 ms of operations, barriers and computing: 147.0 ms"
    )


def test_the_ceiling_of_paper_is_the_whole_data_sheet() -> None:
    assert predict_decode_rate(DENSE_70B, 96, 0.82 * 460.8, PAPER).ceiling == pytest.approx(460.8 / 42.5)


def test_few_active_parameters_are_bound_by_operations() -> None:
    dense, mixture = (predict_decode_rate(shape, 96, 400.0, PAPER) for shape in (DENSE_70B, MIXTURE_30B))
    assert mixture.floor_ms > mixture.memory_ms and dense.floor_ms < dense.memory_ms
    slower = predict_decode_rate(MIXTURE_30B, 192, 400.0, PAPER)
    assert slower.tokens_per_second < mixture.tokens_per_second, "barriers grow with threads"


def test_barriers_take_what_was_measured() -> None:
    layers = ModelShape("one", "Q4_K_M", "llama", 1, 0, 1, 1, 1000, 0, 0)
    per_barrier = [
        1000 * step_floor.estimate_operations_ms(layers, Processor(threads)) / step_floor.count_barriers(layers)
        for threads in (48, 96)
    ]
    assert [us - step_floor.OPERATION_US for us in per_barrier] == pytest.approx([1.9, 3.2], abs=0.05)


def test_a_second_socket_costs_and_local_memory_costs_less() -> None:
    near, local, far = (
        predict_decode_rate(DENSE_70B, processor, 700.0, PAPER)
        for processor in (Processor(192), Processor(192, sockets=2, reads_far_memory=False), Processor(192, sockets=2))
    )
    assert near.tokens_per_second > local.tokens_per_second > far.tokens_per_second
    assert far.memory_ms == pytest.approx(local.memory_ms / 0.8)


def test_computing_depends_on_cores_and_on_the_type() -> None:
    shapes = [ModelShape("s", kind, "llama", 7e9, 7e9, 4e9, 4e9, 32, 0, 0) for kind in ("Q4_K_M", "BF16", "IQ2_XS")]
    plain, wide, tables = (step_floor.estimate_computing_ms(shape, Processor(32)) for shape in shapes)
    assert wide < plain < tables
    assert step_floor.estimate_computing_ms(shapes[0], Processor(64, cores=32)) == plain, "SMT has no cores of its own"
    assert step_floor.estimate_computing_ms(shapes[0], Processor(64)) == plain / 2


@pytest.mark.parametrize(
    ("family", "model_number", "speed"),
    [
        (25, 0x01, 0.6),
        (25, 0x11, 1.0),
        (25, 0xA0, 0.83),
        (26, 0x02, 1.3),
        (26, 0x11, 1.15),
        (26, 0x44, 1.3),
        (26, 0x50, None),
        (26, 0x57, None),
        (26, 0xD0, None),
        (6, 0, None),
    ],
)
def test_the_speed_of_a_core(family: int, model_number: int, speed: float | None) -> None:
    assert step_floor.find_core_speed(family, model_number) == speed


@pytest.mark.parametrize(
    ("architecture", "share", "barriers"),
    [
        ("llama", 0.0, 27),
        ("qwen3moe", 1 / 16, 48),
        ("deepseek2", 1 / 32, 70),
        ("deepseek32", 1 / 32, 70),
        ("qwen3next", 1 / 50, 63),
        ("qwen35", 0.0, 42),
        ("deepseek4", 1 / 40, 112),
    ],
)
def test_the_barriers_of_a_layer(architecture: str, share: float, barriers: int) -> None:
    assert step_floor.count_barriers(ModelShape("s", "", architecture, 2, 1, 1, 1, 1, 0, 0, share)) == barriers


def test_streams_share_the_weights_and_read_their_own_context() -> None:
    alone = predict_decode_rate(DENSE_70B, 96, 400.0, MEASURED)
    four = predict_decode_rate(DENSE_70B, 96, 400.0, MEASURED, streams=4)
    assert four.tokens_per_second < alone.tokens_per_second < four.total
    assert four.memory_ms == alone.memory_ms
    deep = predict_decode_rate(DENSE_70B, 96, 400.0, MEASURED, streams=4, context=10_000)
    assert deep.bytes_per_token == pytest.approx(42.5e9 + 4 * 10_000 * 327_680)


def test_streams_at_a_rate() -> None:
    count = count_streams_at_rate(MIXTURE_30B, 96, 400.0, MEASURED, 10.0)
    assert count > 1
    rates = [predict_decode_rate(MIXTURE_30B, 96, 400.0, MEASURED, streams=n) for n in (count, count + 1)]
    assert rates[0].tokens_per_second >= 10 > rates[1].tokens_per_second
    assert count_streams_at_rate(DENSE_70B, 96, 400.0, MEASURED, 10.0) == 0


def test_plain_data() -> None:
    data = predict_decode_rate(DENSE_70B, 96, 400.0, MEASURED).to_dict()
    assert data["streams"] == 1 and data["source"] == "measured" and data["tokens_per_second"] == 6.803
