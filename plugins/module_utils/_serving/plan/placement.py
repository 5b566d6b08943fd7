# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The placement of an instance: how its threads are pinned, CPUs for all others, and how its memory lies."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.partitions import SLICE
from ..._notation.cpulist import format_cpulist
from ..options.options import POLICIES_BY_THREAD
from ..options.unit_names import draft_unit
from . import cpu_assignment
from .cpu_assignment import CPUSET, GOMP, NUMA, STRICT
from .instance_plan import DraftProcess, Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..options.options import Options
    from .free_memory import FreeMemory
    from .instance_plan import MemoryNeed
    from .speculation_plan import SpeculationPlan

    class ServerCapabilities(Protocol):
        """What a plan must know of the binary."""

        @property
        def engine(self) -> str:
            """One of the ENGINES of the options."""

        @property
        def pins_work(self) -> bool:
            """Whether --cpu-mask has an effect."""

        @property
        def openmp(self) -> bool:
            """Whether it was built with OpenMP."""

        def works(self, flag: str) -> bool:
            """Return whether it has a flag."""


#: From this number of tokens on, the server distributes a batch to threads without regard to nodes.
NODE_BLIND_BATCH = 8


def choose_memory_policy(options: Options, top: Topology, nodes: Sequence[int]) -> str:
    """Return the memory policy: local on a host with one node, bind for one node of several, else interleave."""
    if options.memory:
        return str(options.memory)
    if len(top.nodes) == 1:
        return "local"
    return "bind" if len(nodes) == 1 else "interleave"


def place_threads(
    options: Options,
    host: Host,
    server: ServerCapabilities,
    nodes: Sequence[int],
    policy: str,
    speculation: SpeculationPlan,
    wants: dict[str, Any],
    free: FreeMemory,
    remarks: list[str],
) -> Placement:
    """Place all threads, and write the numbers of threads and the pins into the wants."""
    top = host.topology
    busy = speculation.busy
    isolated = sorted(free.isolated.intersection(busy))
    cores = cpu_assignment.first_cpu_of_each_core(top, busy)
    by_thread = policy in POLICIES_BY_THREAD
    most = cpu_assignment.most_threads_over_nodes(top, busy, isolated, policy) if by_thread else len(cores)
    threads, batch = _choose_thread_counts(options, busy, most, policy)
    used = max(threads, batch)
    first = [cpu for cpu in cores if cpu in speculation.cpus] if speculation.drafts_on_first_threads else []
    rest = [cpu for cpu in cores if cpu not in first]
    pins = [*first, *(cpu_assignment.alternate_l3_domains(top, rest) if threads < len(cores) else rest)][:used]
    drafting = _choose_draft_thread_count(options, speculation, len(first), threads)
    wants.update(threads=threads, threads_batch=batch)
    if drafting:
        wants.update(draft_threads=drafting, draft_threads_batch=drafting if first or options.draft_threads else batch)
    if by_thread:
        pinned = NUMA
        wants["numa"] = "distribute"
        _add_batch_remark(wants, policy, remarks)
    else:
        in_order = bool(first) or threads < used
        works = server.pins_work and max(pins) < cpu_assignment.MOST_CPUS
        pinned = cpu_assignment.choose_pinning(works, server.openmp, in_order, used, drafting, isolated)
    if first and pinned != GOMP:
        raise BadRequest(
            "draft_placement first_ccd needs a build with OpenMP, whose threads draft and verify on the same pins"
            f"{f', and no memory {policy}, which overrides pins' if by_thread else ''}. Use shared or own_ccd."
        )
    inside = _is_in_partition(options, busy, free.partition)
    http = () if inside else choose_http_cpus(host, busy)
    result = Placement(pins if pinned in (STRICT, GOMP) else busy, {*busy, *http}, nodes, policy, pinned)
    result.http_cpus = http
    result.slice = SLICE if inside else None
    result.group = options.l3_group or _find_resctrl_group(host, result.cpus)
    if pinned == STRICT:
        result.busy_cpus = tuple(sorted(pins))
        wants["cpus"] = sorted(pins)
        if http and not server.openmp:
            # OpenMP counts the CPUs at its start; with fewer CPUs than threads, the threads sleep at every barrier.
            result.affinity = http
    elif pinned == GOMP:
        result.environment["GOMP_CPU_AFFINITY"] = " ".join(str(cpu) for cpu in pins)
    elif pinned == CPUSET:
        remarks.append("This build cannot pin threads here: they move between the CPUs of the unit.")
    if pinned != GOMP and threads < used:
        remarks.append(
            f"threads {threads} are fewer than threads_batch {batch}, and without OpenMP the order of CPUs cannot be "
            "set: the decoding threads are not spread over all CCDs."
        )
    if inside:
        remarks.append(f"HTTP and tokenizer threads run among those that compute, because all of it is in {SLICE}.")
    elif not http:
        remarks.append("There is no housekeeping CPU, so HTTP and tokenizer threads run among those that compute.")
    return result


