# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests at a rate: their moments, the record of their answers, and a client that is late."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import open_loop
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import Server
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.tests.unit.fakes.completions import WHERE, WITNESS, Completions, answer, events
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import serving


def test_pauses_between_arrivals_are_exponential() -> None:
    """Their mean is one over the rate, and as many are shorter than ln 2 of it as are longer."""
    moments = open_loop.draw_arrival_times(4.0, 20_001, "a")
    pauses = [after - before for before, after in zip(moments, moments[1:])]
    assert moments[0] == 0 and sum(pauses) / len(pauses) == pytest.approx(0.25, rel=0.03)
    assert sum(pause < 0.25 * 0.6931 for pause in pauses) / len(pauses) == pytest.approx(0.5, abs=0.02)


def test_equal_seeds_give_equal_moments() -> None:
    assert open_loop.draw_arrival_times(2.0, 5, "1") == open_loop.draw_arrival_times(2.0, 5, "1")
    assert open_loop.draw_arrival_times(2.0, 5, "1") != open_loop.draw_arrival_times(2.0, 5, "2")
    # The same in every version of Python.
    assert open_loop.draw_arrival_times(2.0, 3, "1") == pytest.approx(FIRST_MOMENTS, abs=1e-6)


FIRST_MOMENTS = [0.0, 0.546119, 0.966568]


def test_the_record_of_requests_at_a_rate() -> None:
    """Two requests overlap. From the first begin at 10 to the last end at 15 come six tokens."""
    answers = [answer(10, [11, 12, 13]), answer(12, [14, 14.5, 15])]
    sample = open_loop.Arrivals(0.5, [10, 12], answers).to_sample(
        WHERE, WITNESS, None, {"first_ms": 1500, "per_token_ms": 5000}
    )
    assert (sample["streams"], sample["rate"], sample["kind"]) == (2, 0.5, "prose")
    assert (sample["output_n"], sample["output_ms"], sample["within_slo"]) == (6, 5000, 0.5)
    assert sample["ttfts_ms"] == [1000, 2000]


def test_the_most_requests_that_were_pending() -> None:
    after_another = [answer(0, [1, 2]), answer(2, [3, 4])]
    assert open_loop.Arrivals(1, [0, 2], after_another).most_pending == 1


def test_a_late_client_measures_another_rate() -> None:
    answers = [answer(0.5, [1, 2]), answer(2.5, [3, 4])]
    with pytest.raises(TuningError, match="Requests at 1 per second were sent 500 ms late on average"):
        open_loop.Arrivals(1, [0, 2], answers)
    open_loop.Arrivals(0.1, [0, 2], answers)


def test_requests_do_not_wait_for_answers() -> None:
    """The server answers nobody before all have asked."""
    server = Completions(events(3), together=4)
    with serving(server) as http:
        planned, answers = open_loop.fetch_answers_at_rate(
            Server(http.url), [Prompt("prose", text, 3) for text in "ab"], 1000.0, "1", requests=4
        )
    assert sorted(one["prompt"] for one in server.asked) == ["a", "a", "b", "b"]
    assert [one.prompt.text for one in answers] == ["a", "b", "a", "b"] and planned == sorted(planned)


def test_the_first_error_is_raised() -> None:
    with (
        serving(Completions([{"error": {"message": "busy"}}], status=503)) as http,
        pytest.raises(TuningError, match="503"),
    ):
        open_loop.fetch_answers_at_rate(Server(http.url), [Prompt("prose", "a", 3)], 1000.0, "1", requests=3)
