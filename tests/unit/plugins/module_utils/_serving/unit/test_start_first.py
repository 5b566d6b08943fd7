# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The new version beside the running one: its plan and its units; tests/service/test_llama_updates.py starts some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import shared_host as planning
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import start_first
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, NEW, machine

RUNS = {"expect": {"nodes": "0"}, "mapped": []}


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(ggufs.written(tmp_path / "m.gguf", 40 * GB).path)


def asked(model: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "chat",
        "binary": "/opt/llama-server",
        "model": model,
        "port": 8080,
        "prompt_cache": "0MiB",
        "cpus": "1-15",
        **more,
    }


def room(monkeypatch: pytest.MonkeyPatch, gigabytes: int) -> None:
    monkeypatch.setattr(
        planning.free_memory, "read_free_and_staged_memory", lambda *dummy: FreeMemory({0: gigabytes * GB})
    )


def test_it_is_the_same_instance_under_another_name(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 50)
    raw = asked(model, host="0.0.0.0", watchdog=60, context=512)
    found = start_first.plan_temporary_instance(LlamaEngine(), machine("9754"), raw, NEW, [], [], RUNS)
    options = found.options
    assert (found.unit, options.host, options.watchdog, options.context) == (
        "llama-chat-next.service",
        "0.0.0.0",
        None,
        512,
    )
    assert options.port != 8080 and raw["name"] == "chat"
    assert len(start_first.temporary_instance_name("x" * 40)) == 40


def test_what_runs_needs_its_file_too(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel calls pages of files available, and these are in use."""
    other = str(ggufs.written(tmp_path / "other.gguf", 30 * GB).path)
    room(monkeypatch, 60)
    start_first.plan_temporary_instance(
        LlamaEngine(), machine("9754"), asked(model), NEW, [], [], {**RUNS, "mapped": [model]}
    )
    with pytest.raises(BadRequest, match="The instance needs"):
        start_first.plan_temporary_instance(
            LlamaEngine(), machine("9754"), asked(model), NEW, [], [], {**RUNS, "mapped": [other]}
        )
    start_first.plan_temporary_instance(
        LlamaEngine(), machine("9754"), asked(model), NEW, [({0: 30 * GB}, {})], [], {**RUNS, "mapped": [other]}
    )


def test_the_temporary_instance_keeps_no_prompts(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 50)
    raw = asked(model, slot_files="1GiB")
    found = start_first.plan_temporary_instance(LlamaEngine(), machine("9754"), raw, NEW, [], [], RUNS)
    assert found.options.slot_files is None and raw["slot_files"] == "1GiB"