def _choose_thread_counts(options: Options, busy: Sequence[int], most: int, policy: str) -> tuple[int, int]:
    """Return the threads that decode, and those that read prompts and verify."""
    by_thread = policy in POLICIES_BY_THREAD
    threads: int = options.threads or most
    batch: int = options.threads_batch or (threads if by_thread else most)
    for key, number in (("threads", threads), ("threads_batch", batch)):
        if number > most:
            raise BadRequest(
                f"{key} is {number}, and CPUs {format_cpulist(busy)} have {most} cores for it"
                f"{', the same number on each node' if by_thread else ''}. Two threads on a core slow each other down."
            )
    if by_thread and threads != batch:
        raise BadRequest(
            f"memory {policy} puts each part of the weights on the node of the thread that reads it, so threads and "
            f"threads_batch must be the same, not {threads} and {batch}."
        )
    return threads, batch


def _choose_draft_thread_count(options: Options, speculation: SpeculationPlan, first: int, threads: int) -> int:
    """Return how many threads draft in this process."""
    if not speculation.draft_max or speculation.has_draft_process:
        return 0
    most = first or threads
    number: int = options.draft_threads or most
    if number > most:
        raise BadRequest(f"draft_threads is {number}, but the draft has {most} cores. Use at most {most}.")
    return number


def _add_batch_remark(wants: dict[str, Any], policy: str, remarks: list[str]) -> None:
    longest = max(wants.get("draft_max", 0), wants.get("ngram_max", 0))
    if longest + 1 >= NODE_BLIND_BATCH:
        remarks.append(
            f"memory {policy}: batches of {NODE_BLIND_BATCH} tokens and more, as with {longest} drafted ones, are read "
            "across nodes. Draft at most 6 tokens, or set GGML_CPU_TILED_MM to 0."
        )


def choose_http_cpus(host: Host, busy: Iterable[int]) -> tuple[int, ...]:
    """Return the housekeeping CPUs for all other threads: those on the nodes of the busy CPUs, else all."""
    busy = set(busy)
    spare = [cpu for cpu in host.plan.housekeeping if cpu not in busy]
    near = {cpu for node in host.topology.nodes if busy & set(node.cpus) for cpu in node.cpus}
    return tuple(cpu for cpu in spare if cpu in near) or tuple(spare)


def _is_in_partition(options: Options, cpus: Iterable[int], partition: frozenset[int]) -> bool:
    """Return whether a process belongs into the slice that is a partition. BadRequest where only half of it does."""
    outside = set(cpus) - partition
    if not partition.intersection(cpus):
        return False
    if outside:
        raise BadRequest(
            f"CPUs {format_cpulist(outside)} are not in the partition of {SLICE}, which has CPUs "
            f"{format_cpulist(partition)}, and a process is in it or is not. Name cpus of one of the two, such as "
            "draft,verify, or widen the partition."
        )
    if "Slice" in options.unit_settings:
        raise BadRequest(
            f"unit_settings: Slice must be {SLICE}, whose CPUs these are. Leave it out, or name other cpus."
        )
    return True


def _find_resctrl_group(host: Host, cpus: Sequence[int]) -> str | None:
    """Return the resctrl group of the plan that has all these CPUs; its limits apply to all threads there."""
    return next((group.name for group in host.plan.groups if set(cpus) <= set(group.cpus)), None)


def plan_draft_process(
    options: Options,
    host: Host,
    server: ServerCapabilities,
    speculation: SpeculationPlan,
    need: MemoryNeed,
    free: FreeMemory,
) -> DraftProcess:
    """Return the server that drafts on a CCD of its own. It has no authentication, so it listens on loopback only."""
    cpus = speculation.cpus
    cores = cpu_assignment.first_cpu_of_each_core(host.topology, cpus)
    number: int = options.draft_threads or len(cores)
    if number > len(cores):
        raise BadRequest(f"draft_threads is {number}, and the draft has {len(cores)} cores of its own.")
    policy = "local" if len(host.topology.nodes) == 1 else "bind"
    result = place_rpc_server(
        options, host, server.openmp, cpus, number, cpu_assignment.memory_nodes_of_cpus(host, cpus), policy, free
    )
    result.group = options.draft_l3_group or result.group
    return DraftProcess(
        draft_unit(options.name), result, rpc_server_arguments("127.0.0.1", options.rpc_port, number), need
    )


def place_rpc_server(
    options: Options,
    host: Host,
    openmp: bool,
    cpus: Sequence[int],
    threads: int,
    nodes: Sequence[int],
    policy: str,
    free: FreeMemory,
) -> Placement:
    """Return where ggml-rpc-server computes with so many threads; it has no options for CPU masks."""
    pinned = cpu_assignment.choose_pinning(False, openmp, True, threads, 0, sorted(free.isolated.intersection(cpus)))
    pins = cpu_assignment.first_cpu_of_each_core(host.topology, cpus)[:threads]
    result = Placement(pins if pinned == GOMP else cpus, cpus, nodes, policy, pinned)
    result.slice = SLICE if _is_in_partition(options, cpus, free.partition) else None
    result.group = _find_resctrl_group(host, result.cpus)
    if pinned == GOMP:
        result.environment["GOMP_CPU_AFFINITY"] = " ".join(str(cpu) for cpu in pins)
    return result


def rpc_server_arguments(address: str, port: int, threads: int) -> list[str]:
    """Return the arguments of ggml-rpc-server, which would compute with one thread unless it is told."""
    return ["-H", address, "-p", str(port), "-t", str(threads)]
