# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controller makes of the variables of the layers, and when it does not ask a host at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible import context
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.sovereign.epyc.plugins.action import epyc_last_run
from ansible_collections.sovereign.epyc.plugins.lookup import collection_digest

LAYERS = ["prerequisites", "numa", "cat"]
VARIABLES = {
    "ansible_run_tags": ["all"],
    "ansible_skip_tags": [],
    "epyc_prerequisites_packages": ["kmod"],
    "epyc_numa_thp": "madvise",
    "epyc_numa_persistent": True,
    "epyc_cat_persistent": "yes",
    "epyc_plan_draft": {"ccds": trust_as_template("{{ ccds }}")},
    "ccds": 2,
    "epyc_llama_binary": "/usr/bin/llama-server",
}


class Play:
    """Runs the plugin, with a host that answers what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[dict[str, Any]] = []
        self.command_line: dict[str, Any] = {}
        self.collection = "one"
        monkeypatch.setattr(epyc_last_run.ActionModule, "_execute_module", self.execute)
        monkeypatch.setattr(context, "CLIARGS", self.command_line)
        monkeypatch.setattr(collection_digest.LookupModule, "run", lambda self_, terms: [self.collection])

    def execute(self, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(module_args)
        return {"changed": False, "holds": True}

    def run(self, args: dict[str, Any] | None = None, **variables: Any) -> dict[str, Any]:
        values = {**VARIABLES, **variables}
        task = SimpleNamespace(args={"layers": LAYERS} if args is None else args, async_val=0, check_mode=False)
        templar = Templar(loader=DataLoader(), variables=values)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        plugin = epyc_last_run.ActionModule(task, connection, None, None, templar)
        return dict(plugin.run(task_vars=values))

    def inputs(self, **variables: Any) -> str:
        assert self.run(**variables)["holds"] is True
        return str(self.asked[-1]["inputs"])

    def reason(self, **variables: Any) -> str:
        """Why the host was not asked."""
        result = self.run(**variables)
        assert (result["holds"], result["skipped"], self.asked, "inputs" in result) == (False, True, [], False)
        return str(result["reason"])


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(monkeypatch)


def test_the_host_is_asked_with_inputs_in_place_of_layers(play: Play) -> None:
    assert play.run() == {"changed": False, "holds": True}
    (asked,) = play.asked
    assert asked.keys() == {"inputs", "packages"}
    assert (len(asked["inputs"]), asked["packages"]) == (64, ["kmod"])


def test_packages_are_only_asked_for_by_their_layer(play: Play) -> None:
    play.run({"layers": ["numa"]})
    assert play.asked[0]["packages"] == []


def test_without_layers_it_is_the_module(play: Play) -> None:
    arguments = {"inputs": "digest", "remember": True}
    assert play.run(arguments)["holds"] is True
    assert play.asked == [arguments]


@pytest.mark.parametrize(
    "other",
    [
        {"epyc_numa_thp": "always"},
        {"epyc_numa_new": "x"},
        {"epyc_plan_draft": {"ccds": 3}},
        {"ccds": 3},
        {"epyc_prerequisites_packages": []},
    ],
    ids=str,
)
def test_other_variables_change_the_digest(play: Play, other: dict[str, Any]) -> None:
    assert play.inputs() == play.inputs()
    assert play.inputs(**other) != play.inputs()


def test_other_layers_and_another_collection_are_other_inputs(play: Play) -> None:
    inputs = play.inputs()
    play.run({"layers": [*LAYERS, "irq"]})
    play.run({"layers": [*reversed(LAYERS)]})
    play.collection = "two"
    play.run()
    assert [asked["inputs"] == inputs for asked in play.asked] == [True, False, True, False]


@pytest.mark.parametrize(
    "other",
    [
        {"epyc_plan_result": {"changed": False}},
        {"epyc_irq_cpus": "0"},
        {"numactl": "x"},
        {"epyc_llama_binary": "/other"},
    ],
    ids=["result", "another layer", "no variable of a layer", "llama is no layer here"],
)
def test_runs_that_a_digest_cannot_judge_do_not_ask_the_host(play: Play, other: dict[str, Any]) -> None:
    assert play.inputs(**other) == play.inputs()


def test_no_password_is_a_part_of_the_digest(play: Play) -> None:
    assert play.inputs(epyc_numa_password="a") == play.inputs(epyc_numa_password="b")


def test_a_host_that_names_a_bmc(play: Play) -> None:
    arguments = {"layers": [*LAYERS, "bios"]}
    assert "a BMC" in play.run(arguments, epyc_bios_bmc="bmc7")["reason"]
    assert play.run(arguments)["holds"] is True


def test_a_value_that_json_does_not_know(play: Play) -> None:
    assert play.inputs(epyc_numa_x={1, 2}) == play.inputs(epyc_numa_x={1, 2}) != play.inputs(epyc_numa_x={1, 3})


@pytest.mark.parametrize(
    "tags", [{"ansible_run_tags": ["cat"]}, {"ansible_run_tags": ["all", "never"]}, {"ansible_skip_tags": ["cat"]}]
)
def test_a_run_with_tags(play: Play, tags: dict[str, list[str]]) -> None:
    assert play.reason(**tags).startswith("with tags")


@pytest.mark.parametrize("option", [{"step": True}, {"start_at_task": "Install packages"}])
def test_a_run_that_leaves_out_tasks(play: Play, option: dict[str, Any]) -> None:
    play.command_line.update({"step": False, "start_at_task": None})
    assert play.inputs()
    play.asked.clear()
    play.command_line.update(option)
    assert play.reason().startswith("with --step or --start-at-task")


def test_a_host_that_serves_models(play: Play) -> None:
    assert play.inputs(epyc_llama_instances=[])  # without the layer
    play.asked.clear()
    result = play.run({"layers": [*LAYERS, "llama"]}, epyc_llama_instances=[])
    assert (result["holds"], result["reason"]) == (False, "nothing is remembered of llama.cpp")
    assert play.asked == []


@pytest.mark.parametrize("word", [False, "no", trust_as_template("{{ ccds == 3 }}"), "nonsense"])
def test_a_layer_that_is_not_stored(play: Play, word: object) -> None:
    assert play.reason(epyc_cat_persistent=word).startswith("epyc_cat_persistent is false")
    assert play.inputs(epyc_irq_persistent=False)  # not run, so not asked for


def test_a_variable_that_needs_what_the_layers_find_out(play: Play) -> None:
    facts = trust_as_template("{{ ansible_facts.epyc.plan.cpus.draft }}")
    assert play.reason(epyc_numa_x=facts) == "epyc_numa_x has no value before the layers are run"
