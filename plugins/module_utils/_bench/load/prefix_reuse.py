# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that take the beginning of their prompt from the prefix cache on purpose: deep contexts, and second turns.

A deep context is read once, and each prompt after it begins with the same tokens, so that only the prompt itself is
read. A second turn is a whole chat so far, whose first turn the server has just answered.
"""

from __future__ import annotations

import http.client
import json
from contextlib import closing

from ..._errors import TuningError
from ..._serving.hooks import event_stream, server_http
from .answer import fetch_answer
from .built_in_prompts import PROMPT_TEXTS
from .prompts import Prompt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .answer import Answer, Server

#: Depths in tokens that are measured by default.
DEPTHS = (4096, 16384, 32768)
#: The share of a deep context that must come from the prefix cache.
LEAST_CACHED = 0.9
FOLLOW_UP = "\n\nThank you. Now say the same again in one sentence:"
SECOND_TURN_TOKENS = 16
LARGEST_TOKEN_LIST = 16 << 20


def build_second_turn(first: Answer) -> Prompt:
    """Return the prompt of the second turn: the first prompt, its answer, and a short follow-up."""
    text = f"{first.prompt.text}{first.text}{FOLLOW_UP}"
    return Prompt(first.prompt.kind, text, SECOND_TURN_TOKENS, reuses_prefix=True)


def fetch_context_tokens(server: Server, count: int) -> list[int]:
    """Return the ids of the first ``count`` tokens of a long text, which is made of numbered built-in prompts."""
    chapters = [text for texts in PROMPT_TEXTS.values() for text in texts]
    # A token has at most a few characters, so that a text with as many characters as tokens is too short.
    for characters_per_token in (4, 8, 16, 32, 64):
        parts: list[str] = []
        length = 0
        while length < characters_per_token * count:
            parts.append(f"Chapter {len(parts) + 1}.\n{chapters[len(parts) % len(chapters)]}\n\n")
            length += len(parts[-1])
        tokens = _fetch_token_ids(server, "".join(parts))
        if len(tokens) >= count:
            return tokens[:count]
    raise TuningError(
        f"{server.url}/tokenize names {len(tokens)} tokens for a text of {length} characters: it is no llama-server.",
        depth=0,
    )


def _fetch_token_ids(server: Server, text: str) -> list[int]:
    """Return the ids of the tokens of a text; TuningError where the server does not say them."""
    connection, base = server_http.make_connection_and_path_prefix(server.url, server.answer_timeout)
    headers = {"Content-Type": "application/json", **server_http.authorization_headers(server.key)}
    with closing(connection):
        try:
            connection.request("POST", f"{base}/tokenize", json.dumps({"content": text, "add_special": True}), headers)
            text = connection.getresponse().read(LARGEST_TOKEN_LIST).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise TuningError(f"{server.url}/tokenize broke off ({error or type(error).__name__}).") from None
    answer = event_stream.parse_json_or_none(text)
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not tokens or not all(isinstance(token, int) for token in tokens):
        raise TuningError(
            f"{server.url}/tokenize names no tokens: it is no llama-server, or its version is too old.", depth=0
        )
    return list(tokens)


def fetch_answers_at_depth(server: Server, prompts: Sequence[Prompt], context: Sequence[int]) -> list[Answer]:
    """Read a context into the prefix cache, and return the answer of that reading and those to prompts after it.

    TuningError where the server does not keep the context in its prefix cache.
    """
    reading = Prompt(prompts[0].kind, "\n", 2, context, reuses_prefix=True)
    answers = [fetch_answer(server, reading)]
    for prompt in prompts:
        answers.append(fetch_answer(server, Prompt(prompt.kind, prompt.text, prompt.tokens, context, True)))
        if answers[-1].cached_tokens < LEAST_CACHED * len(context):
            raise TuningError(
                f"Of a context of {len(context)} tokens the server took {answers[-1].cached_tokens} from its prefix "
                "cache: this model or its server keeps no part of a prompt, so that depths cannot be measured.",
                depth=len(context),
            )
    return answers
