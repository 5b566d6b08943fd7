# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested placement of a running service, and verdicts on the observed placement, each with a sentence.

A verdict is "unknown" where a value could not be read, or where no thread worked while the service was observed.
Unknown never counts as clean.
"""

from __future__ import annotations

from functools import partial

from ..._drift.verdict import DRIFT, OK, UNKNOWN
from ..._errors import BadRequest
from ..._kernel.hugepages import parse_nodes
from ..._kernel.numa_maps import EVEN, HUGE
from ..._notation.cpulist import format_cpulist
from ..._notation.numbers import require_whole_number
from ..._notation.sizes import format_bytes_short, parse_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._kernel.numa_maps import MemoryKind
    from ..._kernel.threads import Thread
    from ..._models.weight_locality import Locality
    from .observation import Observation

    Result = dict[str, str]

GIVE_WORK_HINT = "give the service work while it is looked at"
HUGE_NAMES = {
    "hugetlb": "pages of a hugetlb pool",
    "thp": "transparent huge pages of anonymous memory",
    "thp_shmem": "transparent huge pages of tmpfs",
    "thp_file": "transparent huge pages of a file",
}


class PlacementRequest:
    """The requested placement, with roles resolved to CPUs of this host before the service is read."""

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.model = bool(options.get("model"))
        self.cpus = host.parse_cpus(options["cpus"]) if options.get("cpus") else None
        self.busy_cpus = host.parse_cpus(options["busy_cpus"]) if options.get("busy_cpus") else None
        self.busy_threads = require_whole_number(options.get("busy_threads") or 0, "busy_threads")
        self.group: str | None = options.get("group")
        self.nodes = parse_nodes(host.fs, options["nodes"], "nodes") if options.get("nodes") else None
        self.rows = {
            str(path): require_whole_number(n, f"rows.{path}") for path, n in (options.get("rows") or {}).items()
        }
        for path, threads in self.rows.items():
            if threads < 1:
                raise BadRequest(f"rows: {path} cannot be read by {threads} threads; say how many the server has.")
        if self.rows and (not self.nodes or list(self.nodes) != list(range(len(self.nodes)))):
            raise BadRequest("rows needs nodes, from 0 without holes: say the nodes that the server has threads on.")
        self.interleaved = bool(options.get("interleaved"))
        if self.interleaved and not self.nodes:
            raise BadRequest("interleaved needs nodes: say over which nodes the pages are spread.")
        self.percent = require_whole_number(options.get("percent", 99), "percent")
        if not 1 <= self.percent <= 100:
            raise BadRequest(f"percent: {self.percent} is no share; say 1 to 100.")
        self.huge_pages: dict[str, int] = {}
        for kind, amount in (options.get("hugepages") or {}).items():
            if kind not in HUGE:
                raise BadRequest(f"hugepages: there is no kind '{kind}'; say one of {', '.join(HUGE)}.")
            if amount is not None:
                self.huge_pages[kind] = parse_bytes(amount, f"hugepages.{kind}")
        self.spread: str | None = options.get("spread")
        #: CPU -> the first CPU of the unit (CPU or core) that two busy threads must not share.
        self.sharing_unit = {cpu: cpu for cpu in host.topology.online}
        if self.spread == "core":
            self.sharing_unit = {cpu: core[0] for core in host.topology.cores for cpu in core}


def judge_requested_placement(request: PlacementRequest, observation: Observation) -> list[Result]:
    """Return a verdict for each option of the request that has a value."""
    verdicts = []
    busy_cpus = request.busy_cpus
    if request.cpus is not None:
        verdicts.append(_judge_allowed_cpus(observation.threads, "cpus", request.cpus, "thread"))
    if busy_cpus is not None:
        judge_busy = partial(_judge_allowed_cpus, name="busy_cpus", cpus=busy_cpus, thread_word="busy thread")
        verdicts.append(_judge_busy_threads(observation, "busy_cpus", judge_busy))
    if request.busy_threads:
        verdicts.append(_judge_number_of_busy_threads(request.busy_threads, observation))
    if request.spread is not None:
        verdicts.append(_judge_busy_threads(observation, "spread", partial(_judge_busy_threads_sharing_cores, request)))
    if request.group is not None:
        verdicts.append(_judge_resctrl_group(request.group, observation))
    if request.nodes is not None:
        verdicts += _judge_memory_nodes(request, request.nodes, observation)
    verdicts += [_judge_locality_of_model_rows(path, observation.rows[path]) for path in request.rows]
    verdicts += [_judge_huge_pages(kind, least, observation) for kind, least in request.huge_pages.items()]
    return verdicts


def _make_verdict(name: str, verdict: str, sentence: str) -> Result:
    return {"name": name, "verdict": verdict, "sentence": sentence}


def _make_unknown_verdict(name: str, reason: str) -> Result:
    return _make_verdict(name, UNKNOWN, f"Not known: {reason}")


def _format_first_three(items: Sequence[str]) -> str:
    """Return the first three items with commas, and the number of further items."""
    more = f", and {len(items) - 3} more" if len(items) > 3 else ""
    return ", ".join(items[:3]) + more


def _format_thread_count(threads: Sequence[object], what: str) -> str:
    return f"{len(threads)} {what}{'' if len(threads) == 1 else 's'}"


# Threads


def _judge_allowed_cpus(threads: Sequence[Thread], name: str, cpus: Sequence[int], thread_word: str) -> Result:
    text, count = format_cpulist(cpus), _format_thread_count(threads, thread_word)
    outside = [f"{thread} on {format_cpulist(thread.allowed)}" for thread in threads if {*thread.allowed} - {*cpus}]
    if outside:
        sentence = f"{len(outside)} of {count} may run outside {text}: {_format_first_three(outside)}."
        return _make_verdict(name, DRIFT, sentence)
    return _make_verdict(name, OK, f"{count} may run on {text} and nowhere else.")


def _judge_busy_threads(
    observation: Observation, name: str, judge_threads: Callable[[Sequence[Thread]], Result]
) -> Result:
    """Return the verdict of a function on the busy threads; "unknown" where no thread is busy."""
    busy = [thread for thread in observation.threads if thread.is_busy]
    if busy:
        return judge_threads(busy)
    reason = _busy_threads_unknown_reason(observation)
    return _make_unknown_verdict(
        name, reason or f"no thread was busy for half of the {observation.seconds:.1f} s; {GIVE_WORK_HINT}."
    )


def _busy_threads_unknown_reason(observation: Observation) -> str | None:
    """Return why it is unknown which threads are busy, None where it is known."""
    if observation.seconds is None:
        return "without a window it is unknown which threads are busy; set window to some seconds."
    if all(thread.busy is None for thread in observation.threads):
        return "the kernel shows no time that threads waited for a CPU (/proc/PID/schedstat), or all threads are new."
    return None


def _judge_number_of_busy_threads(minimum: int, observation: Observation) -> Result:
    """Judge the number of busy threads; no busy thread is drift, because the option says that the service has work."""
    reason = _busy_threads_unknown_reason(observation)
    if reason:
        return _make_unknown_verdict("busy_threads", reason)
    busy = [thread for thread in observation.threads if thread.is_busy]
    sentence = (
        f"{len(busy)} of {_format_thread_count(observation.threads, 'thread')} busy, at least {minimum} requested"
    )
    if len(busy) >= minimum:
        return _make_verdict("busy_threads", OK, f"{sentence}.")
    hint = "" if busy else f"; {GIVE_WORK_HINT}"
    sentence = f"Only {sentence}, each for half of the {observation.seconds:.1f} s{hint}."
    return _make_verdict("busy_threads", DRIFT, sentence)


def _judge_busy_threads_sharing_cores(request: PlacementRequest, busy: Sequence[Thread]) -> Result:
    """Judge whether busy threads share a CPU or core: by pinning, at the end of the window, or at its beginning."""
    unit_word = "core" if request.spread == "core" else "CPU"
    shared: dict[str, None] = {}
    for cpu_of in (_single_allowed_cpu, lambda thread: thread.cpu, lambda thread: thread.earlier_cpu):
        threads_by_unit: dict[int, list[Thread]] = {}
        for thread in busy:
            cpu = cpu_of(thread)
            if cpu is not None:
                threads_by_unit.setdefault(request.sharing_unit.get(cpu, cpu), []).append(thread)
        for unit, threads in threads_by_unit.items():
            if len(threads) > 1:
                shared.setdefault(f"{unit_word} {unit}: {_format_first_three([str(thread) for thread in threads])}")
    if shared:
        return _make_verdict("spread", DRIFT, f"Busy threads share a {unit_word}. {_format_first_three(list(shared))}.")
    floating = [thread for thread in busy if _single_allowed_cpu(thread) is None]
    remark = f"; {len(floating)} of them may move to other CPUs and come together later" if floating else ""
    count = _format_thread_count(busy, "busy thread")
    return _make_verdict("spread", OK, f"{count}, each on a {unit_word} of its own{remark}.")


def _single_allowed_cpu(thread: Thread) -> int | None:
    return thread.allowed[0] if len(thread.allowed) == 1 else None


def _judge_resctrl_group(group: str, observation: Observation) -> Result:
    outside = []
    for thread in observation.threads:
        thread_groups = observation.places[thread.tid]
        if thread_groups and thread_groups.limiting_groups != (group,):
            outside.append(f"{thread} in {' or '.join(thread_groups.limiting_groups)}")
    count = _format_thread_count(observation.threads, "thread")
    if outside:
        names = _format_first_three(outside)
        sentence = f"{len(outside)} of {count} do not have the limits of the resctrl group {group}: {names}."
        return _make_verdict("group", DRIFT, sentence)
    if None in observation.places.values():
        return _make_unknown_verdict("group", observation.groups.unknown_reason)
    return _make_verdict("group", OK, f"{count} with the limits of the resctrl group {group}.")


# Memory


def _judge_memory_nodes(request: PlacementRequest, nodes: Sequence[int], observation: Observation) -> list[Result]:
    unread = [memory for memory in observation.memory if memory.kinds is None]
    if unread or not observation.memory:
        reason = unread[0].missing["kinds"] if unread else "the service has no process any more."
        return [_make_unknown_verdict(f"nodes/{kind}", reason) for kind in ("weights", "anonymous")]
    kinds = [memory.kinds for memory in observation.memory if memory.kinds]
    weights = _sum_bytes_by_node(table["weights"] for table in kinds)
    anonymous = _sum_bytes_by_node(table["anonymous"] for table in kinds)
    verdicts = []
    if weights:
        verdicts.append(_judge_share_on_nodes(request, nodes, "weights", weights, request.interleaved))
    elif any(table["weights"].files for table in kinds):
        verdicts.append(_make_unknown_verdict("nodes/weights", "the model is mapped, but no page of it was read yet."))
    elif request.model:
        reason = "no process maps the model file. Read without a mapping, the weights are anonymous memory."
        verdicts.append(_make_unknown_verdict("nodes/weights", reason))
    if anonymous:
        # Beside mapped weights, anonymous memory holds small buffers, which the engine does not interleave.
        verdicts.append(
            _judge_share_on_nodes(request, nodes, "anonymous", anonymous, request.interleaved and not weights)
        )
    else:
        verdicts.append(_make_unknown_verdict("nodes/anonymous", "the service has no anonymous memory yet."))
    return verdicts


def _sum_bytes_by_node(kinds: Iterable[MemoryKind]) -> dict[int, int]:
    total: dict[int, int] = {}
    for kind in kinds:
        for node, size in kind.nodes.items():
            total[node] = total.get(node, 0) + size
    return total


def _judge_share_on_nodes(
    request: PlacementRequest, nodes: Sequence[int], kind: str, bytes_by_node: Mapping[int, int], even: bool
) -> Result:
    size = sum(bytes_by_node.values())
    percent = 100 * sum(bytes_by_node.get(node, 0) for node in nodes) / size
    memory = "the mapped weights" if kind == "weights" else "anonymous memory"
    shares = ", ".join(
        f"node {node} {100 * bytes_by_node.get(node, 0) / size:.1f} %" for node in sorted({*nodes, *bytes_by_node})
    )
    sentence = f"{percent:.1f} % of {memory} ({format_bytes_short(size)}) lies on nodes {format_cpulist(nodes)}"
    if percent < request.percent:
        return _make_verdict(f"nodes/{kind}", DRIFT, f"Only {sentence}, requested are {request.percent} %: {shares}.")
    few = [node for node in nodes if bytes_by_node.get(node, 0) * len(nodes) < EVEN * size]
    if even and few:
        cause = (
            f"Node {format_cpulist(few)} had too few free pages when the memory was taken, so other nodes gave theirs, "
            "and the instance is slower. A restart drops page cache there first."
        )
        return _make_verdict(f"nodes/{kind}", DRIFT, f"{sentence}, but not evenly: {shares}. {cause}")
    return _make_verdict(f"nodes/{kind}", OK, f"{sentence}: {shares}.")


def _judge_locality_of_model_rows(path: str, locality: Locality | str) -> Result:
    """Judge the locality of the rows of a model; ``locality`` may be the reason why the locality is unknown."""
    if isinstance(locality, str):
        return _make_unknown_verdict("rows", locality)
    if not locality.by_tensor:
        sentence = f"{path} has no tensor of which the slice of a thread is large enough to be judged."
        return _make_verdict("rows", OK, sentence)
    if not locality.all.cached:
        return _make_unknown_verdict("rows", f"nothing of {path} is in the page cache; {GIVE_WORK_HINT}.")
    return _make_verdict("rows", OK if locality.is_local_enough else DRIFT, f"{path}: {locality}.")


def _judge_huge_pages(kind: str, minimum: int, observation: Observation) -> Result:
    """Judge the huge pages of the process with most of them: a sum would count pages of two processes twice."""
    name = f"hugepages/{kind}"
    sizes = [memory.huge[kind] for memory in observation.memory if memory.huge is not None]
    most = max(sizes, default=0)
    sentence = f"{format_bytes_short(most)} in {HUGE_NAMES[kind]}, requested are {format_bytes_short(minimum)}."
    if sizes and most >= minimum:
        return _make_verdict(name, OK, sentence)
    unread = [memory for memory in observation.memory if memory.huge is None]
    if unread or not sizes:
        reason = unread[0].missing["huge"] if unread else "the service has no process any more."
        return _make_unknown_verdict(name, reason)
    return _make_verdict(name, DRIFT, f"Only {sentence}")
