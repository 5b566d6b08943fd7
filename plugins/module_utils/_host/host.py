# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host for which knobs are built: its kernel files; topology, plan and memory speed are read at their first use."""

from __future__ import annotations

from .._errors import BadRequest
from .._notation.cpulist import format_cpulist, parse_cpulist
from .intent import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .memory_speed import MemorySpeed
    from .plan import Plan
    from .topology import Topology

CPU_GRAMMAR = (
    "CPUs in the kernel's notation such as 0-7,16, a role of the plan (housekeeping, draft, verify, idle), 'all', or a "
    "place such as ccd0, l3:5, node1 or socket0"
)


class Host:
    """A host with an intent; without an intent, the plan is that of an empty intent."""

    def __init__(self, fs: KernelFS, intent: Mapping[str, Any] | None = None, stored: bool = False) -> None:
        """``stored`` is True for a stored request, which also applies to devices that appear later."""
        self.fs = fs
        self.intent = intent or {}
        self.stored = stored
        self._topology: Topology | None = None
        self._plan: Plan | None = None
        self._memory_speed: MemorySpeed | None = None

    def forget_topology(self) -> None:
        """Forget topology and plan after a write that changed the topology; their next use reads them again."""
        self._topology = self._plan = self._memory_speed = None

    @property
    def topology(self) -> Topology:
        """The topology, read once."""
        if self._topology is None:
            # The modules topology and plan are large, and many requests need no CPUs, so they are imported here.
            from .topology import read_topology

            self._topology = read_topology(self.fs)
        return self._topology

    @property
    def plan(self) -> Plan:
        """The plan for the intent. Raises BadRequest where the intent does not fit this host."""
        if self._plan is None:
            from .intent import Intent
            from .plan import build_plan

            self._plan = build_plan(Intent.from_options(self.intent), self.topology)
        return self._plan

    @property
    def memory_speed(self) -> MemorySpeed:
        """The read bandwidth of the memory, loaded once."""
        if self._memory_speed is None:
            from .memory_speed import load_memory_speed

            self._memory_speed = load_memory_speed(self)
        return self._memory_speed

    def parse_cpus(self, text: str) -> tuple[int, ...]:
        """Return the online CPUs of an option: numbers, roles and places, separated by commas."""
        cpus: set[int] = set()
        for word in text.split(","):
            cpus.update(self._cpus_of_role_or_place(word.strip()))
        if not cpus:
            raise BadRequest(f"'{text}' names no CPUs; say {CPU_GRAMMAR}.")
        missing = cpus - set(self.topology.online)
        if missing:
            off = missing & set(self.topology.offline)
            reason = "offline" if off else "not on this host"
            raise BadRequest(
                f"'{text}': CPU {format_cpulist(off or missing)} is {reason}; online are "
                f"{format_cpulist(self.topology.online)}."
            )
        return tuple(sorted(cpus))

    def _cpus_of_role_or_place(self, word: str) -> tuple[int, ...]:
        top = self.topology
        if word in ROLES:
            members: tuple[int, ...] = getattr(self.plan, word)
            if not members:
                hint = " Give it some with epyc_plan_housekeeping." if word == "housekeeping" else ""
                raise BadRequest(f"The plan gives the role {word} no CPU on this host.{hint}")
            return members
        if word == "all":
            return top.online
        cpus_by_place: dict[str, dict[int | None, tuple[int, ...]]] = {
            "ccd": {n: tuple(c for d in ccd for c in d.cpus) for n, ccd in enumerate(top.ccds)},
            "l3:": {d.id: d.cpus for d in top.l3},
            "node": {node.id: node.cpus for node in top.nodes},
            "socket": dict(top.sockets.items()),
        }
        for place, cpus_by_number in cpus_by_place.items():
            number = word[len(place) :]
            if word.startswith(place) and number.isdecimal():
                if place == "l3:" and "l3_ids" in top.missing:
                    raise BadRequest(
                        f"{word} cannot be told from other L3 domains: this host lacks {top.missing['l3_ids']}. Name "
                        "CPUs, a CCD or a node instead."
                    )
                if int(number) not in cpus_by_number:
                    known = format_cpulist(n for n in cpus_by_number if n is not None)
                    raise BadRequest(f"There is no {word} on this host, only {known}.")
                if not cpus_by_number[int(number)]:
                    raise BadRequest(self._no_online_cpu_message(word))
                return cpus_by_number[int(number)]
        try:
            return parse_cpulist(word)
        except ValueError:
            raise BadRequest(f"'{word}' names no CPUs; say {CPU_GRAMMAR}.") from None

    def _no_online_cpu_message(self, place: str) -> str:
        """Return why a place such as node1 has no online CPU."""
        from .node_memory import describe_nodes_without_cpus, list_nodes_without_cpus

        nodes = [node for node in list_nodes_without_cpus(self.topology) if place == f"node{node.id}"]
        if nodes:
            return f"{describe_nodes_without_cpus(nodes)}: name a node with CPUs, and this one in nodes."
        return f"All CPUs of {place} are offline."
