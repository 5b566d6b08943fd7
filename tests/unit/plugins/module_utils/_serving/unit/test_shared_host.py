# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of a host with two sockets: where the others are, and that a second plan of one is on the same socket."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import shared_host
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, Models, machine, models_in, planned

TWO = machine("two 7543")
REQUEST = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/large.gguf", "port": 8080}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return models_in(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        shared_host.free_memory,
        "read_free_and_staged_memory",
        lambda *dummy: FreeMemory({node.id: 300 * GB for node in TWO.topology.nodes}),
    )


def test_the_plan_knows_where_it_runs_and_where_others_compute(monkeypatch: pytest.MonkeyPatch, models: Models) -> None:
    rows = [
        {"name": "chat", "nodes": "1", "cpus": "33-63"},
        {"name": "another", "nodes": "0", "cpus": "1-8"},
        {"name": "planned", "nodes": "0", "cpus": "9-31"},
        {"name": "unreadable"},
    ]
    monkeypatch.setattr(shared_host, "list_instance_placements", lambda root: rows)
    before = [planned(TWO, models, name="planned", cpus="40-43")]
    found = shared_host.read_free_memory_for_instance(TWO, Options.parse(REQUEST), [], [], before)
    assert found.present_nodes == (1,)
    assert found.computing_cpus == {*range(1, 9), *range(40, 44)}


def test_instances_that_are_planned_in_one_run_share_the_sockets(models: Models) -> None:
    before = []
    for name in ("one", "two", "three"):
        options = Options.parse({**REQUEST, "name": name})
        free = shared_host.read_free_memory_for_instance(TWO, options, [], [], before)
        before.append(planned(TWO, models, free=free, name=name))
    assert [plan.placement.nodes for plan in before] == [(0,), (1,), (0,)]


def test_another_plan_of_an_instance_is_on_the_socket_that_was_chosen(models: Models) -> None:
    chosen = planned(TWO, models)
    again = shared_host.request_on_chosen_socket({**REQUEST, "threads": 8}, chosen)
    assert again == {**REQUEST, "threads": 8, "cpus": "socket0"}
    told = planned(TWO, models, cpus=again["cpus"])
    assert (told.placement.cpus, told.placement.nodes) == (chosen.placement.cpus, chosen.placement.nodes)
    assert shared_host.request_on_chosen_socket(REQUEST, told) == REQUEST
