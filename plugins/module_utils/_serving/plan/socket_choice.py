# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the socket of an instance: no instance computes on two sockets unless it is told so or needs their memory.

Over the link between two sockets a thread reads slower than from the memory of its own socket. So the other socket is
better used by another instance. For the nodes within a socket (NPS), there is advice only: the BIOS makes them.
"""

from __future__ import annotations

from ..._host.node_memory import unused_memory_sentences
from ..._notation.cpulist import format_cpulist
from ..options.options import NUMA_MODES
from . import cpu_assignment
from .default_choices import DefaultChoice
from .memory.free_memory import NotEnoughMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..._host.host import Host
    from ..._models.model import Model
    from ..options.options import Options
    from .instance_plan import InstancePlan
    from .memory.free_memory import FreeMemory

    PlanOnCpus = Callable[[Sequence[int], FreeMemory, list[DefaultChoice]], InstancePlan]

#: Free memory of two sockets is compared in this many steps, so that a small difference does not decide.
MEMORY_STEPS = 10
#: The share of its free memory that an instance on two sockets leaves free on the socket to which it would move.
SPARE_SHARE = 0.05
#: The most nodes of a socket that the BIOS option NPS makes; with more, each L3 domain is a node.
MOST_NODES_OF_NPS = 4
COST_OF_TWO_SOCKETS = (
    "Two sockets read 0.19 to 0.36 of their bandwidth together where one socket reads 0.43 of its own (DeepSeek: "
    "llama.cpp discussion 11765 and issue 10981, ik_llama.cpp pull request 180)."
)
ROWS_PROPOSAL = (
    "For one stream of a dense model, set 'memory: rows', which has each thread read from its own socket: 4.31 instead "
    "of 2.4 tokens per second were measured with rows next to their threads (Llama 70B F16 on two 9175F, llama.cpp "
    "issue 11744)."
)


class Socket:
    """A socket on which an instance could compute: its number, the CPUs that would compute, and its memory nodes."""

    __slots__ = ("cpus", "nodes", "number")

    def __init__(self, number: int, cpus: Sequence[int], nodes: Sequence[int]) -> None:
        self.number = number
        self.cpus = list(cpus)
        self.nodes = tuple(nodes)

    @property
    def name(self) -> str:
        """The name of the socket for the option cpus."""
        return f"socket{self.number}"


def plan_on_best_socket_or_all_cpus(
    options: Options, host: Host, free: FreeMemory, model: Model, plan_on_cpus: PlanOnCpus
) -> InstancePlan:
    """Return the plan of an instance on the best socket on which it fits, or else on all its CPUs.

    ``plan_on_cpus`` takes CPUs, free memory and the choices that were made, and raises NotEnoughMemory.
    """
    shortage = ""
    for socket in list_sockets_to_try(options, host, free):
        try:
            return plan_on_cpus(socket.cpus, free_memory_for_move(socket, free), [build_socket_choice(host, socket)])
        except NotEnoughMemory as error:
            shortage = f"{str(error).partition('. ')[0]}."
    try:
        plan = plan_on_cpus(cpu_assignment.choose_compute_cpus(options, host), free.copy(), [])
    except NotEnoughMemory as error:
        raise NotEnoughMemory(f"{error}{unused_memory_sentences(host.topology)}") from None
    plan.remarks += list_several_socket_remarks(
        options, host, plan.placement.busy_cpus, model, plan.placement.policy, shortage
    )
    return plan


def list_sockets_to_try(options: Options, host: Host, free: FreeMemory) -> list[Socket]:
    """Return the sockets on which an instance may compute alone, the best first; none where it gets all its CPUs.

    A running instance stays on its socket. Another takes the socket on which other instances compute least, and then
    the one with most free memory. Options that need more than a socket say that the instance shall be on several.
    """
    sockets = list_sockets(host)
    if len(sockets) < 2 or options.cpus or options.nodes or options.memory in NUMA_MODES:
        return []
    if free.staged and not any(set(free.present_nodes) <= set(socket.nodes) for socket in sockets):
        return []  # The copies in huge pages are on several sockets, and leave no room for others.
    threads = max(options.threads or 0, options.threads_batch or 0)
    draft_cpus = set(cpu_assignment.parse_cpu_selection(host, options.draft_cpus) if options.draft_cpus else ())
    must_contain = draft_cpus if options.draft_placement == "first_ccd" else set()
    fitting = [
        socket
        for socket in sockets
        if len(cpu_assignment.first_cpu_of_each_core(host.topology, socket.cpus)) >= threads
        and must_contain.issubset(socket.cpus)
    ]
    most = max(_free_bytes(socket, free) for socket in sockets) or 1

    def rank(socket: Socket) -> tuple[bool, bool, int, int, int]:
        return (
            not set(free.present_nodes) or not set(free.present_nodes) <= set(socket.nodes),
            bool(draft_cpus.intersection(socket.cpus)),
            len(free.computing_cpus.intersection(socket.cpus)),
            -round(MEMORY_STEPS * _free_bytes(socket, free) / most),
            socket.number,
        )

    return sorted(fitting, key=rank)


def list_sockets(host: Host) -> list[Socket]:
    """Return the sockets that have CPUs for computing."""
    sockets = []
    for number, members in sorted(host.topology.sockets.items()):
        cpus = [cpu for cpu in sorted(members) if cpu not in host.plan.housekeeping]
        if cpus:
            sockets.append(Socket(number, cpus, cpu_assignment.memory_nodes_of_cpus(host, cpus)))
    return sockets


def _free_bytes(socket: Socket, free: FreeMemory) -> int:
    return sum(free.available.get(node, 0) for node in socket.nodes)


def free_memory_for_move(socket: Socket, free: FreeMemory) -> FreeMemory:
    """Return the free memory that counts for an instance on this socket.

    An instance that runs on several sockets only moves to one if some memory would be left there. Otherwise it would
    move to and fro when other programs take a little more or less memory.
    """
    left = free.copy()
    if free.present_nodes and not set(free.present_nodes) <= set(socket.nodes):
        for node in socket.nodes:
            left.add_free_memory({node: -int(SPARE_SHARE * left.available.get(node, 0))}, {})
    return left


def build_socket_choice(host: Host, chosen: Socket) -> DefaultChoice:
    """Return the choice of this socket, with its reason and the line that undoes it."""
    return DefaultChoice(
        "cpus",
        chosen.name,
        "threads read slower from the memory of another socket (AMD's recipe serving-llms-on-epyc has an instance for "
        "each socket; llama.cpp issue 11744)",
        "one stream about as fast as on both sockets, and another socket that is free for a second instance, predicted",
        f"cpus: {','.join(socket.name for socket in list_sockets(host))}",
    )


def list_several_socket_remarks(
    options: Options, host: Host, cpus: Sequence[int], model: Model, policy: str, shortage: str
) -> list[str]:
    """Return what it costs that an instance computes on several sockets.

    The list is empty for an instance on one socket, and for one whose threads read from their own nodes. ``shortage``
    is the sentence on why one socket does not suffice; "" for an instance that was told its CPUs.
    """
    members = set(cpus)
    names = [socket.name for socket in list_sockets(host) if members.intersection(socket.cpus)]
    if len(names) < 2 or policy in NUMA_MODES:
        return []
    reason = f"One socket does not suffice: {shortage} So it" if shortage else "The instance"
    remark = f"{reason} computes on {' and '.join(names)}. {COST_OF_TWO_SOCKETS}"
    return [f"{remark} {ROWS_PROPOSAL}" if is_stream_of_dense_model(options, model) else remark]


def interleaves_in_a_socket(host: Host, nodes: Sequence[int], policy: str) -> bool:
    """Return whether memory is interleaved over several nodes of a socket."""
    return policy == "interleave" and any(
        sum(1 for node in host.topology.nodes if node.id in nodes and set(node.cpus) & set(cpus)) > 1
        for cpus in host.topology.sockets.values()
    )


def is_stream_of_dense_model(options: Options, model: Model) -> bool:
    """Return whether an instance decodes one stream of a dense model, whose rows can be next to their threads."""
    return bool(options.generates_text and options.slots == 1 and not model.expert_count)


def list_nps_remarks(options: Options, host: Host, nodes: Sequence[int], policy: str, model: Model) -> list[str]:
    """Return a remark where memory is interleaved over several nodes of a socket."""
    if not interleaves_in_a_socket(host, nodes, policy):
        return []
    return [describe_nodes_of_socket(host, nodes, policy, is_stream_of_dense_model(options, model))]


def describe_nodes_of_socket(host: Host, nodes: Sequence[int], policy: str, can_gain_by_rows: bool) -> str:
    """Return what the nodes that the BIOS makes of a socket (NPS) mean for an instance with memory on ``nodes``.

    ``can_gain_by_rows`` is the answer of is_stream_of_dense_model.
    """
    here = [
        [node.id for node in host.topology.nodes if set(node.cpus) & set(cpus)]
        for cpus in host.topology.sockets.values()
    ]
    here = [ids for ids in here if set(ids) & set(nodes)]
    most = max((len(ids) for ids in here), default=1)
    name = f"NPS{most}" if most <= MOST_NODES_OF_NPS else f"L3 as NUMA ({most} nodes in a socket)"
    if most < 2:
        return f"{name}: the hardware interleaves all channels of a socket, as an instance for a socket wants."
    if policy in NUMA_MODES:
        return f"{name}: each thread reads from its own node, which is what more nodes are for."
    if not interleaves_in_a_socket(host, nodes, policy):
        return (
            f"{name}: the instance reads the channels of one of {most} nodes, which pays where each node has an "
            "instance."
        )
    other = (
        f"For one stream of a dense model {name} pays with 'memory: rows'."
        if can_gain_by_rows
        else f"{name} pays with an instance on each node, where the model fits there."
    )
    return (
        f"{name}: memory is interleaved over nodes {format_cpulist(nodes)} page by page, which is NPS1 in software. "
        f"NPS1 in the BIOS does the same in hardware (ik_llama.cpp pull request 2396). {other}"
    )
