# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that take the beginning of their prompt from the prefix cache on purpose."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import prefix_reuse
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import Server, fetch_answer
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.tests.unit.fakes.completions import Completions, answer, events
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

PROMPTS = [Prompt("prose", "Once", 3), Prompt("summary", "In short", 3)]


def test_a_second_turn_begins_with_the_whole_first_one() -> None:
    second = prefix_reuse.build_second_turn(answer(0, [1, 2]))
    assert second.text.startswith("Oncetext\n\n") and second.reuses_prefix and second.kind == "prose"


def test_a_context_is_cut_from_a_text_that_is_long_enough() -> None:
    asked: list[dict[str, Any]] = []

    def tokenize(request: BaseHTTPRequestHandler) -> None:
        asked.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        say(request, 200, json.dumps({"tokens": list(range(len(asked[-1]["content"]) // 10))}).encode())

    with serving(tokenize) as http:
        assert prefix_reuse.fetch_context_tokens(Server(http.url, "key"), 3000) == list(range(3000))
    # A token of four characters would do with the first text; these have ten.
    assert len(asked) == 3 and len(asked[2]["content"]) > 30_000
    assert asked[2]["content"].startswith("Chapter 1.\n") and "Chapter 9.\n" in asked[2]["content"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{}", r"/tokenize names no tokens: it is no llama-server"),
        (b'{"tokens": "\xff"}', r"/tokenize names no tokens: it is no llama-server"),
        (b'{"tokens": [1]}', r"/tokenize names 1 tokens for a text of \d+ characters: it is no llama-server\."),
    ],
)
def test_a_server_that_names_no_tokens(body: bytes, sentence: str) -> None:
    with (
        serving(lambda request: say(request, 404, body)) as http,
        pytest.raises(TuningError, match=sentence) as error,
    ):
        prefix_reuse.fetch_context_tokens(Server(http.url), 10)
    assert "depth" in error.value.details


def test_a_tokenizer_that_breaks_off() -> None:
    with (
        serving(lambda request: request.wfile.write(b"what?\r\n\r\n")) as http,
        pytest.raises(TuningError, match=r"/tokenize broke off \(what"),
    ):
        prefix_reuse.fetch_context_tokens(Server(http.url), 10)


def test_prompts_come_after_the_context_and_may_be_cached() -> None:
    server = Completions(events(3, cache_n=5))
    context = (7, 8, 9, 10, 11)
    with serving(server) as http:
        found = [fetch_answer(Server(http.url), Prompt(one.kind, one.text, 3, context, True)) for one in PROMPTS]
    assert [one["prompt"] for one in server.asked] == [[*context, "Once"], [*context, "In short"]]
    assert all(one["cache_prompt"] for one in server.asked) and [one.cached_tokens for one in found] == [5, 5]


def test_a_cached_token_of_a_plain_prompt_is_still_an_error() -> None:
    with (
        serving(Completions(events(3, cache_n=5))) as http,
        pytest.raises(TuningError, match="took 5 tokens of the prompt from its cache, which the request forbids"),
    ):
        fetch_answer(Server(http.url), PROMPTS[0])
