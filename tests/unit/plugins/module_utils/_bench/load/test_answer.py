# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One measured request: its times on a clock that only the stream moves, and every way in which it can go wrong."""

from __future__ import annotations

import hashlib
import socket
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import answer as answers
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import event_stream, server_http
from ansible_collections.sovereign.epyc.tests.unit.fakes.completions import (
    WHERE,
    WITNESS,
    Clock,
    Completions,
    answer,
    events,
    timings,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import serving

FIVE = Prompt("code_edit", "def f(", 5)


def played(monkeypatch: pytest.MonkeyPatch, delays: list[float], prompt: Prompt, **more: float) -> answers.Answer:
    """Ask a server whose events come after these delays in seconds, the last one being the end."""
    clock = Clock()
    coming = events(prompt.tokens, **more)
    assert len(coming) == len(delays)
    script = list(zip(delays, coming))
    monkeypatch.setattr(event_stream, "stream_events", clock.playing(script))
    return answers.fetch_answer(answers.Server("http://127.0.0.1:1", clock=clock), prompt)


def test_times_of_a_steady_server(monkeypatch: pytest.MonkeyPatch) -> None:
    found = played(monkeypatch, [0.25, 0.01, 0.02, 0.01, 0.02, 0.5], FIVE)
    assert found.ttft_ms == pytest.approx(250)
    assert found.gaps_ms == pytest.approx([10, 20, 10, 20])
    assert found.tpot_ms == pytest.approx(15)
    assert (found.ended - found.begun) == pytest.approx(0.81) and found.text == "0 1 2 3 4 "


def test_gaps_and_time_per_token_differ_in_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tokens each 40 ms: a token takes 10 ms, and a reader waits for nothing or for 40 ms."""
    delays = [0.2, 0.0, 0.0, 0.0] + [0.04, 0.0, 0.0, 0.0] * 63 + [0.0]
    found = played(monkeypatch, delays, Prompt("prose", "Once", 256))
    assert found.tpot_ms == pytest.approx(10, rel=0.02)
    assert sorted(set(map(round, found.gaps_ms))) == [0, 40]


def test_the_request_body() -> None:
    server = Completions(events(5))
    with serving(server) as http:
        found = answers.fetch_answer(answers.Server(f"{http.url}/", "first"), FIVE)
    (asked,) = server.asked
    wanted = {"prompt": "def f(", "n_predict": 5, "ignore_eos": True, "temperature": 0, "cache_prompt": False}
    assert wanted.items() <= asked.items() and asked["stream"] is True and asked["timings_per_token"] is False
    ((method, path, headers),) = http.requests
    assert (method, path, headers["Authorization"]) == ("POST", "/completion", "Bearer first")
    assert (found.text, len(found.chunks), found.generated_tokens) == ("0 1 2 3 4 ", 5, 5)
    assert found.begun <= found.chunks[0] <= found.chunks[-1] <= found.ended


def test_small_packets_are_sent_at_once() -> None:
    """Where the kernel gathers them, a request waits 40 ms for an acknowledgement, and TTFT is wrong by that."""
    with serving(lambda request: None) as http:
        connection = server_http.make_connection_and_path_prefix(http.url, 1)[0]
        connection.connect()
        assert connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.close()


def test_the_record_of_an_answer() -> None:
    found = answer(10, [10.2, 10.21, 10.23], predicted_ms=35.5, draft_n=2, draft_n_accepted=1)
    found.time = "2026-11-25T20:15:00Z"
    assert list(answers.build_one_stream_sample(found, WHERE, WITNESS, "The host swapped 3 pages.").items()) == [
        ("round", 3),
        ("arm", "tuned"),
        ("start", 2),
        ("kind", "prose"),
        ("streams", 1),
        ("depth", 0),
        ("turn", 1),
        ("rate", None),
        ("time", "2026-11-25T20:15:00Z"),
        ("prompt", hashlib.sha256(b"Once").hexdigest()[:12]),
        ("prompt_n", 20),
        ("prompt_ms", 100.0),
        ("predicted_n", 3),
        ("predicted_ms", 35.5),
        ("output_n", 3),
        ("output_ms", pytest.approx(230)),
        ("drafted", 2),
        ("accepted", 1),
        ("ttft_ms", 200.0),
        ("ttfts_ms", [200.0]),
        ("gaps_ms", [10.0, 20.0]),
        ("text_sha256", hashlib.sha256(b"text").hexdigest()),
        ("within_slo", None),
        ("witness", {"others": 0.0, "steal": 0.0}),
        ("void", "The host swapped 3 pages."),
    ]
    plain = answers.build_one_stream_sample(answer(10, [10.2, 10.21]), WHERE, WITNESS)
    assert (plain["drafted"], plain["accepted"], plain["void"]) == (0, 0, None)


def test_the_rate_is_the_servers_own() -> None:
    found = answer(0, [1, 2], prompt_ms=500.0, predicted_ms=250.0)
    assert found.tokens_per_second == pytest.approx(8)


def final(**more: Any) -> list[dict[str, Any]]:
    return [*events(5)[:-1], {**events(5)[-1], **more}]


def told(**more: float) -> list[dict[str, Any]]:
    return final(timings=timings(5, **more))


OLD = {name: value for name, value in timings(5).items() if name != "cache_n"}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (told(cache_n=7), "took 7 tokens of the prompt from its cache"),
        (final(timings=OLD, tokens_evaluated=32), "took 12 tokens of the prompt from its cache"),
        (told(predicted_n=4), "made 4 tokens where 5 were asked for"),
        (final(timings=None), "tells no prompt_n"),
        (told(predicted_ms=0), "tells no predicted_ms"),
        (events(5)[-1:], "made tokens but sent no text"),
        ([*events(2)[:-1], {"error": {"message": "No memory."}}], "broke off: No memory."),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for(script: list[dict[str, Any]], words: str) -> None:
    with serving(Completions(script)) as http, pytest.raises(TuningError) as error:
        answers.fetch_answer(answers.Server(http.url), FIVE)
    assert str(error.value).startswith(f"{http.url}/completion {words}") and str(error.value).endswith(".")


def test_an_older_server_that_took_nothing_from_its_cache() -> None:
    with serving(Completions(final(timings=OLD))) as http:
        assert answers.fetch_answer(answers.Server(http.url), FIVE).generated_tokens == 5


def test_a_server_that_refuses() -> None:
    too_long = Completions([{"error": {"message": "the prompt is too long"}}], status=400)
    with serving(too_long) as http, pytest.raises(TuningError) as error:
        answers.fetch_answer(answers.Server(http.url), FIVE)
    assert str(error.value) == f"{http.url}/completion answers 400: the prompt is too long."
    with pytest.raises(TuningError, match=r"/completion broke off \(.*Connection refused\)\."):
        answers.fetch_answer(answers.Server(http.url), FIVE)


def test_a_server_that_dies_in_the_middle() -> None:
    with serving(Completions(events(5)[:2])) as http, pytest.raises(TuningError) as error:
        answers.fetch_answer(answers.Server(http.url), FIVE)
    words = "closed the connection in the middle of its answer: 2 pieces of text for 5 tokens came, the last after "
    assert str(error.value).startswith(f"{http.url}/completion {words}")
    with (
        serving(Completions([])) as http,
        pytest.raises(TuningError, match=r"0 pieces of text for 5 tokens came\. The"),
    ):
        answers.fetch_answer(answers.Server(http.url), FIVE)


def test_a_server_that_stalls() -> None:
    server = Completions(events(5)[:2])
    server.hangs.clear()
    with serving(server) as http:
        with pytest.raises(TuningError) as error:
            answers.fetch_answer(answers.Server(http.url, answer_timeout=0.5), FIVE)
        server.hangs.set()
    assert str(error.value).startswith(f"{http.url}/completion did not finish in 0.5 s: ")


def test_a_server_that_never_ends_is_left_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on sending, so no read times out; the limit is that of the answer, not of a read."""
    clock = Clock()
    script = [(0.4, event) for event in events(5)[:-1]]
    monkeypatch.setattr(event_stream, "stream_events", clock.playing(script))
    with pytest.raises(
        TuningError, match=r"did not finish in 2 s: 5 pieces of text for 5 tokens came, the last after 2\.0 s"
    ):
        answers.fetch_answer(answers.Server("http://127.0.0.1:1", answer_timeout=2, clock=clock), FIVE)
