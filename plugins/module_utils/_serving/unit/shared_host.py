# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans an instance on a host with other instances: which of them end before it starts, and which need memory next to
it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from ..._errors import BadRequest, TuningError
from ..._kernel import numa_maps
from ..._kernel.cgroups import list_processes
from ..._kernel.hugepages import default_page_kb
from ..._knobs.managed_units import BETWEEN_STATES, read_unit_properties, unit_state
from ..._notation.cpulist import format_cpulist, parse_cpulist
from ..._notation.gguf_parts import unfinished_copy_path
from ..catalogue import LLAMA
from ..plan.memory import free_memory
from . import start_limits
from .installed import list_instance_placements
from .refusals import device_and_inode, require_matching_file_placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._models.model import Model
    from ..catalogue import EngineRow
    from ..options.option_table import OptionTable
    from ..plan.instance_plan import InstancePlan
    from ..plan.memory.free_memory import FreeMemory
    from .engine import Engine, HeldMemory


#: The seconds between two looks at a unit that is being started.
PAUSE_SECONDS = 0.5


def plan_instance_among_others(
    engine: Engine,
    host: Host,
    options: OptionTable,
    capabilities: Any,
    held: Sequence[HeldMemory],
    before: Sequence[InstancePlan],
    staying: Sequence[Mapping[str, Any]] = (),
) -> InstancePlan:
    """Plan an instance in the memory that the host has left, and refuse conflicts with the other instances.

    ``held`` is memory that is free when the instance starts, ``before`` are instances that this run has planned
    already, and ``staying`` are the plans of installed instances that this run does not change.
    """
    service = engine.plan_instance(host, options, capabilities, held, before)
    planned = [(other.name, other.expect, other.mapped) for other in before]
    for other_plan in [*planned, *((other["name"], other["expect"], other["mapped"]) for other in staying)]:
        require_matching_file_placement((service.name, service.expect, service.mapped), other_plan)
    for other in before:
        shared = set(service.placement.busy_cpus) & set(other.placement.busy_cpus)
        if shared:
            service.remarks.append(
                f"CPUs {format_cpulist(shared)} compute for {other.name} and for {options.name}: each is slower while "
                "the other works. Say with cpus which ones each shall have."
            )
    return service


def read_free_memory_for_instance(
    host: Host,
    options: OptionTable,
    models: Sequence[Model],
    held: Sequence[HeldMemory],
    before: Sequence[InstancePlan],
) -> FreeMemory:
    """Return the memory that is free for an instance when ``held`` is released and ``before`` have started."""
    free = free_memory.read_free_and_staged_memory(host, options, models)
    for memory, pages in held:
        free.add_free_memory(memory, pages)
    for other in before:
        _reserve_memory_of_earlier_instance(free, other)
    _add_placements_of_other_instances(free, host, options, before)
    if options.hugepages == "none" and not options.lock:
        _count_shared_weights_as_free(free, models, before)
    return free


def _add_placements_of_other_instances(
    free: FreeMemory, host: Host, options: OptionTable, before: Sequence[InstancePlan]
) -> None:
    """Add on which CPUs other instances compute, and on which nodes the installed version of this instance is."""
    planned = {other.name: other.placement.busy_cpus for other in before}
    computing = {cpu for cpus in planned.values() for cpu in cpus}
    for row in list_instance_placements(host.fs.root):
        if row["name"] == options.name:
            free.present_nodes = parse_cpulist(row.get("nodes", ""))
        elif row["name"] not in planned:
            computing.update(parse_cpulist(row.get("cpus", "")))
    free.computing_cpus = frozenset(computing)


def request_on_chosen_socket(request: Mapping[str, Any], service: InstancePlan) -> dict[str, Any]:
    """Return a request with the socket that its plan chose, so that another plan of it is on the same socket."""
    sockets = [choice.value for choice in service.default_choices if choice.option == "cpus"]
    return {**request, **({"cpus": sockets[0]} if sockets else {})}


