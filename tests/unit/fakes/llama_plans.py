# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of llama-server to plan: the models, the machines, what builds can do, and the plan or its refusal."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import parse_cpulist
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan import planner
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, hosts

GB = 10**9
INTENT = {"draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "12MiB"}}


class Able(NamedTuple):
    """What a build can do."""

    engine: str = "llama.cpp"
    can_pin_threads: bool = True
    openmp: bool = True
    lacks: tuple[str, ...] = ()
    binary: str = "/opt/llama-server"
    title: str = "/opt/llama-server (llama.cpp)"
    numa_modes: tuple[str, ...] = ()

    def holds_name(self, dummy: str) -> None:
        return None

    def has_flag(self, flag: str) -> bool:
        return flag not in self.lacks

    def offered_values(self, flag: str) -> tuple[str, ...]:
        return ("distribute", "isolate", "numactl", *self.numa_modes) if flag == "--numa" else ()


NEW, OLD, BARE, BARE_OLD = (
    Able(),
    Able(can_pin_threads=False),
    Able(openmp=False),
    Able(can_pin_threads=False, openmp=False),
)


class Models(NamedTuple):
    large: gguf_model.Model
    small: gguf_model.Model
    moe: gguf_model.Model
    foreign: gguf_model.Model


def models_in(folder: Path) -> Models:
    return Models(
        ggufs.written(folder / "large.gguf", 42 * GB),
        ggufs.written(folder / "small.gguf", 8 * GB // 10),
        ggufs.written(folder / "moe.gguf", 5 * GB, experts=128, used=8, expert_weights=100 * GB),
        ggufs.written(folder / "foreign.gguf", GB, tokens=5),
    )


@cache
def machine(name: str) -> Host:
    """A machine to plan instances on."""
    return Host(hosts.standing(name).fs, INTENT)


def planned(
    machine: Host,
    models: Models,
    /,
    capabilities: Able = NEW,
    free: FreeMemory | None = None,
    moe: bool = False,
    projector: gguf_model.Model | None = None,
    **raw: Any,
) -> InstancePlan:
    if "draft" in raw.get("speculation", "") or raw.get("speculation") == "cascade":
        raw.setdefault("draft_model", "/srv/small.gguf")
    if projector:
        raw["projector"] = projector.path
    options = Options.parse(
        {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/large.gguf", "port": 8080, **raw}
    )
    if free is None:
        nodes = [node.id for node in machine.topology.nodes]
        free = FreeMemory(dict.fromkeys(nodes, 200 * GB), {(node, 2048): 60000 for node in nodes}, hugetlbfs_kb=2048)
    model = models.moe if moe else models.large
    draft = models.small if options.uses_draft else None
    return planner.plan_instance(options, machine, capabilities, model, draft, free, projector)


def remarks_of(plan: InstancePlan) -> list[str]:
    """The remarks of a plan without those on its choices, and on the nodes of a socket, which most plans have."""
    choices = [choice.to_remark() for choice in plan.default_choices]
    return [remark for remark in plan.remarks if remark not in choices and not remark.startswith("NPS")]


def refused(*positional: Any, **named: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        planned(*positional, **named)
    assert str(caught.value).endswith(".")
    return str(caught.value)


def isolating(host: Host, cpus: str) -> FreeMemory:
    return FreeMemory({node.id: 200 * GB for node in host.topology.nodes}, isolated=parse_cpulist(cpus))
