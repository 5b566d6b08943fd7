# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The predicted decode rate of a planned instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import machine, models_in, planned


def test_a_plan_says_its_predicted_rate(tmp_path: Path) -> None:
    plan = planned(machine("9754"), models_in(tmp_path))
    rate = plan.predicted_rate
    assert rate is not None and rate.source == "paper"
    assert rate.low < rate.tokens_per_second < rate.high < rate.ceiling == pytest.approx(460.8 / 42, rel=0.01)
    assert rate.describe().startswith(f"Predicted are {rate.tokens_per_second:.1f} tokens per second for one user, ")
    assert plan.to_dict()["predicted_rate"] == rate.to_dict()


def test_a_measured_bandwidth_of_the_instance_counts(tmp_path: Path) -> None:
    rate = planned(machine("9754"), models_in(tmp_path), bandwidth=150.0).predicted_rate
    assert rate is not None and (rate.source, rate.gbps) == ("measured", 150.0)
    assert rate.memory_ms == pytest.approx(42 / 150 * 1000, rel=0.01)


def test_experts_of_a_mixture_that_are_not_used_are_not_read(tmp_path: Path) -> None:
    plain, fewer = (
        planned(machine("9754"), models_in(tmp_path), moe=True, **more).predicted_rate for more in ({}, {"experts": 4})
    )
    assert plain is not None and fewer is not None
    assert fewer.bytes_per_token == pytest.approx(5e9 + 100e9 * 4 / 128, rel=0.01)
    assert plain.bytes_per_token == pytest.approx(5e9 + 100e9 * 8 / 128, rel=0.01)
