# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends the prompt of a person to a running instance, and checks with the answer how and where the server computes.

Source: ``/apply-template`` and ``/completion`` in tools/server/README.md of llama.cpp.
"""

from __future__ import annotations

import time

from ..._errors import BadRequest, TuningError
from ..._verify.checklist_items import OK, WRONG, Item
from ..hooks import keys
from ..hooks.json_request import add_model_name_to_request, post_json
from ..unit.installed import select_instance_and_plan
from . import instance_items
from . import trial as trials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..._host.host import Host


class Answer:
    """The text of an answer, the items of a checklist about its server, and the measured values."""

    def __init__(self, unit: str, text: str, items: list[Item], facts: dict[str, object]) -> None:
        self.unit = unit
        self.text = text
        self.items = items
        self.facts = facts


def send_prompt_to_instance(
    host: Host,
    name: str | None,
    prompt: str,
    tokens: int,
    limit: float,
    guesses: bool = False,
    clock: Any = time,
    model: str | None = None,
    all_tokens: bool = False,
) -> Answer:
    """Send a prompt to an instance of this host; without a name, to the only one.

    ``tokens`` and ``limit`` are the most tokens and seconds of the answer. ``model`` names a model of a router, by
    default the first. With ``guesses``, an answer in which no guessed token was right is an error. With ``all_tokens``,
    the model goes on past the end of its answer.
    """
    if not prompt.strip():
        raise BadRequest("prompt is empty: say what to ask.")
    if tokens < 1 or limit <= 0:
        raise BadRequest(f"tokens is {tokens} and timeout is {limit:g}: both have to be above zero.")
    name, plan = select_instance_and_plan(name, host.fs.root)
    if plan["task"] != "completion":
        raise BadRequest(f"{name} is for the task {plan['task']}, and makes no text. Ask an instance that does.")
    if not plan["url"]:
        raise BadRequest(f"{name} is a part of an instance on several hosts, of which another host answers. Ask there.")
    if model and model not in plan["models"]:
        known = ", ".join(plan["models"]) or "only one, which needs no name"
        raise BadRequest(f"{name} has no model {model}: it has {known}.")
    model = model or next(iter(plan["models"]), None)
    try:
        key = keys.read_api_key_loaded_by_unit(host.fs, plan["unit"], plan["key_file"])
        text = _fetch_templated_prompt(plan["url"], prompt, limit, key, clock, model)
    except TuningError:
        # The items below report a server that does not serve, and a key that cannot be read.
        text = prompt
    question = trials.Question(text, tokens, limit, at_most=not all_tokens)
    items, facts, trial = instance_items.check_instance_or_model(host, name, plan, clock, question, model)
    verdict = sentence = ""
    if guesses and trial.tokens and not trial.accepted and trial.speculative is not False:
        guess_result = f"{trial.drafted} tokens, none of them right" if trial.has_guessed_tokens else "nothing"
        verdict, sentence = WRONG, f"Of this answer it guessed {guess_result}, and something was to be guessed right."
    elif trial.tokens and trial.speculative and not trial.has_guessed_tokens:
        # The checklist asks about a text with repetitions, which can be guessed; a user's prompt may have none.
        verdict, sentence = OK, "It can guess, and found nothing in this text that is repeated."
    for item in items:
        if sentence and item.name.startswith("speculation/"):
            item.verdict, item.sentence = verdict, sentence
    return Answer(plan["unit"], trial.text, items, {**facts, "tokens": trial.tokens})


def _fetch_templated_prompt(url: str, prompt: str, limit: float, key: str | None, clock: Any, model: str | None) -> str:
    """Return the prompt in the chat template of the model, as its server applies the template."""
    body = add_model_name_to_request(model, {"messages": [{"role": "user", "content": prompt}]})
    answer = post_json(url, "/apply-template", body, clock.monotonic() + limit, key, clock)
    text = answer.get("prompt") if isinstance(answer, dict) else None
    return text if isinstance(text, str) and text else prompt
