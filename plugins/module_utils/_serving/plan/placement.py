# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The placement of an instance: the pins of its compute threads, CPUs for its HTTP threads, and its memory policy."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.partitions import SLICE
from ..._notation.cpulist import format_cpulist
from ..options.options import NUMA_MODES, POLICIES_BY_THREAD
from ..options.unit_names import draft_unit_name
from . import cpu_assignment
from .cache_aware_scheduling import drawn_threads_remarks
from .cpu_assignment import CPUSET, GOMP, NUMA, STRICT
from .default_choices import DefaultChoice
from .instance_plan import DraftProcess, Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..options.options import Options
    from .instance_plan import MemoryNeed
    from .memory.free_memory import FreeMemory
    from .speculation_plan import SpeculationPlan

    class ServerCapabilities(Protocol):
        """The facts of a server binary that a plan needs."""

        @property
        def engine(self) -> str:
            """The engine of the binary: llama.cpp or ik_llama.cpp."""

        @property
        def can_pin_threads(self) -> bool:
            """Whether the server binds each thread to one CPU of the flag --cpu-mask."""

        @property
        def openmp(self) -> bool:
            """Whether the binary was built with OpenMP."""

        def has_flag(self, flag: str) -> bool:
            """Return whether the binary accepts a flag."""

        def offered_values(self, flag: str) -> tuple[str, ...]:
            """Return the valid values of a flag; empty where the flag takes any value or is unknown."""


#: The server distributes a batch of at least this many tokens to threads without regard to NUMA nodes.
NODE_BLIND_BATCH = 8
#: The most drafted tokens that are verified in a smaller batch: the batch has one token more.
LONGEST_BY_THREAD = NODE_BLIND_BATCH - 2
#: The most tokens that a lookup guesses, unless an option says otherwise. The server guesses no fewer than it looks up.
NGRAM_MAX = 8


def choose_memory_policy(options: Options, top: Topology, nodes: Sequence[int]) -> str:
    """Return the memory policy: the option memory, or else the policy that suits the number of nodes."""
    if options.memory:
        return str(options.memory)
    if len(top.nodes) == 1:
        return "local"
    return "bind" if len(nodes) == 1 else "interleave"


def place_server_threads(
    options: Options,
    host: Host,
    server: ServerCapabilities,
    nodes: Sequence[int],
    policy: str,
    speculation: SpeculationPlan,
    server_parameters: dict[str, Any],
    free: FreeMemory,
    remarks: list[str],
    default_threads: int | None = None,
) -> Placement:
    """Return the placement of the server's threads, and add thread counts and pins to ``server_parameters``.

    ``default_threads`` decode where no option says how many; None for all.
    """
    top = host.topology
    busy = speculation.busy
    isolated = sorted(free.isolated.intersection(busy))
    cores = cpu_assignment.first_cpu_of_each_core(top, busy)
    numa_mode = NUMA_MODES.get(policy)
    most = (
        cpu_assignment.max_threads_spread_evenly_over_nodes(top, busy, isolated, policy, numa_mode)
        if numa_mode
        else len(cores)
    )
    threads, batch = _choose_decode_and_batch_thread_counts(options, busy, most, policy, default_threads)
    used = max(threads, batch)
    first = [cpu for cpu in cores if cpu in speculation.cpus] if speculation.drafts_on_first_threads else []
    rest = [cpu for cpu in cores if cpu not in first]
    pins = [*first, *(cpu_assignment.alternate_l3_domains(top, rest) if threads < len(cores) else rest)][:used]
    drafting = _choose_in_process_draft_threads(options, speculation, len(first), threads, used)
    server_parameters.update(threads=threads, threads_batch=batch)
    if drafting:
        server_parameters.update(
            draft_threads=drafting, draft_threads_batch=drafting if first or options.draft_threads else batch
        )
    if numa_mode:
        pinned = NUMA
        server_parameters["numa"] = numa_mode
        if policy in POLICIES_BY_THREAD:
            _add_remark_on_long_drafts(server_parameters, policy, remarks)
    else:
        in_order = bool(first) or threads < used
        works = server.can_pin_threads and max(pins) < cpu_assignment.MOST_CPUS
        pinned = cpu_assignment.choose_pinning_method(works, server.openmp, in_order, used, drafting, isolated)
    if first and pinned != GOMP:
        raise BadRequest(
            "draft_placement first_ccd needs a build with OpenMP, whose threads draft and verify on the same pins"
            f"{f', and no memory {policy}, which overrides pins' if numa_mode else ''}. Use shared or own_ccd."
        )
    inside = _is_in_cpuset_partition(options, busy, free.partition)
    http = () if inside else choose_housekeeping_cpus_for_http(host, busy)
    result = Placement(pins if pinned in (STRICT, GOMP) else busy, {*busy, *http}, nodes, policy, pinned)
    result.http_cpus = http
    result.slice = SLICE if inside else None
    result.group = options.l3_group or _find_resctrl_group(host, result.cpus)
    if pinned == STRICT:
        result.busy_cpus = tuple(sorted(pins))
        server_parameters["cpus"] = sorted(pins)
        if http and not server.openmp:
            # A build with OpenMP counts its CPUs at the start. With fewer CPUs than threads, its threads would sleep
            # at barriers, so such a build starts with all CPUs.
            result.affinity = http
    elif pinned == GOMP:
        result.environment["GOMP_CPU_AFFINITY"] = " ".join(str(cpu) for cpu in pins)
    elif pinned == CPUSET:
        remarks.append("This build cannot pin threads here: they move between the CPUs of the unit.")
    if pinned in (CPUSET, NUMA):
        remarks += drawn_threads_remarks(host, busy, threads)
    if pinned != GOMP and threads < used:
        remarks.append(
            f"threads {threads} are fewer than threads_batch {batch}, and without OpenMP the order of CPUs cannot be "
            "set: the decoding threads are not spread over all CCDs."
        )
    if inside:
        remarks.append(
            f"HTTP and tokenizer threads run on the CPUs that compute, because the whole instance is in {SLICE}."
        )
    elif not http:
        remarks.append("There is no housekeeping CPU, so HTTP and tokenizer threads run on the CPUs that compute.")
    return result


