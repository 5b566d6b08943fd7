# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a running service, and the verdicts on it, each with a sentence.

A verdict is "unknown", with the reason, where something could not be read or did not happen while it was observed; it
is never counted as fine.
"""

from __future__ import annotations

from ..._drift.verdict import DRIFT, OK, UNKNOWN
from ..._errors import BadRequest
from ..._kernel.hugepages import parse_nodes
from ..._kernel.numa_maps import EVEN, HUGE
from ..._notation.cpulist import format_cpulist
from ..._notation.numbers import require_whole
from ..._notation.sizes import format_bytes_short, parse_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._kernel.numa_maps import MemoryKind
    from ..._kernel.threads import Thread
    from ..._models.weight_locality import Locality
    from .observation import Proof

    Result = dict[str, str]

GIVE_WORK = "give the service work while it is looked at"
HUGE_NAMES = {
    "hugetlb": "pages of a hugetlb pool",
    "thp": "transparent huge pages of anonymous memory",
    "thp_shmem": "transparent huge pages of tmpfs",
    "thp_file": "transparent huge pages of a file",
}


class Asked:
    """What the options ask for, resolved on this host before anything of the service is read."""

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.model = bool(options.get("model"))
        self.cpus = host.parse_cpus(options["cpus"]) if options.get("cpus") else None
        self.busy_cpus = host.parse_cpus(options["busy_cpus"]) if options.get("busy_cpus") else None
        self.busy_threads = require_whole(options.get("busy_threads") or 0, "busy_threads")
        self.group: str | None = options.get("group")
        self.nodes = parse_nodes(host.fs, options["nodes"], "nodes") if options.get("nodes") else None
        self.rows: dict[str, int] = {}
        for path, threads in (options.get("rows") or {}).items():
            self.rows[str(path)] = require_whole(threads, f"rows.{path}")
            if self.rows[str(path)] < 1:
                raise BadRequest(f"rows: {path} cannot be read by {threads} threads; say how many the server has.")
        if self.rows and (not self.nodes or list(self.nodes) != list(range(len(self.nodes)))):
            raise BadRequest("rows needs nodes, from 0 without holes: say the nodes that the server has threads on.")
        self.interleaved = bool(options.get("interleaved"))
        if self.interleaved and not self.nodes:
            raise BadRequest("interleaved needs nodes: say over which nodes the pages are spread.")
        self.percent = require_whole(options.get("percent", 99), "percent")
        if not 1 <= self.percent <= 100:
            raise BadRequest(f"percent: {self.percent} is no share; say 1 to 100.")
        self.huge: dict[str, int] = {}
        for kind, amount in (options.get("hugepages") or {}).items():
            if kind not in HUGE:
                raise BadRequest(f"hugepages: there is no kind '{kind}'; say one of {', '.join(HUGE)}.")
            if amount is not None:
                self.huge[kind] = parse_bytes(amount, f"hugepages.{kind}")
        self.spread: str | None = options.get("spread")
        #: What two threads must not share, by CPU: the CPU itself or its core.
        self.place = {cpu: cpu for cpu in host.topology.online}
        if self.spread == "core":
            self.place = {cpu: core[0] for core in host.topology.cores for cpu in core}


def judge(asked: Asked, proof: Proof) -> list[Result]:
    """Return a verdict on everything that was asked, and on nothing else."""
    verdicts = []
    if asked.cpus is not None:
        verdicts.append(_may_run(proof.threads, "cpus", asked.cpus, "thread"))
    if asked.busy_cpus is not None:
        verdicts.append(
            _of_busy(proof, "busy_cpus", lambda t: _may_run(t, "busy_cpus", asked.busy_cpus, "busy thread"))
        )
    if asked.busy_threads:
        verdicts.append(_enough(asked.busy_threads, proof))
    if asked.spread is not None:
        verdicts.append(_of_busy(proof, "spread", lambda busy: _spread(asked, busy)))
    if asked.group is not None:
        verdicts.append(_group(asked.group, proof))
    if asked.nodes is not None:
        verdicts += _nodes(asked, asked.nodes, proof)
    verdicts += [_rows(path, proof.rows[path]) for path in asked.rows]
    verdicts += [_huge(kind, least, proof) for kind, least in asked.huge.items()]
    return verdicts


def _result(name: str, verdict: str, sentence: str) -> Result:
    return {"name": name, "verdict": verdict, "sentence": sentence}


def _first(items: Sequence[str]) -> str:
    """Return a few of many."""
    more = f", and {len(items) - 3} more" if len(items) > 3 else ""
    return ", ".join(items[:3]) + more


def _count(threads: Sequence[object], what: str) -> str:
    return f"{len(threads)} {what}{'' if len(threads) == 1 else 's'}"


# Threads


def _may_run(threads: Sequence[Thread], name: str, cpus: Sequence[int] | None, what: str) -> Result:
    wanted = set(cpus or ())
    text = format_cpulist(wanted)
    astray = [f"{thread} on {format_cpulist(thread.allowed)}" for thread in threads if set(thread.allowed) - wanted]
    if astray:
        count = _count(threads, what)
        return _result(name, DRIFT, f"{len(astray)} of {count} may run outside {text}: {_first(astray)}.")
    return _result(name, OK, f"{_count(threads, what)} may run on {text} and nowhere else.")


def _of_busy(proof: Proof, name: str, verdict: Callable[[Sequence[Thread]], Result]) -> Result:
    """Return a verdict on the busy threads, where there are any."""
    busy = [thread for thread in proof.threads if thread.is_busy]
    if busy:
        return verdict(busy)
    reason = _unmeasured(proof) or f"no thread was busy for half of the {proof.seconds:.1f} s; {GIVE_WORK}."
    return _result(name, UNKNOWN, f"Not known: {reason}")


def _unmeasured(proof: Proof) -> str | None:
    """Return why it is unknown which threads are busy, None where it is known."""
    if proof.seconds is None:
        return "without a window it is unknown which threads are busy; set window to some seconds."
    if all(thread.busy is None for thread in proof.threads):
        return "the kernel shows no time that threads waited for a CPU (/proc/PID/schedstat), or all threads are new."
    return None


def _enough(least: int, proof: Proof) -> Result:
    """Judge how many threads were busy. Zero is too few: the option says that there is work."""
    reason = _unmeasured(proof)
    if reason:
        return _result("busy_threads", UNKNOWN, f"Not known: {reason}")
    busy = [thread for thread in proof.threads if thread.is_busy]
    found = f"{len(busy)} of {_count(proof.threads, 'thread')} busy, at least {least} requested"
    if len(busy) >= least:
        return _result("busy_threads", OK, f"{found}.")
    hint = "" if busy else f"; {GIVE_WORK}"
    return _result("busy_threads", DRIFT, f"Only {found}, each for half of the {proof.seconds:.1f} s{hint}.")


def _spread(asked: Asked, busy: Sequence[Thread]) -> Result:
    """Judge the CPUs of busy threads: at the end of the window, at its beginning, and those that they are pinned to."""
    what = "core" if asked.spread == "core" else "CPU"
    shared: dict[str, None] = {}
    for cpu_of in (_pin, lambda thread: thread.cpu, lambda thread: thread.earlier_cpu):
        there: dict[int, list[Thread]] = {}
        for thread in busy:
            cpu = cpu_of(thread)
            if cpu is not None:
                there.setdefault(asked.place.get(cpu, cpu), []).append(thread)
        for place, threads in there.items():
            if len(threads) > 1:
                shared.setdefault(f"{what} {place}: {_first([str(thread) for thread in threads])}")
    if shared:
        return _result("spread", DRIFT, f"Busy threads share a {what}. {_first(list(shared))}.")
    floating = [thread for thread in busy if _pin(thread) is None]
    how = f"; {len(floating)} of them may move to other CPUs and come together later" if floating else ""
    return _result("spread", OK, f"{_count(busy, 'busy thread')}, each on a {what} of its own{how}.")


def _pin(thread: Thread) -> int | None:
    return thread.allowed[0] if len(thread.allowed) == 1 else None


def _group(wanted: str, proof: Proof) -> Result:
    astray = []
    for thread in proof.threads:
        place = proof.places[thread.tid]
        if place and place.limits != (wanted,):
            astray.append(f"{thread} in {' or '.join(place.limits)}")
    count = _count(proof.threads, "thread")
    if astray:
        sentence = f"{len(astray)} of {count} do not have the limits of the resctrl group {wanted}: {_first(astray)}."
        return _result("group", DRIFT, sentence)
    if None in proof.places.values():
        return _result("group", UNKNOWN, f"Not known: {proof.groups.why_unknown}")
    return _result("group", OK, f"{count} with the limits of the resctrl group {wanted}.")


# Memory


def _nodes(asked: Asked, nodes: Sequence[int], proof: Proof) -> list[Result]:
    unread = [memory for memory in proof.memory if memory.kinds is None]
    if unread or not proof.memory:
        reason = unread[0].missing["kinds"] if unread else "the service has no process any more."
        return [_result(f"nodes/{kind}", UNKNOWN, f"Not known: {reason}") for kind in ("weights", "anonymous")]
    kinds = [memory.kinds for memory in proof.memory if memory.kinds]
    weights = _total(table["weights"] for table in kinds)
    anonymous = _total(table["anonymous"] for table in kinds)
    verdicts = []
    if weights:
        verdicts.append(_lies_on(asked, nodes, "weights", weights, asked.interleaved))
    elif any(table["weights"].files for table in kinds):
        verdicts.append(_no_pages("weights", "the model is mapped, but no page of it was read yet."))
    elif asked.model:
        reason = "no process maps the model file. Read without a mapping, the weights are anonymous memory."
        verdicts.append(_no_pages("weights", reason))
    if anonymous:
        # Beside mapped weights it is small, and what a process allocates for itself is not interleaved.
        verdicts.append(_lies_on(asked, nodes, "anonymous", anonymous, asked.interleaved and not weights))
    else:
        verdicts.append(_no_pages("anonymous", "the service has no anonymous memory yet."))
    return verdicts


def _no_pages(kind: str, reason: str) -> Result:
    return _result(f"nodes/{kind}", UNKNOWN, f"Not known: {reason}")


def _total(kinds: Iterable[MemoryKind]) -> dict[int, int]:
    total: dict[int, int] = {}
    for kind in kinds:
        for node, size in kind.nodes.items():
            total[node] = total.get(node, 0) + size
    return total


def _lies_on(asked: Asked, nodes: Sequence[int], kind: str, total: Mapping[int, int], even: bool) -> Result:
    size = sum(total.values())
    here = 100 * sum(total.get(node, 0) for node in nodes) / size
    what = "the mapped weights" if kind == "weights" else "anonymous memory"
    shares = ", ".join(f"node {node} {100 * total.get(node, 0) / size:.1f} %" for node in sorted({*nodes, *total}))
    found = f"{here:.1f} % of {what} ({format_bytes_short(size)}) lies on nodes {format_cpulist(nodes)}"
    if here < asked.percent:
        return _result(f"nodes/{kind}", DRIFT, f"Only {found}, requested are {asked.percent} %: {shares}.")
    if even and any(total.get(node, 0) * len(nodes) < EVEN * size for node in nodes):
        return _result(f"nodes/{kind}", DRIFT, f"{found}, but not evenly: {shares}.")
    return _result(f"nodes/{kind}", OK, f"{found}: {shares}.")


def _rows(path: str, found: Locality | str) -> Result:
    """Judge where the rows of a model are; a text is the reason for which that is not known."""
    if isinstance(found, str):
        return _result("rows", UNKNOWN, f"Not known: {found}")
    if not found.by_tensor:
        return _result("rows", OK, f"{path} has no tensor of which the slice of a thread is large enough to be judged.")
    if not found.all.cached:
        return _result("rows", UNKNOWN, f"Not known: nothing of {path} is in the page cache; {GIVE_WORK}.")
    return _result("rows", OK if found.is_local_enough else DRIFT, f"{path}: {found}.")


def _huge(kind: str, least: int, proof: Proof) -> Result:
    """Judge the process with the most of them: what two processes share would count twice."""
    name = f"hugepages/{kind}"
    found = [memory.huge[kind] for memory in proof.memory if memory.huge is not None]
    most = max(found, default=0)
    sentence = f"{format_bytes_short(most)} in {HUGE_NAMES[kind]}, requested are {format_bytes_short(least)}."
    if found and most >= least:
        return _result(name, OK, sentence)
    unread = [memory for memory in proof.memory if memory.huge is None]
    if unread or not found:
        reason = unread[0].missing["huge"] if unread else "the service has no process any more."
        return _result(name, UNKNOWN, f"Not known: {reason}")
    return _result(name, DRIFT, f"Only {sentence}")
