# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load: the window in which all streams are busy, on given times; and that streams really ask at once."""

from __future__ import annotations

import threading

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import closed_loop
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import (
    Answer,
    Server,
    build_one_stream_sample,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.tests.unit.fakes.completions import WHERE, WITNESS, Completions, answer, events
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import serving


def steady(begun: float, seconds: int, **more: float) -> Answer:
    """An answer that the server worked on all the time, with a token each half second."""
    return answer(
        begun,
        [begun + 0.5 * number for number in range(1, 2 * seconds + 1)],
        prompt_ms=more.get("prompt_ms", 0.0),
        predicted_ms=more.get("predicted_ms", 1000.0 * seconds),
    )


def test_the_window_is_where_all_are_busy() -> None:
    """From the second stream's begin at 1 to the first one's end at 9: of 18 + 16 tokens, 16 each come in it."""
    window = closed_loop.BusyWindow(
        [[steady(0, 3), steady(3, 3), steady(6, 3)], [steady(1, 4), steady(5, 4), answer(9, [11, 12])]]
    )
    assert (window.begin, window.end, window.streams) == (1, 9, 2)
    assert window.tokens == 32 and window.concurrency == pytest.approx(2)
    assert [one.begun for one in window.answers] == [3, 6, 1, 5]


def test_the_record_of_a_window() -> None:
    window = closed_loop.BusyWindow([[steady(0, 4), steady(4, 4)], [steady(0, 4, prompt_ms=1.0), steady(4, 5)]])
    record = window.to_sample(WHERE, WITNESS, "No.")
    alone = build_one_stream_sample(window.answers[0], WHERE, WITNESS, "No.")
    assert list(record) == list(alone) and record["witness"] == WITNESS
    assert (record["streams"], record["kind"], record["round"], record["arm"]) == (2, "prose", 3, "tuned")
    # 8 + 8 of one stream, 8 + 8 of the other, whose last two tokens come after the end at 8.
    assert (record["output_n"], record["output_ms"]) == (32, 8000)
    # The last answer does not lie within the window.
    assert (record["predicted_n"], record["predicted_ms"]) == (24, 12000)
    assert (record["prompt_n"], record["prompt_ms"], record["ttft_ms"]) == (60, 1.0, 500)
    assert record["gaps_ms"] == [500.0] * 21 and record["text_sha256"] is None and record["void"] == "No."


def test_drafted_tokens_of_a_window_are_summed() -> None:
    one = answer(0, [1, 2, 3], predicted_ms=3000, draft_n=2, draft_n_accepted=1)
    record = closed_loop.BusyWindow([[one], [one]]).to_sample(WHERE, WITNESS)
    assert (record["drafted"], record["accepted"], record["predicted_n"], record["void"]) == (4, 2, 6, None)


def test_a_request_that_waits_is_under_way() -> None:
    """While the server reads the prompt of one stream, the other one waits: the server is busy all the time."""
    halves = [steady(2 * number, 2, prompt_ms=100.0, predicted_ms=900.0) for number in range(4)]
    assert closed_loop.BusyWindow([halves, halves]).concurrency == pytest.approx(2)


@pytest.mark.parametrize(("pause", "refused"), [(0.15, False), (0.3, True)])
def test_nine_tenths_of_the_streams_must_be_busy(pause: float, refused: bool) -> None:
    """A client that is slow to ask again keeps the server idle for a part of the time."""
    one = [answer((2 + pause) * number, [(2 + pause) * number + 2], predicted_ms=2000.0) for number in range(50)]
    if refused:
        with pytest.raises(TuningError, match=r"2 streams asked, but only 1\.7 requests were under way"):
            closed_loop.BusyWindow([one, one])
    else:
        assert closed_loop.BusyWindow([one, one]).concurrency == pytest.approx(2 * 2 / 2.15, rel=0.01)


def test_too_few_requests_make_no_window() -> None:
    with pytest.raises(BadRequest, match="had nothing to ask: give each at least 4 requests"):
        closed_loop.BusyWindow([[steady(0, 2)], []])
    with pytest.raises(BadRequest, match="No answer lies wholly in the time in which all 2 streams were busy"):
        closed_loop.BusyWindow([[steady(0, 4)], [steady(1, 4)]])


@pytest.mark.parametrize(("streams", "requests"), [(1, 4), (2, 1)])
def test_too_few_streams_or_requests_are_refused(streams: int, requests: int) -> None:
    with pytest.raises(BadRequest, match="are no load"):
        closed_loop.fetch_answers_in_parallel(
            Server("http://127.0.0.1:1"), [Prompt("prose", "Once", 2)], streams, requests
        )


def test_one_stream_asks_in_order() -> None:
    server = Completions(events(3))
    prompts = [Prompt("prose", text, 3) for text in "cab"]
    with serving(server) as http:
        found = closed_loop.fetch_answers_sequentially(Server(http.url), prompts)
    assert [one["prompt"] for one in server.asked] == ["c", "a", "b"]
    assert [one.prompt for one in found] == prompts


def test_streams_ask_at_once_and_share_the_prompts() -> None:
    """The server answers nobody before three have asked; how fast this machine is must not decide."""
    server = Completions(events(3), together=3)
    with serving(server) as http:
        found = closed_loop.fetch_answers_in_parallel(
            Server(http.url), [Prompt("prose", text, 3) for text in "abcde"], 3, requests=4
        )
    assert sorted(one["prompt"] for one in server.asked) == sorted("abcdeabcdeab")
    assert len(found) == 3 and sum(len(answers) for answers in found) == 12


def test_the_first_error_ends_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are being answered when one fails ask no more after that."""
    asked: list[str] = []
    failing: list[threading.Thread] = []
    begun = threading.Event()

    def ask(server: Server, prompt: Prompt) -> Answer:
        asked.append(prompt.text)
        if prompt.text == "bad":
            failing.append(threading.current_thread())
            begun.set()
            raise TuningError("It broke off.")
        begun.wait(30)
        failing[0].join(30)
        return steady(0, 1)

    monkeypatch.setattr(closed_loop, "fetch_answer", ask)
    prompts = [Prompt("prose", text, 3) for text in ("good", "bad", "good", "good")]
    with pytest.raises(TuningError, match=r"It broke off\."):
        closed_loop.fetch_answers_in_parallel(Server("http://127.0.0.1:1"), prompts, 3)
    assert len(asked) <= 3 and asked.count("bad") == 1
