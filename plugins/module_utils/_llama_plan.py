# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One instance of llama-server on this host: a pure function of what is asked, the host's plan and the models.

Draft and verification take turns, so that by default all cores serve both; whatever else is asked is done truly, or
refused with the reason.
"""

from __future__ import annotations


from . import _cpulist, _gguf_draft, _llama_memory, _llama_pins
from ._errors import BadRequest
from ._hugepages import nodes_of
from ._llama_draft import Drafting, drafting
from ._llama_options import LOOPBACK
from ._llama_pins import CPUSET, GOMP, NUMA, STRICT
from ._llama_service import Rpc, Seat, Service, key_path, rpc_unit_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol

    from ._gguf import Model
    from ._host import Host
    from ._llama_memory import Need, Room
    from ._llama_options import Options
    from ._topology import Topology

    class Capabilities(Protocol):
        """What the binary can do, as far as a plan must know."""

        engine: str
        pins_work: bool
        openmp: bool


#: glibc's words for huge pages, and which share of the weights shall be seen in them.
TUNABLES = {"thp": ("glibc.malloc.hugetlb=1", "thp", 80), "pool": ("glibc.malloc.hugetlb=2", "hugetlb", 95)}
#: From so many tokens on, the server deals a batch out to threads without regard to nodes.
STEALING = 8
#: Wants that are options under the same name.
SAME = ("alias", "host", "port", "context", "slots", "batch", "ubatch", "flash_attention", "cache_type_k")


def plan_service(
    options: Options, host: Host, able: Capabilities, model: Model, draft: Model | None, here: Room
) -> Service:
    """Return the instance. Raises BadRequest with the reason when it cannot be had on this host."""
    if able.engine != options.engine:
        raise BadRequest(f"{options.binary} is {able.engine}, and engine says {options.engine}. Name the other one.")
    remarks = _check_models(options, model, draft)
    top = host.topology
    busy, nodes = _places(options, host, remarks)
    policy = _policy(options, top, nodes)
    speculation = drafting(options, host, busy, nodes, model, draft if options.drafts else None)
    remarks += speculation.remarks
    if speculation.apart:
        busy = [cpu for cpu in busy if cpu not in speculation.cpus]
        if not busy:
            raise BadRequest("draft_placement own_ccd leaves no CPU to the model. Give the instance more CPUs.")
    drafts = draft if speculation.draft_max else None
    rpc = _rpc(options, top, able, speculation, host, here) if drafts and speculation.apart else None
    wants = _wants(options, model, drafts, speculation)
    seat = _seat(options, host, able, busy, nodes, policy, speculation, wants, here, remarks)
    need, unknown = _llama_memory.need(options, model, drafts)
    remarks += unknown
    read = [one for one in (model, drafts) if one]
    staged = [model, *([drafts] if drafts and not rpc else [])] if options.hugepages == "hugetlbfs" else []
    _llama_memory.refuse_what_does_not_fit(options, need, nodes, policy, here, staged)
    _memory_wants(options, wants, seat, staged, here, remarks)
    _environment(options, seat)
    return Service(
        options,
        seat,
        need,
        wants,
        rpc,
        [part.path for one in read for part in one.parts],
        [path for one in staged for path in _llama_memory.staged_paths(options, one)],
        _expect(seat, _huge(options, need)),
        dict.fromkeys(remarks),
    )


def _check_models(options: Options, model: Model, draft: Model | None) -> list[str]:
    """Refuse a pair that would not speculate, and experts that the model does not have."""
    remarks = []
    if options.drafts and draft:
        for reason in _gguf_draft.refusals(model, draft):
            raise BadRequest(reason)
        remarks += _gguf_draft.remarks(model, draft)
    if options.experts:
        used = model.of_architecture("expert_used_count") or model.experts
        if not model.experts:
            raise BadRequest(f"experts: {model.path} is a dense model and has none. Leave experts out.")
        if options.experts >= used:
            raise BadRequest(f"experts: {model.path} uses {used} for each token. Say fewer, or leave experts out.")
        remarks.append(
            f"experts: {options.experts} instead of {used} for each token changes the answers of the model, for the "
            "worse. Compare them before you rely on it."
        )
    trained = model.of_architecture("context_length")
    if trained and options.context > trained * options.slots:
        remarks.append(f"context: each of {options.slots} slots has more than the {trained} tokens of the training.")
    if options.host not in LOOPBACK and not options.api_key_file:
        remarks.append(f"host {options.host}: everybody who reaches port {options.port} may use it. Say api_key_file.")
    return remarks


# Where


def _places(options: Options, host: Host, remarks: list[str]) -> tuple[list[int], tuple[int, ...]]:
    """Return the CPUs to compute on and the nodes for memory; each follows from the other where one is not said."""
    top = host.topology
    nodes = nodes_of(host.fs, options.nodes, "nodes") if options.nodes else ()
    if options.cpus:
        busy = list(host.cpus(options.cpus))
    else:
        near = {cpu for node in top.nodes if node.id in nodes or not nodes for cpu in node.cpus}
        busy = [cpu for cpu in top.online if cpu in near and cpu not in host.plan.housekeeping]
    if not busy:
        raise BadRequest(
            f"No CPU is left to compute on{f' near nodes {options.nodes}' if options.nodes else ''}: housekeeping "
            "takes them all. Say cpus, or give housekeeping less."
        )
    own = [node for node in top.nodes if set(node.cpus) & set(busy)]
    far = [node.id for node in own if nodes and node.id not in nodes]
    if far:
        remarks.append(f"CPUs on nodes {_cpulist.render(far)} read all memory from nodes {options.nodes}.")
    kept = set(busy) & set(host.plan.housekeeping)
    if kept:
        remarks.append(f"CPUs {_cpulist.render(kept)} compute, and are housekeeping too: interrupts will disturb them.")
    with_memory = [node.id for node in own if node.bytes] or [node.id for node in own]
    return busy, nodes or tuple(with_memory)


def _policy(options: Options, top: Topology, nodes: Sequence[int]) -> str:
    if options.memory:
        return str(options.memory)
    if len(top.nodes) == 1:
        return "local"
    return "bind" if len(nodes) == 1 else "interleave"


def _http(host: Host, busy: Iterable[int]) -> tuple[int, ...]:
    """Return the housekeeping CPUs for all other threads: those on the nodes of the busy ones, else all."""
    busy = set(busy)
    spare = [cpu for cpu in host.plan.housekeeping if cpu not in busy]
    near = {cpu for node in host.topology.nodes if busy & set(node.cpus) for cpu in node.cpus}
    return tuple(cpu for cpu in spare if cpu in near) or tuple(spare)


def _seat(
    options: Options,
    host: Host,
    able: Capabilities,
    busy: Sequence[int],
    nodes: Sequence[int],
    policy: str,
    speculation: Drafting,
    wants: dict[str, Any],
    here: Room,
    remarks: list[str],
) -> Seat:
    """Put every thread in its place, and write the numbers of threads into the wants."""
    top = host.topology
    isolated = sorted(here.isolated.intersection(busy))
    cores = _llama_pins.first_of_each_core(top, busy)
    most = _llama_pins.spread_over_nodes(top, busy, isolated) if policy == "distribute" else len(cores)
    threads, batch = (
        options.threads or most,
        options.threads_batch or (options.threads if policy == "distribute" else 0),
    )
    batch = batch or most
    for key, number in (("threads", threads), ("threads_batch", batch)):
        if number > most:
            raise BadRequest(f"{key} is {number}, and there are {most} cores for it on CPUs {_cpulist.render(busy)}.")
    wants.update(threads=threads, threads_batch=batch)
    used = max(threads, batch)
    first = [cpu for cpu in cores if cpu in speculation.cpus] if speculation.first else []
    order = first + [cpu for cpu in cores if cpu not in first]
    if not first and used < len(cores) or threads < used:
        order = first + _llama_pins.dealt_out(top, [cpu for cpu in cores if cpu not in first])
    draft_threads = _draft_threads(options, speculation, len(first), threads, used)
    if draft_threads:
        wants.update(draft_threads=draft_threads, draft_threads_batch=draft_threads if first else batch)
    pins = order[:used]
    in_order = bool(first) or threads < used
    http = _http(host, busy)
    if not http:
        remarks.append("There is no housekeeping CPU, so HTTP and tokenizer threads run among those that compute.")
    if policy == "distribute":
        pinned = NUMA
        wants["numa"] = "distribute"
        longest = max([0, wants.get("draft_max", 0), wants.get("ngram_max", 0)])
        if longest + 1 >= STEALING:
            remarks.append(
                f"memory distribute: batches of {STEALING} tokens and more, as with {longest} drafted ones, read across "
                "nodes. Draft 6 at most, or set GGML_CPU_TILED_MM to 0."
            )
    else:
        pinned = _llama_pins.means(able.pins_work, able.openmp, in_order, used, draft_threads, isolated)
    if first and pinned != GOMP:
        raise BadRequest(
            "draft_placement first_ccd needs a build with OpenMP, whose threads draft on the pins that they verify on. "
            "Take own_ccd or shared, or build with OpenMP."
        )
    if pinned in (STRICT, CPUSET) and threads < used:
        remarks.append(
            f"threads {threads} are fewer than threads_batch {used}, and without OpenMP no order of CPUs can be said: "
            "they are not spread over all CCDs."
        )
    if pinned == CPUSET:
        remarks.append("This build can pin no threads here: they float on the CPUs of the unit.")
    if pinned == STRICT:
        pins = sorted(pins)
        wants["cpus"] = list(pins)
    floats = pinned in (NUMA, CPUSET)
    seat = Seat(busy if floats else pins, {*busy, *http}, nodes, policy, pinned)
    seat.http_cpus = http
    if pinned == STRICT and http and not able.openmp:
        # OpenMP counts the CPUs that it begins with, and with fewer than threads lets them sleep at every barrier.
        seat.affinity = http
    if pinned == GOMP:
        seat.environment["GOMP_CPU_AFFINITY"] = " ".join(str(cpu) for cpu in pins)
    seat.group = options.l3_group or _group_of(host, seat.cpus)
    return seat


def _draft_threads(options: Options, speculation: Drafting, first: int, threads: int, used: int) -> int:
    """Return the threads that draft in this process; 0 where none does."""
    if not speculation.draft_max or speculation.apart:
        return 0
    number = int(options.draft_threads or first or threads)
    most = first or used
    if number > most:
        raise BadRequest(f"draft_threads is {number}, and a draft has {most} cores here. Say {most} at most.")
    return number


def _group_of(host: Host, cpus: Sequence[int]) -> str | None:
    """Return the resctrl group of the plan that all these CPUs are in: its limits hold for every thread there."""
    return next((group.name for group in host.plan.groups if set(cpus) <= set(group.cpus)), None)


def _rpc(options: Options, top: Topology, able: Capabilities, speculation: Drafting, host: Host, here: Room) -> Rpc:
    """Return the server that drafts on a CCD of its own. It speaks without a password, so only to this host."""
    cores = _llama_pins.first_of_each_core(top, speculation.cpus)
    number = options.draft_threads or len(cores)
    if number > len(cores):
        raise BadRequest(f"draft_threads is {number}, and the draft's CCD has {len(cores)} cores.")
    isolated = sorted(here.isolated.intersection(speculation.cpus))
    pinned = _llama_pins.means(False, able.openmp, True, number, 0, isolated)
    pins = cores[:number]
    nodes = [node.id for node in top.nodes if set(node.cpus) & set(speculation.cpus)]
    seat = Seat(
        pins if pinned == GOMP else speculation.cpus,
        speculation.cpus,
        nodes,
        "local" if len(top.nodes) == 1 else "bind",
        pinned,
    )
    if pinned == GOMP:
        seat.environment["GOMP_CPU_AFFINITY"] = " ".join(str(cpu) for cpu in pins)
    seat.group = options.draft_l3_group or _group_of(host, seat.cpus)
    arguments = ["-H", "127.0.0.1", "-p", str(options.rpc_port), "-t", str(number)]
    return Rpc(rpc_unit_of(options.name), seat, arguments, _expect(seat, {}))


# What the server is told


def _wants(options: Options, model: Model, draft: Model | None, speculation: Drafting) -> dict[str, Any]:
    wants: dict[str, Any] = {key: getattr(options, key) for key in (*SAME, "cache_type_v")}
    wants["model"] = model.path
    wants.update(metrics=True, slots_endpoint=True, speculation=list(speculation.kinds))
    if draft:
        wants.update(draft_model=draft.path, draft_max=speculation.draft_max, draft_min=0)
        wants["draft_p_min"] = speculation.p_min
        if speculation.apart:
            wants["rpc"] = f"127.0.0.1:{options.rpc_port}"
    if speculation.ngram:
        for key in ("ngram_lookup", "ngram_max", "ngram_min_hits"):
            wants[key] = getattr(options, key)
    if options.experts:
        wants["experts"] = (model.architecture, options.experts)
    if options.api_key_file:
        wants["api_key_file"] = key_path(options.name)
    if options.extra_arguments:
        wants["extra"] = list(options.extra_arguments)
    return {key: value for key, value in wants.items() if value is not None}


def _memory_wants(
    options: Options, wants: dict[str, Any], seat: Seat, staged: Sequence[Model], here: Room, remarks: list[str]
) -> None:
    """Say how the weights are read; whatever maps the file must not have it repacked into anonymous memory."""
    wants["load"] = "mmap"
    if options.hugepages in TUNABLES:
        wants["load"] = "none"
        seat.environment["GLIBC_TUNABLES"] = TUNABLES[options.hugepages][0]
    if options.lock:
        wants["load"] = "mlock"
    if options.hugepages == "thp" and here.thp == "never":
        raise BadRequest(
            "hugepages thp: transparent huge pages are switched off (never). Set numa_thp to madvise, or take pool."
        )
    if staged:
        for key, model in zip(("model", "draft_model"), staged):
            wants[key] = _llama_memory.staged_paths(options, model)[0]
    if staged or seat.policy == "distribute":
        wants["repack"] = False
        remarks.append(
            "The weights are not repacked, because the copy would not lie where the file does. With quants that the "
            "server would repack, as Q4_K, reading a token takes more work; compare with hugepages thp."
        )


def _environment(options: Options, seat: Seat) -> None:
    for name, value in options.extra_environment.items():
        if name in seat.environment:
            raise BadRequest(
                f"extra_environment: {name} is set by the plan, to '{seat.environment[name]}'. Leave it out."
            )
        seat.environment[name] = value


# What shall be seen


def _huge(options: Options, need: Need) -> dict[str, str]:
    """Return how much memory shall be in huge pages at least."""
    if options.hugepages == "none":
        return {}
    kind, percent = TUNABLES[options.hugepages][1:] if options.hugepages in TUNABLES else ("hugetlb", 95)
    return {kind: f"{need.weights * percent // 100 >> 20}MiB"}


def _expect(seat: Seat, huge: dict[str, str]) -> dict[str, Any]:
    """Return the options of service_placement that prove this seat."""
    expect: dict[str, Any] = {"cpus": _cpulist.render(seat.cpus), "busy_cpus": _cpulist.render(seat.busy_cpus)}
    if seat.pinned in (STRICT, GOMP):
        expect["spread"] = "core"
    else:
        expect["busy_cpus"] = expect["cpus"]
    if seat.nodes:
        expect.update(nodes=_cpulist.render(seat.nodes), interleaved=seat.policy == "interleave")
    if huge:
        expect["hugepages"] = huge
    if seat.group:
        expect["group"] = seat.group
    return expect
