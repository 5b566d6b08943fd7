# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is tried for an instance, on machines of other shapes; and that the planner takes each value alone."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning.search_space import SearchSpace, build_search_space
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import (
    NEW,
    Able,
    Models,
    machine,
    models_in,
    planned,
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return models_in(tmp_path_factory.mktemp("models"))


def found(models: Models, name: str = "9754", server: Able = NEW, **options: Any) -> SearchSpace:
    host = machine(name)
    return build_search_space(planned(host, models, server, **options), host, server)


def test_the_default_is_what_was_planned(models: Models) -> None:
    one = found(models, speculation="cascade", draft_max=7)
    assert (one.default["threads"], one.default["threads_batch"]) == (64, 124)
    assert one.values["threads"] == [32, 64, 80, 96, 112, 124]
    assert one.default["draft_max"] == 7 and one.values["draft_max"][5:8] == [6, 7, 8]
    assert (one.default["memory"], one.values["memory"][0]) == ("interleave", "local")
    assert one.values["hugepages"] == ["none", "thp", "pool"] and one.default["ubatch"] == 512


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ({}, {"draft_max", "draft_p_min"}),
        ({"speculation": "none"}, {"draft_max", "draft_p_min", "ngram_lookup", "ngram_max"}),
        ({"speculation": "draft"}, {"ngram_lookup", "ngram_max"}),
        ({"hugepages": "hugetlbfs"}, {"hugepages", "draft_max", "draft_p_min"}),
    ],
)
def test_options_without_effect_are_not_tried(models: Models, options: dict[str, Any], gone: set[str]) -> None:
    all_of_them = set(found(models, speculation="cascade").values)
    assert all_of_them - set(found(models, **options).values) == gone


def test_repacking_at_the_start_is_tried_with_the_engine_that_has_it(models: Models) -> None:
    """A file that has to stay mapped is never repacked."""
    ik = Able(engine="ik_llama.cpp")
    assert "repack_at_start" not in found(models).values
    assert found(models, server=ik).values["repack_at_start"] == [False, True]
    assert found(models, server=ik, repack_at_start=True).default["repack_at_start"] is True
    for options in ({"memory": "distribute"}, {"hugepages": "hugetlbfs"}):
        assert "repack_at_start" not in found(models, server=ik, **options).values


def test_copies_on_each_node_are_tried_with_a_build_that_makes_them(models: Models) -> None:
    assert "mirror" not in found(models).values["memory"]
    assert "mirror" in found(models, server=Able(numa_modes=("mirror",))).values["memory"]


def test_a_batch_bounds_its_parts(models: Models) -> None:
    assert found(models, batch=256).values["ubatch"] == [128, 256]


@pytest.mark.parametrize("name", ["9754", "9654", "9354", "two 7543", "9655"])
def test_the_planner_takes_each_value_alone_on_each_machine(models: Models, name: str) -> None:
    """But for those that hang together, which it refuses with a reason."""
    one = found(models, name, speculation="cascade")
    assert set(one.values) <= set(FIELDS)
    refused = []
    for option, values in one.values.items():
        for value in values:
            try:
                planned(machine(name), models, **{"speculation": "cascade", option: value})
            except BadRequest as error:
                refused.append((option, value, str(error)))
    assert {option for option, dummy, dummy2 in refused} <= {"hugepages", "memory", "ngram_lookup", "ngram_max"}, (
        refused
    )
