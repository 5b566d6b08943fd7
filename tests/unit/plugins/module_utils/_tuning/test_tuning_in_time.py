# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a tuning proves in the minutes that it was given, on a simulated server whose starts and passes take time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.tuning_result import TuningResult
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.timed_tunings import (
    Landscape,
    TunedServer,
    run_timed_tuning,
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        yield host


def tuned(
    here: Measured, patch: pytest.MonkeyPatch, landscape: Any, minutes: float, **options: Any
) -> tuple[dict[str, Any], TunedServer]:
    server = TunedServer(landscape, seed=1, drift=0.05)
    server.take_over(patch)
    return run_timed_tuning(here, server, minutes, 1, **options), server


def test_in_240_minutes_a_30b_model_is_tuned_with_proof(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    landscape = Landscape(1)
    document, server = tuned(here, monkeypatch, landscape, 240)
    assert server.clock.now <= 240 * 60
    result = TuningResult(document)
    options = result.to_tuned_options()["options"]
    assert math.expm1(landscape(options)) >= 0.9 * math.expm1(landscape.best)
    assert result.gain and result.gain.count >= schedule.CONFIRMATION_ROUNDS
    told = document["steps told"]
    assert any("31 values of 8 options: sweep" in line for line in told)
    lines = [line for line in told if re.match(r"(probe|sweep|race|confirmation), round", line)]
    assert lines and all(re.search(r"; (\d+ h )?\d+ (min|s) left$", line) for line in lines)


def test_one_option_is_proven_in_an_hour(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    def log_rate(options: Any) -> float:
        return 0.1 if options.get("threads", 128) == 96 else 0.0

    document, server = tuned(here, monkeypatch, log_rate, 75, options=["threads"])
    assert TuningResult(document).to_tuned_options()["options"] == {"threads": 96}
    assert server.clock.now <= 75 * 60


@pytest.mark.parametrize(("start_s", "pass_s", "minutes"), [(10, 5, 20), (45, 20, 75)])
def test_threads_alone_are_proven_in_minutes_without_a_limit_of_time(
    here: Measured, monkeypatch: pytest.MonkeyPatch, start_s: int, pass_s: int, minutes: int
) -> None:
    def log_rate(options: Any) -> float:
        return 0.1 if options.get("threads", 128) == 96 else 0.0

    server = TunedServer(log_rate, seed=1, start_s=start_s, pass_s=pass_s)
    server.take_over(monkeypatch)
    document = run_timed_tuning(here, server, 240, 1, options=["threads"])
    assert TuningResult(document).to_tuned_options()["options"] == {"threads": 96}
    assert server.clock.now <= minutes * 60
    (said,) = [line for line in document["steps told"] if "probably settle all of them, in about" in line]
    announced = re.search(r"in about (?:(\d+) h )?(\d+) min", said)
    assert announced and 60 * int(announced[1] or 0) + int(announced[2]) <= minutes


def test_a_flat_landscape_keeps_the_default_and_its_time(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    document, server = tuned(here, monkeypatch, Landscape(1, flat=True), 240, options=["threads", "ubatch"])
    assert TuningResult(document).to_tuned_options() == {} and server.clock.now < 200 * 60
    assert "nothing that was tried seems more than 2 % better" in run_report.render_run_report(document)


def test_a_time_that_cannot_confirm_is_refused_after_one_start(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    server = TunedServer(Landscape(1), seed=1)
    server.take_over(monkeypatch)
    with pytest.raises(
        BadRequest,
        match=r"Not enough time: a start takes 45 s and a pass 35 s, .* takes 44 min\. Give at least \d+ minutes",
    ):
        run_timed_tuning(here, server, 30, 1)
    assert server.starts == 1 and server.put_back == 1


def test_a_time_that_ends_the_sweep_early_is_said_first(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    document, server = tuned(here, monkeypatch, Landscape(1, flat=True), 65)
    assert server.clock.now <= 65 * 60
    first = run_report.render_run_report(document).splitlines()[0]
    assert first.startswith("Not enough time for ")
    assert "did not beat" not in first
