# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A question of a person to an instance of llama-server: the answer, and the items that prove where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import PLAN_MARK
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import trial as trials
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify.ask import send_prompt_to_instance
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import (
    MAIN,
    NOTHING,
    RIGHT,
    Instances,
    instances,
    trial,
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instances]:
    with instances(tmp_path, monkeypatch) as host:
        yield host


def asked(here: Instances, **changes: Any) -> Any:
    options: dict[str, Any] = {"name": None, "prompt": "What is a node?", "tokens": 8, "limit": 5.0, **changes}
    return send_prompt_to_instance(Host(here.service.tree.fs), clock=here.service, **options)


def test_an_answer_comes_with_the_items_of_its_instance(here: Instances) -> None:
    here.planned()
    here.trial = trial(text="A node is memory.")
    answer = asked(here)
    assert (answer.unit, answer.text, answer.facts["accepted"]) == (MAIN, "A node is memory.", 45)
    assert {item.name: item.verdict for item in answer.items} == RIGHT
    (question,) = here.questions
    # The stand-in knows no template.
    assert question.to_completion_request() == {
        **trials.COMPLETION_OPTIONS,
        "prompt": "What is a node?",
        "n_predict": 8,
        "ignore_eos": False,
    }
    assert question.limit == 5.0
    assert answer.items[-1].sentence == "12.5 tokens per second, with 64."


def test_of_several_models_one_is_asked(here: Instances) -> None:
    here.planned(models=["a", "b"])
    assert asked(here).items[-1].name == "speed/chat/a"
    assert asked(here, model="b").items[-1].name == "speed/chat/b"
    assert here.models == ["a", "b"]
    with pytest.raises(BadRequest, match=r"chat has no model c: it has a, b\."):
        asked(here, model="c")
    here.planned()
    with pytest.raises(BadRequest, match=r"chat has no model a: it has only one, which needs no name\."):
        asked(here, model="a")


def test_the_question_is_put_into_the_template_of_the_model(here: Instances) -> None:
    here.planned()
    here.health = (200, b'{"status":"ok","prompt":"<user>What?<model>"}')
    asked(here)
    assert here.questions[0].text == "<user>What?<model>"


@pytest.mark.parametrize(
    ("seen", "guesses", "verdict", "words"),
    [
        ({}, True, "ok", "45 of them right"),
        ({"accepted": 0}, True, "wrong", "it guessed 60 tokens, none of them right"),
        ({**NOTHING, "speculative": True}, True, "wrong", "it guessed nothing, and something was to be"),
        ({**NOTHING, "speculative": True}, False, "ok", "found nothing in this text that is repeated"),
        ({**NOTHING, "speculative": False}, True, "wrong", "does not speculate"),
        ({**NOTHING, "tokens": 0, "reason": "busy."}, True, "unknown", "Not known: busy."),
    ],
)
def test_what_an_answer_shows_of_speculation(
    here: Instances, seen: dict[str, Any], guesses: bool, verdict: str, words: str
) -> None:
    here.planned()
    here.trial = trial(**seen)
    (item,) = [one for one in asked(here, guesses=guesses).items if one.name == "speculation/chat"]
    assert item.verdict == verdict and words in item.sentence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt": " "}, "prompt is empty"),
        ({"tokens": 0}, "both have to be above zero"),
        ({"limit": 0}, "both have to be above zero"),
        ({"name": "other"}, "There is no instance other on this host, which has chat."),
    ],
)
def test_a_question_that_cannot_be_asked(here: Instances, changes: dict[str, Any], words: str) -> None:
    here.planned()
    with pytest.raises(BadRequest, match=words):
        asked(here, **changes)
    assert here.questions == []


def test_which_instance_is_asked(here: Instances) -> None:
    with pytest.raises(BadRequest, match="Say which instance: this host has none"):
        asked(here)
    here.planned()
    here.planned("llama-code.service")
    with pytest.raises(BadRequest, match="this host has chat, code"):
        asked(here)
    here.planned(task="embedding")
    with pytest.raises(BadRequest, match="chat is for the task embedding, and makes no text"):
        asked(here, name="chat")
    here.unit(MAIN, f"{INSTANCE_HEAD}\n{PLAN_MARK}{{\n")
    with pytest.raises(BadRequest, match="carries no plan"):
        asked(here, name="chat")
