# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where an instance of llama-server sits: CPUs to compute on, CPUs for all other threads, nodes for its memory."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._host.host import ROLES
from ..._kernel.hugepages import nodes_of
from ..._notation import cpulist
from . import pins as pinning
from .names import rpc_unit_of
from .pins import CPUSET, GOMP, NUMA, STRICT
from .service import Placement, Rpc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol

    from ..._host.host import Host
    from ..._host.topology import Topology
    from .draft import Drafting
    from .memory import FreeMemory
    from .options import Options

    class Capabilities(Protocol):
        """What the binary can do, as far as a plan must know."""

        @property
        def engine(self) -> str:
            """One of the engines of the options."""

        @property
        def pins_work(self) -> bool:
            """Whether the server honours --cpu-mask."""

        @property
        def openmp(self) -> bool:
            """Whether it was built with OpenMP."""


#: From so many tokens on, the server deals a batch out to threads without regard to nodes.
STEALING = 8


def cpus_and_nodes(options: Options, host: Host, remarks: list[str]) -> tuple[list[int], tuple[int, ...]]:
    """Return the CPUs to compute on and the nodes for memory; each follows from the other where one is not said."""
    top = host.topology
    nodes = nodes_of(host.fs, options.nodes, "nodes") if options.nodes else ()
    if options.cpus:
        busy = sorted({cpu for word in options.cpus.split(",") for cpu in _free_cpus(host, word.strip())})
    else:
        near = {cpu for node in top.nodes if node.id in nodes or not nodes for cpu in node.cpus}
        busy = [cpu for cpu in top.online if cpu in near and cpu not in host.plan.housekeeping]
    if not busy:
        raise BadRequest(
            "No CPU is left to compute on that is not housekeeping. Name other cpus or nodes, or say with cpus which "
            "ones shall by their numbers."
        )
    own = [node for node in top.nodes if set(node.cpus) & set(busy)]
    far = [node.id for node in own if nodes and node.id not in nodes]
    if far:
        remarks.append(f"CPUs on nodes {cpulist.render(far)} read all memory from nodes {cpulist.render(nodes)}.")
    kept = set(busy) & set(host.plan.housekeeping)
    if kept:
        remarks.append(f"CPUs {cpulist.render(kept)} compute, and are housekeeping too: interrupts will disturb them.")
    return busy, nodes or tuple([node.id for node in own if node.bytes] or [node.id for node in own])


def _free_cpus(host: Host, word: str) -> set[int]:
    """Return what a word names: of a place those CPUs that are not housekeeping, of a role and of numbers all."""
    named = set(host.cpus(word))
    return named if word in ROLES or word[:1].isdigit() else named.difference(host.plan.housekeeping)


def policy_of(options: Options, top: Topology, nodes: Sequence[int]) -> str:
    """Return the memory policy: on one node the nearest memory is all there is, on several all of them shall serve."""
    if options.memory:
        return str(options.memory)
    if len(top.nodes) == 1:
        return "local"
    return "bind" if len(nodes) == 1 else "interleave"


def place(
    options: Options,
    host: Host,
    able: Capabilities,
    busy: Sequence[int],
    nodes: Sequence[int],
    policy: str,
    speculation: Drafting,
    wants: dict[str, Any],
    here: FreeMemory,
    remarks: list[str],
) -> Placement:
    """Put every thread in its place, and write the numbers of threads and the pins into the wants."""
    top = host.topology
    isolated = sorted(here.isolated.intersection(busy))
    cores = pinning.first_of_each_core(top, busy)
    distribute = policy == "distribute"
    most = pinning.spread_over_nodes(top, busy, isolated) if distribute else len(cores)
    threads, batch = _threads(options, busy, most, distribute)
    used = max(threads, batch)
    first = [cpu for cpu in cores if cpu in speculation.cpus] if speculation.first else []
    rest = [cpu for cpu in cores if cpu not in first]
    pins = [*first, *(pinning.dealt_out(top, rest) if threads < len(cores) else rest)][:used]
    drafting = _draft_threads(options, speculation, len(first), threads)
    wants.update(threads=threads, threads_batch=batch)
    if drafting:
        wants.update(draft_threads=drafting, draft_threads_batch=drafting if first or options.draft_threads else batch)
    if distribute:
        pinned = NUMA
        wants["numa"] = "distribute"
        _remark_on_batches(wants, remarks)
    else:
        in_order = bool(first) or threads < used
        works = able.pins_work and max(pins) < pinning.MOST_CPUS
        pinned = pinning.method(works, able.openmp, in_order, used, drafting, isolated)
    if first and pinned != GOMP:
        raise BadRequest(
            "draft_placement first_ccd needs a build with OpenMP, whose threads draft on the pins that they verify on"
            f"{', and no memory distribute, which overrides pins' if distribute else ''}. Take shared or own_ccd."
        )
    http = _http(host, busy)
    result = Placement(pins if pinned in (STRICT, GOMP) else busy, {*busy, *http}, nodes, policy, pinned)
    result.http_cpus = http
    result.group = options.l3_group or _group_of(host, result.cpus)
    if pinned == STRICT:
        result.busy_cpus = tuple(sorted(pins))
        wants["cpus"] = sorted(pins)
        if http and not able.openmp:
            # OpenMP counts the CPUs that it begins with, and with fewer than threads lets them sleep at every barrier.
            result.affinity = http
    elif pinned == GOMP:
        result.environment["GOMP_CPU_AFFINITY"] = " ".join(str(cpu) for cpu in pins)
    elif pinned == CPUSET:
        remarks.append("This build can pin no threads here: they float on the CPUs of the unit.")
    if pinned != GOMP and threads < used:
        remarks.append(
            f"threads {threads} are fewer than threads_batch {batch}, and without OpenMP no order of CPUs can be said: "
            "the fewer ones are not spread over all CCDs."
        )
    if not http:
        remarks.append("There is no housekeeping CPU, so HTTP and tokenizer threads run among those that compute.")
    return result