def _choose_decode_and_batch_thread_counts(
    options: Options, busy: Sequence[int], most: int, policy: str, default_threads: int | None
) -> tuple[int, int]:
    """Return the number of threads for decoding, and the number of threads for prompts and for verifying drafts."""
    by_thread = policy in POLICIES_BY_THREAD
    threads: int = options.threads or default_threads or most
    batch: int = options.threads_batch or (threads if by_thread else most)
    owner = f"CPUs {format_cpulist(busy)}{', with the same number on each node' if policy in NUMA_MODES else ''}"
    for key, number in (("threads", threads), ("threads_batch", batch)):
        cpu_assignment.require_core_for_each_thread(key, number, most, owner)
    if by_thread and threads != batch:
        raise BadRequest(
            f"memory {policy} puts each part of the weights on the node of the thread that reads it, so threads and "
            f"threads_batch must be the same, not {threads} and {batch}."
        )
    return threads, batch


def _choose_in_process_draft_threads(
    options: Options, speculation: SpeculationPlan, first: int, threads: int, most: int
) -> int:
    """Return the number of threads that draft: as many as decode, or as the ``first`` CPUs that are the draft's."""
    if not speculation.draft_max or speculation.has_draft_process:
        return 0
    number: int = options.draft_threads or first or threads
    cpu_assignment.require_core_for_each_thread("draft_threads", number, first or most, "the draft")
    return number


def shorten_default_drafts(options: Options, policy: str, server_parameters: dict[str, Any]) -> list[DefaultChoice]:
    """Shorten drafts whose length no option sets, so that a batch is read by rows; return these choices."""
    choices = []
    for key in ("draft_max", "ngram_max"):
        longest = server_parameters.get(key, 0)
        is_fixed = getattr(options, key) or (key == "ngram_max" and options.ngram_lookup > LONGEST_BY_THREAD)
        if policy in POLICIES_BY_THREAD and longest > LONGEST_BY_THREAD and not is_fixed:
            server_parameters[key] = LONGEST_BY_THREAD
            reason = (
                f"memory {policy} needs batches of fewer than {NODE_BLIND_BATCH} tokens, which a thread reads from "
            )
            reason += "its own node (the schedule of llama.cpp b11434)"
            choices.append(DefaultChoice(key, LONGEST_BY_THREAD, reason, "", f"{key}: {longest}"))
    return choices


