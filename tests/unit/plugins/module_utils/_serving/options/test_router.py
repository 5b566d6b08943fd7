# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An instance of several models: what it may say, the memory of those that need the most, and its router's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import arguments as server_arguments
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options import router
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan import planner
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, NEW, machine
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import server

DESK = {"name": "desk", "binary": "/opt/llama-server", "port": 8080, "models": {"a": "/srv/a.gguf", "b": "/srv/b.gguf"}}
#: Gigabytes of weights.
SIZES = {"a": 8, "b": 40, "c": 20}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"models": ["/srv/a.gguf"]}, "models must be a dictionary of names and files"),
        ({"models": {"a,b": "/srv/a.gguf"}}, "models: 'a,b' is no name for a model"),
        ({"models": {"qwen:q4": "/srv/a.gguf"}}, "models: 'qwen:q4' is no name for a model"),
        ({"models": {"a": "a.gguf"}}, "models: 'a.gguf' is no path that a router takes"),
        ({"models": {"a": "/srv/a;b.gguf"}}, "no semicolon, no number sign"),
        ({"models": {}}, "model is missing: an instance needs a model, or several by name in models"),
        ({"models": {}, "model": "/srv/m.gguf", "models_loaded": 1}, "models_loaded has no effect without models"),
        ({"models_loaded": 3}, "models_loaded is 3, and models names 2"),
        ({"model": "/srv/m.gguf"}, "model is about one model, and models names several"),
        ({"alias": "m"}, "alias is about one model"),
        ({"adapters": {"/srv/l.gguf": 1}}, "adapters is about one model"),
        ({"memory": "rows"}, "memory rows is about one file"),
        ({"hugepages": "hugetlbfs"}, "hugepages hugetlbfs is about one file"),
        ({"speculation": "mtp"}, "speculation mtp needs a draft for one model"),
        ({"watchdog": 60}, "watchdog asks the server of one model"),
    ],
)
def test_what_several_models_cannot_have(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Options.parse({**DESK, **change})
    assert words in str(caught.value)


def planned(folder: Path, room: int = 900, **asked: Any) -> InstancePlan:
    """Plan an instance of three models with so many gigabytes on the node of its CPUs."""
    models = [ggufs.written(folder / f"{name}.gguf", size * GB) for name, size in SIZES.items()]
    options = Options.parse(
        {**DESK, "models": {name: f"{folder}/{name}.gguf" for name in SIZES}, "cpus": "1-15", **asked}
    )
    free = FreeMemory({0: room * GB})
    return planner.plan_instance(options, machine("9754"), NEW, models[0], None, free, more_models=models[1:])


def test_those_that_need_the_most_have_to_fit(tmp_path: Path) -> None:
    whole, two = planned(tmp_path), planned(tmp_path, models_loaded=2)
    assert [round(one.need.weights / GB) for one in (whole, two)] == [68, 60]
    assert whole.need.prompt_cache == 3 * (8 << 30), "each of its servers keeps one"
    planned(tmp_path, 60 + 30, models_loaded=2, prompt_cache="0MiB")
    with pytest.raises(BadRequest, match="The instance needs"):
        planned(tmp_path, 60, models_loaded=2, prompt_cache="0MiB")


def test_every_file_is_one_of_the_instance(tmp_path: Path) -> None:
    found = planned(tmp_path)
    assert found.mapped == list(found.files) == [f"{tmp_path}/{name}.gguf" for name in SIZES]


def test_what_its_server_is_told(tmp_path: Path) -> None:
    found = planned(tmp_path, models_loaded=2, api_key_file="/etc/llama/keys")
    words = server_arguments.build_arguments(found.parameters, server("b11434"))
    assert words[:4] == ["--models-preset", "/run/credentials/llama-desk.service/models.ini", "--models-max", "2"]
    assert "--model" not in words and "--spec-type" in words
    assert found.placement.environment["LLAMA_CACHE"] == "/nonexistent"
    assert any("the servers of a router ask for no key" in remark for remark in found.remarks)


def test_its_file_is_a_line_of_the_unit() -> None:
    options = Options.parse({**DESK, "models": {"a": "/srv/a\\b.gguf", "b": "/srv/50 %.gguf"}, "models_loaded": 1})
    (line,) = router.unit_lines_with_router_ini(options)
    assert line == (
        "SetCredential=models.ini:version = 1\\n[a]\\nmodel = /srv/a\\\\b.gguf\\nstop-timeout = 5\\n"
        "load-on-startup = true\\n[b]\\nmodel = /srv/50 %.gguf\\nstop-timeout = 5\\n"
    )
    assert router.list_models_loaded_at_start(options) == ["a"]


@pytest.mark.parametrize(("build", "words"), [("b9093", None), ("ik_llama.cpp-8337e4c", "is no router")])
def test_builds(build: str, words: str | None) -> None:
    wants = {"models": "/m.ini", "models_loaded": 2, "context": 512}
    if words:
        with pytest.raises(BadRequest, match=words):
            server_arguments.build_arguments(wants, server(build))
    else:
        assert "--models-preset" in server_arguments.build_arguments(wants, server(build))
