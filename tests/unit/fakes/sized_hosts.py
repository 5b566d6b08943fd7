# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machines of ``hosts`` with as much memory as servers have, and what the recommendation for one must hold."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import build_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import read_topology
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import config_files, grub
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory import free_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import refusals, shared_host
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import NEW

ROOT = Path(__file__).parents[3]
#: What tells that GRUB boots a host.
GRUB = (grub.UPDATE, config_files.MAIN, grub.RESULT)
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
GIB = 1 << 30
#: How much of the memory a kernel and its daemons leave, in percent.
LEFT = 97
#: Memory in GiB as these servers have it: a module of 32 to 128 GiB in each channel.
MEMORY = {"9754": 768, "9654": 1536, "9354": 384, "two 7543": 1024, "9655": 768}


class Sized(hosts.TreeFS):
    """A machine that stands already, in which some files have another text."""

    def __init__(self, standing: hosts.Host, files: dict[str, str]) -> None:
        super().__init__(str(standing.root))
        self.answers = standing.fs.answers
        self.files = files

    def read(self, path: str, limit: int = 1 << 20) -> str:
        return self.files.get(path) or super().read(path, limit)

    def read_status(self, path: str) -> os.stat_result | None:
        return os.stat(__file__) if path in self.files else super().read_status(path)


def sized(name: str, gib: int | None = None, thp: str = "always [madvise] never", **files: str) -> Sized:
    """Return a machine with its memory, or with this much, evenly on its nodes."""
    standing = hosts.standing(name)
    nodes = [node.id for node in standing.topology().nodes]
    return with_memory(standing, dict.fromkeys(nodes, (gib or MEMORY[name]) / len(nodes)), thp, **files)


def with_memory(
    host: hosts.Host, gib_by_node: dict[int, float], thp: str = "always [madvise] never", **files: str
) -> Sized:
    """Return a machine whose nodes have this much memory."""
    texts = {}
    for node, gib in gib_by_node.items():
        total = int(gib * (GIB >> 10))
        texts[f"/sys/devices/system/node/node{node}/meminfo"] = (
            f"Node {node} MemTotal: {total} kB\nNode {node} MemFree: {total * LEFT // 100} kB"
        )
    return Sized(host, {**texts, **dict.fromkeys(GRUB, "#"), THP: thp, **files})


@cache
def role_options() -> dict[str, dict[str, Any]]:
    """Return the specification of every variable of a role."""
    known: dict[str, dict[str, Any]] = {}
    for path in ROOT.glob("roles/*/meta/main.yml"):
        known.update(yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"])
    return known


def check_variables(variables: dict[str, Any]) -> None:
    """Hold variables against the argument specs of the roles, and instances against that of llama_server."""
    assert sorted(variables.keys() - role_options().keys()) == []
    asked = {name: role_options()[name] for name in variables}
    said = ArgumentSpecValidator(asked).validate(deepcopy(variables)).error_messages
    assert said == [], said
    for one in variables["epyc_llama_instances"]:
        assert ArgumentSpecValidator(Options.argument_spec()).validate(dict(one)).error_messages == []


def check_text(text: str, variables: dict[str, Any]) -> None:
    """Hold the file against its data; every line has a comment above it that tells its cost, and none is too long."""
    assert yaml.safe_load(text) == variables
    lines = text.splitlines()
    assert lines[0] == "---" and text.endswith("\n") and max(map(len, lines)) <= 120
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("#") and line not in ("", "---"):
            assert lines[number - 1].lstrip().startswith("# "), line
    assert re.search(r"(?i)\bcosts?\b", text)


def planned_as_site_would(fs: Sized, variables: dict[str, Any]) -> list[InstancePlan]:
    """Plan the host and its instances from variables as plan.yml and site.yml do; each node must hold its part."""
    intent = {name: variables[f"epyc_plan_{name}"] for name in ("housekeeping", "draft", "verify", "default")}
    host_plan = build_plan(Intent.from_options(intent), read_topology(fs))
    assert host_plan.cannot == {} and host_plan.verify
    host = Host(fs, intent)
    options = [Options.parse({"binary": "/usr/bin/llama-server", **one}) for one in variables["epyc_llama_instances"]]
    refusals.require_distinct_names_and_ports(options)
    services: list[InstancePlan] = []
    for one in options:
        services.append(shared_host.plan_instance_among_others(LlamaEngine(), host, one, NEW, [], services))
    there = free_memory.read_free_and_staged_memory(host, options[0], []).available
    for node, available in there.items():
        parts = [one.need.total / len(one.placement.nodes) for one in services if node in one.placement.nodes]
        assert sum(parts) < available
    taken = [cpu for one in services for cpu in one.placement.busy_cpus]
    assert len(taken) == len(set(taken)), "two instances compute on one CPU"
    return services