def find_running_instances(names: Sequence[str], row: EngineRow = LLAMA) -> list[str]:
    """Return the instances that run, those included that systemd is starting or stopping at this moment."""
    states = read_instance_states(names, row)
    return [name for name in names if states[name] in ("active", *BETWEEN_STATES)]


def read_instance_states(names: Sequence[str], row: EngineRow = LLAMA) -> dict[str, str]:
    """Return the state of the unit of each instance, as unit_state does."""
    properties = read_unit_properties([row.unit_name(name) for name in names]) if names else {}
    return {name: unit_state(properties.get(row.unit_name(name), {})) for name in names}


def wait_for_changing_units(services: Sequence[InstancePlan], clock: Any = time) -> None:
    """Wait until systemd has started or stopped the units of these instances, for as long as systemd itself waits.

    A unit that fails in this time is not waited for any longer. TuningError for a unit that takes longer.
    """
    for service in services:
        limit = start_limits.compute_longest_failing_start_cycle(service)
        until = clock.monotonic() + limit
        while unit_state(read_unit_properties([service.unit]).get(service.unit, {})) in BETWEEN_STATES:
            if clock.monotonic() > until:
                raise TuningError(
                    f"{service.unit} has not started after {limit} s. 'systemctl list-jobs' and 'journalctl -u "
                    f"{service.unit}' say what it waits for."
                )
            clock.sleep(PAUSE_SECONDS)


def list_memory_of_instance(host: Host, name: str, row: EngineRow = LLAMA) -> Iterator[HeldMemory]:
    """Yield the memory of each process of an instance and of its draft, also while the server reads its model."""
    for unit in row.unit_names(name):
        with suppress(BadRequest):  # Most instances have no draft, and a unit whose start is queued has no process.
            yield from _list_memory_of_unit(host, unit)


def _list_memory_of_unit(host: Host, unit: str) -> Iterator[HeldMemory]:
    default_kb = default_page_kb(host.fs)
    for process in list_processes(host.fs, unit):
        anonymous = (numa_maps.read_process_memory(host.fs, process, ()).kinds or {}).get("anonymous")
        if anonymous is None:
            continue
        huge_bytes = sum(size for kb, size in anonymous.page_sizes.items() if kb >= default_kb)
        small_share = 1 - huge_bytes / anonymous.bytes if anonymous.bytes else 0
        nodes = anonymous.nodes.items()
        yield (
            {node: int(size * small_share) for node, size in nodes},
            {(node, default_kb): int(size * (1 - small_share)) // (default_kb << 10) for node, size in nodes},
        )


def _count_shared_weights_as_free(free: FreeMemory, models: Sequence[Model], before: Sequence[InstancePlan]) -> None:
    """Count the weights as free that an already planned instance maps too: each file is in memory once."""
    sizes = {device_and_inode(part.path): part.data_bytes for model in models for part in model.parts}
    for other in before:
        nodes = other.placement.nodes
        shared = sum(sizes.get(device_and_inode(path), 0) for path in other.mapped)
        free.add_free_memory(dict.fromkeys(nodes, shared // len(nodes)), {})


def _reserve_memory_of_earlier_instance(free: FreeMemory, service: InstancePlan) -> None:
    nodes, need, page_kb = service.placement.nodes, service.need, free.default_kb
    memory, huge_bytes = need.total, 0
    if service.rpc:
        free.reserve(service.rpc.need.total, service.rpc.placement.nodes)
    if service.options.hugepages == "pool":
        memory, huge_bytes = 0, need.total
    elif service.staged:
        # A copy that exists already, or is being made, is not counted as free any more.
        memory = need.total - need.weights
        huge_bytes = sum(
            os.path.getsize(source)
            for source, path in service.staged.items()
            if not os.path.exists(path) and not os.path.exists(unfinished_copy_path(path))
        )
        page_kb = free.hugetlbfs_kb or page_kb
    free.reserve(memory, nodes, free_memory.count_pages_for_bytes(huge_bytes // len(nodes), page_kb), page_kb)