def _add_remark_on_long_drafts(server_parameters: dict[str, Any], policy: str, remarks: list[str]) -> None:
    longest = max(server_parameters.get("draft_max", 0), server_parameters.get("ngram_max", 0))
    if longest + 1 >= NODE_BLIND_BATCH:
        remarks.append(
            f"memory {policy}: batches of {NODE_BLIND_BATCH} tokens and more, as with {longest} drafted ones, are read "
            f"across nodes. Draft at most {LONGEST_BY_THREAD} tokens, or set GGML_CPU_TILED_MM to 0."
        )


def choose_housekeeping_cpus_for_http(host: Host, busy: Iterable[int]) -> tuple[int, ...]:
    """Return the housekeeping CPUs for HTTP and tokenizer threads: those on the nodes or sockets of the busy CPUs."""
    busy = set(busy)
    spare = [cpu for cpu in host.plan.housekeeping if cpu not in busy]
    for places in ([node.cpus for node in host.topology.nodes], host.topology.sockets.values()):
        near = {cpu for cpus in places if busy & set(cpus) for cpu in cpus}
        if near.intersection(spare):
            return tuple(cpu for cpu in spare if cpu in near)
    return tuple(spare)


def _is_in_cpuset_partition(options: Options, cpus: Iterable[int], partition: frozenset[int]) -> bool:
    """Return whether all CPUs of a process are in the cpuset partition; BadRequest where only some of them are."""
    outside = set(cpus) - partition
    if not partition.intersection(cpus):
        return False
    if outside:
        raise BadRequest(
            f"CPUs {format_cpulist(outside)} are not in the partition of {SLICE}, which has CPUs "
            f"{format_cpulist(partition)}, and all CPUs of a process must be inside or outside of the partition. Name "
            "such cpus, as draft,verify, or widen the partition."
        )
    if "Slice" in options.unit_settings:
        raise BadRequest(
            f"unit_settings: Slice must be {SLICE}, whose CPUs these are. Leave it out, or name other cpus."
        )
    return True


def _find_resctrl_group(host: Host, cpus: Sequence[int]) -> str | None:
    return next((group.name for group in host.plan.groups if set(cpus) <= set(group.cpus)), None)


def plan_draft_process(
    options: Options,
    host: Host,
    server: ServerCapabilities,
    speculation: SpeculationPlan,
    need: MemoryNeed,
    free: FreeMemory,
) -> DraftProcess:
    """Return the planned process that drafts on a CCD of its own.

    The process has no authentication, so it listens on the loopback only.
    """
    cpus = speculation.cpus
    cores = cpu_assignment.first_cpu_of_each_core(host.topology, cpus)
    number: int = options.draft_threads or len(cores)
    cpu_assignment.require_core_for_each_thread("draft_threads", number, len(cores), "the draft")
    policy = "local" if len(host.topology.nodes) == 1 else "bind"
    result = place_ggml_rpc_server(
        options, host, server.openmp, cpus, number, cpu_assignment.memory_nodes_of_cpus(host, cpus), policy, free
    )
    result.group = options.draft_l3_group or result.group
    return DraftProcess(
        draft_unit_name(options.name), result, rpc_server_arguments("127.0.0.1", options.rpc_port, number), need
    )


def place_ggml_rpc_server(
    options: Options,
    host: Host,
    openmp: bool,
    cpus: Sequence[int],
    threads: int,
    nodes: Sequence[int],
    policy: str,
    free: FreeMemory,
) -> Placement:
    """Return the placement of a ggml-rpc-server, which has no flag for CPU masks, with this number of threads."""
    pinned = cpu_assignment.choose_pinning_method(
        False, openmp, True, threads, 0, sorted(free.isolated.intersection(cpus))
    )
    pins = cpu_assignment.first_cpu_of_each_core(host.topology, cpus)[:threads]
    result = Placement(pins if pinned == GOMP else cpus, cpus, nodes, policy, pinned)
    result.slice = SLICE if _is_in_cpuset_partition(options, cpus, free.partition) else None
    result.group = _find_resctrl_group(host, result.cpus)
    if pinned == GOMP:
        result.environment["GOMP_CPU_AFFINITY"] = " ".join(str(cpu) for cpu in pins)
    return result


def rpc_server_arguments(address: str, port: int, threads: int) -> list[str]:
    """Return the arguments of a ggml-rpc-server; without a number of threads, the program would use one."""
    return ["-H", address, "-p", str(port), "-t", str(threads)]
