# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Arms with another program, engine or model: how they are named and planned, and what is refused before a stop."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import variants as module
from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.arm_switch import InstanceVariant
from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.variants import plan_variants
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, BadRequest

RUNNING = "/opt/llama.cpp/b11434/bin/llama-server"
OPTIONS = {"name": "chat", "binary": RUNNING, "model": "/srv/a-Q4_K_M.gguf", "port": 8080}
#: Engine and build of each program.
PROGRAMS = {
    RUNNING: ("llama.cpp", 11434),
    "/opt/llama.cpp/b11500/bin/llama-server": ("llama.cpp", 11500),
    "/opt/ik/bin/llama-server": ("ik_llama.cpp", None),
    "/opt/mine/bin/llama-server": ("llama.cpp", None),
    "/opt/portable/bin/llama-server": ("llama.cpp", 11434),
}


class Planner:
    """Stands for the planner of the instance: it knows the programs, and a model that is too large."""

    def __init__(self, host: object, raw: dict[str, Any], target: object) -> None:
        assert raw == OPTIONS
        self.service = self.plan({})

    def plan(self, options: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(options=SimpleNamespace(binary=options.get("binary", RUNNING)))

    def plan_variant(self, options: dict[str, Any], name: str) -> tuple[InstanceVariant, SimpleNamespace]:
        if "huge" in str(options.get("model")):
            raise BadRequest("the model needs 900 GiB, and 700 GiB are free.")
        if options.get("binary", RUNNING) not in PROGRAMS:
            raise Absent(f"there is no {options['binary']}.")
        return InstanceVariant(None, [str(options)]), self.plan(options)

    def capabilities_of(self, service: SimpleNamespace) -> SimpleNamespace:
        engine, build = PROGRAMS[service.options.binary]
        return SimpleNamespace(engine=engine, build=build, binary=service.options.binary)


@pytest.fixture(autouse=True)
def planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Candidates", Planner)


def plan(*requests: dict[str, Any], options: dict[str, Any] | None = OPTIONS) -> module.Variants:
    return plan_variants(SimpleNamespace(), SimpleNamespace(name="chat"), requests, options, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ({"binary": "/opt/llama.cpp/b11500/bin/llama-server"}, "b11500"),
        ({"engine": "ik_llama.cpp", "binary": "/opt/ik/bin/llama-server"}, "ik_llama.cpp"),
        ({"binary": "/opt/mine/bin/llama-server"}, "mine"),
        ({"binary": "/opt/portable/bin/llama-server"}, "portable"),
        ({"model": "/srv/models/a-Q3_K_M-00001-of-00003.gguf"}, "a-Q3_K_M"),
        ({"model": "/srv/b.gguf", "threads": 32, "repack": True}, "b threads=32 repack=True"),
        ({"name": "the \x1bnew; one", "threads": 32}, "the -new- one"),
    ],
)
def test_a_variant_is_named_by_what_differs(request_: dict[str, Any], name: str) -> None:
    planned = plan(request_)
    (arm,) = planned.arms
    assert arm["name"] == f"variant {name}" and arm["class"] == "restart" and arm["without"] is None
    assert planned.by_arm[arm["name"]].arguments[0].startswith("{")


def test_the_options_of_an_arm_are_numbers_and_texts_in_the_document_and_planned_as_they_are_given() -> None:
    planned = plan({"speculation": ["ngram", "draft"], "repack": False, "threads": 8, "draft_max": None})
    (arm,) = planned.arms
    assert arm["options"] == {"speculation": "ngram,draft", "repack": "false", "threads": 8}
    assert "'repack': False" in planned.by_arm[arm["name"]].arguments[0]


def test_two_variants_with_one_name_are_told_apart() -> None:
    names = [arm["name"] for arm in plan({"threads": 8, "name": "a"}, {"threads": 9, "name": "a"}).arms]
    assert names == ["variant a", "variant a 2"]


@pytest.mark.parametrize(
    ("request_", "options", "message"),
    [
        ({"model": "/srv/huge.gguf"}, OPTIONS, "/srv/huge.gguf cannot be planned, and nothing was stopped: the model"),
        (
            {"binary": "/opt/none"},
            OPTIONS,
            "/opt/none cannot be planned, and nothing was stopped: there is no /opt/none",
        ),
        ({"name": "x"}, OPTIONS, "each arm needs an option that differs"),
        ({"port": 9000}, OPTIONS, "port cannot differ between arms"),
        ({"sampling": {"top_k": 1}}, OPTIONS, "an arm may have a text or a number there"),
        ({"threads": 8}, None, "give them in instance_options"),
        ({"threads": 8}, {**OPTIONS, "name": "other"}, "give them in instance_options"),
    ],
)
def test_what_cannot_be_an_arm_is_refused(
    request_: dict[str, Any], options: dict[str, Any] | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadRequest, match=message):
        plan(request_, options=options)


def test_without_arms_nothing_is_planned() -> None:
    assert plan(options=None).arms == []
