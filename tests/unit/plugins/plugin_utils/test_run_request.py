# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layers and variables that nobody knows are refused with the one that is meant; those of others are let pass."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names.known_variables import (
    unknown_variable_messages,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_request import (
    find_request_refusals,
    parse_json_or_comma_list,
)

LAYERS = ["prerequisites", "base", "numa", "cat"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base,numa", ["base", "numa"]),
        (" base , numa,", ["base", "numa"]),
        ("numa", ["numa"]),
        ('["numa"]', ["numa"]),
        ("[numa", ["[numa"]),
        ("", []),
        (["base"], ["base"]),
        ({"base": False}, {"base": False}),
        (None, None),
    ],
)
def test_a_text_is_parsed_as_options_of_modules_are(text: Any, words: Any) -> None:
    assert parse_json_or_comma_list(text) == words


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"base": False}, "epyc_steps of epyc-1 is a dictionary; it is a list"),
        (False, "epyc_steps of epyc-1 is false; it is a list"),
        ([{"base": False}], "epyc_steps of epyc-1 has {'base': False}; the layers are prerequisites, base"),
        (["base", "numma"], "epyc_steps of epyc-1 has numma; did you mean numa?"),
    ],
)
def test_unknown_layers_are_refused(asked: Any, words: str) -> None:
    (refusal,) = find_request_refusals(asked, LAYERS, "epyc-1", [])
    assert refusal.startswith(words)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("epyc_plan_verfy", "epyc_plan_verify"),
        ("epyc_stpes", "epyc_steps"),
        ("epyc_llama_instnaces", "epyc_llama_instances"),
        ("epyc_numa_tph", "epyc_numa_thp"),
        ("epyc_host", "epyc_hosts"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_one_that_is_meant(name: str, meant: str) -> None:
    assert unknown_variable_messages([name]) == [f"There is no variable {name}; did you mean {meant}?"]
    assert unknown_variable_messages([name], [name]) == [], "it is somebody else's"
    assert unknown_variable_messages([meant]) == []


def test_an_unknown_name_with_a_unique_prefix_is_refused() -> None:
    (refusal,) = unknown_variable_messages(["epyc_zzz"])
    assert refusal.startswith("There is no variable epyc_zzz, and names that begin so belong to the collection")


def test_foreign_variables_and_those_of_ansible_are_accepted() -> None:
    others = (
        "groups group_names group_of_machines base_url gateway_ip plan_id verify_ssl site_name bios_version rack epyc"
    )
    assert unknown_variable_messages(others.split()) == []


def test_registered_results_are_accepted() -> None:
    assert (
        unknown_variable_messages(["epyc_plan_result", "epyc_grub_params_result", "epyc_site_last_run", "__plan_layer"])
        == []
    )


def test_all_refusals_of_a_request_are_returned() -> None:
    refusals = find_request_refusals(["numma"], LAYERS, "epyc-1", ["epyc_plan_verfy", "epyc_numa_x"], ["epyc_numa_x"])
    assert [refusal.split()[0] for refusal in refusals] == ["epyc_steps", "There"]