def _threads(options: Options, busy: Sequence[int], most: int, distribute: bool) -> tuple[int, int]:
    """Return the threads that decode, and those that read prompts and verify."""
    threads: int = options.threads or most
    batch: int = options.threads_batch or (threads if distribute else most)
    for key, number in (("threads", threads), ("threads_batch", batch)):
        if number > most:
            raise BadRequest(
                f"{key} is {number}, and CPUs {cpulist.render(busy)} have {most} cores for it"
                f"{', the same number on each node' if distribute else ''}. Two threads on a core hold each other up."
            )
    if distribute and threads != batch:
        raise BadRequest(
            "memory distribute puts each part of the weights on the node of the thread that reads it, so threads and "
            f"threads_batch must be the same, not {threads} and {batch}."
        )
    return threads, batch


def _draft_threads(options: Options, speculation: Drafting, first: int, threads: int) -> int:
    """Return the threads that draft in this process; 0 where none does."""
    if not speculation.draft_max or speculation.apart:
        return 0
    most = first or threads
    number: int = options.draft_threads or most
    if number > most:
        raise BadRequest(f"draft_threads is {number}, and the draft has {most} cores here. Say {most} at most.")
    return number


def _remark_on_batches(wants: dict[str, Any], remarks: list[str]) -> None:
    longest = max(wants.get("draft_max", 0), wants.get("ngram_max", 0))
    if longest + 1 >= STEALING:
        remarks.append(
            f"memory distribute: batches of {STEALING} tokens and more, as with {longest} drafted ones, are read "
            "across nodes. Draft 6 at most, or set GGML_CPU_TILED_MM to 0."
        )


def _http(host: Host, busy: Iterable[int]) -> tuple[int, ...]:
    """Return the housekeeping CPUs for all other threads: those on the nodes of the busy ones, else all."""
    busy = set(busy)
    spare = [cpu for cpu in host.plan.housekeeping if cpu not in busy]
    near = {cpu for node in host.topology.nodes if busy & set(node.cpus) for cpu in node.cpus}
    return tuple(cpu for cpu in spare if cpu in near) or tuple(spare)


def _group_of(host: Host, cpus: Sequence[int]) -> str | None:
    """Return the resctrl group of the plan that has all these CPUs: its limits hold for every thread there."""
    return next((group.name for group in host.plan.groups if set(cpus) <= set(group.cpus)), None)


def rpc(options: Options, host: Host, able: Capabilities, speculation: Drafting, here: FreeMemory) -> Rpc:
    """Return the server that drafts on a CCD of its own. It asks for no password, so it serves only this host."""
    top = host.topology
    cpus = speculation.cpus
    cores = pinning.first_of_each_core(top, cpus)
    number: int = options.draft_threads or len(cores)
    if number > len(cores):
        raise BadRequest(f"draft_threads is {number}, and the draft has {len(cores)} cores of its own.")
    # The masks of the server are no options of this program.
    pinned = pinning.method(False, able.openmp, True, number, 0, sorted(here.isolated.intersection(cpus)))
    pins = cores[:number]
    nodes = [node.id for node in top.nodes if set(node.cpus) & set(cpus)]
    policy = "local" if len(top.nodes) == 1 else "bind"
    result = Placement(pins if pinned == GOMP else cpus, cpus, nodes, policy, pinned)
    result.group = options.draft_l3_group or _group_of(host, result.cpus)
    if pinned == GOMP:
        result.environment["GOMP_CPU_AFFINITY"] = " ".join(str(cpu) for cpu in pins)
    return Rpc(rpc_unit_of(options.name), result, ["-H", "127.0.0.1", "-p", str(options.rpc_port), "-t", str(number)])
