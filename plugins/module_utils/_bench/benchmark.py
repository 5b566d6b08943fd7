# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A benchmark: what the running service of an instance does, in rounds that count only where nothing disturbed them.

A round asks every prompt with one stream, and then of each kind with several streams. Between the two readings of a
round the witnesses see everything else that the host did. Nothing is changed on the host but the file of the run.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .._errors import BadRequest, TuningError
from .._io.store import HOME
from . import document as documents
from . import fingerprint, load, memory, progress, schedule, void, warm, witness
from .answer import ask, sample
from .asked import TRIES
from .bandwidth import cache
from .prompts import Prompt
from .target import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from .._host.host import Host
    from .answer import Answer, Sample
    from .asked import Asked
    from .target import Target

FOLDER = f"{HOME}/benchmarks"


def measure(host: Host, asked: Asked, tell: Callable[[str], None], clock: Any = time) -> tuple[str, dict[str, Any]]:
    """Measure an instance of this host; return the file of the run, and its document.

    ``tell`` gets a line on each step. What was measured is in the file after each round. BadRequest or TuningError
    where the instance cannot be measured, or the server fails while it is.
    """
    with progress.alone():
        return _measure(host, asked, tell, clock)


def _measure(host: Host, asked: Asked, tell: Callable[[str], None], clock: Any) -> tuple[str, dict[str, Any]]:
    target = find(host, asked.instance, asked.limit, clock)
    streams = streams_of(target, asked)
    started = _now()
    stamp = started.replace(":", "").replace("-", "")
    output = asked.output or f"{FOLDER}/{target.name}-{stamp}.json"
    if os.path.lexists(output):
        raise BadRequest(f"{output} is there already, and is left as it is: give this run a file of its own.")
    if asked.output is None:
        os.makedirs(FOLDER, 0o700, exist_ok=True)
    shown = fingerprint.of(host, target, asked.all)
    caches = cache(host.topology, target.cpus)
    identity = f"{target.name[:20]}-{stamp}"
    document = documents.new(identity, target.name, started, 0, shown, schedule.running(), caches)
    document["remarks"] += _step_aside(host, target.cpus)
    tell("it measures the bandwidth of the memory")
    _bandwidth(host, target, document)
    bench = _Bench(host, target, asked, streams, document, clock)
    tell("it warms up")
    bench.warm_up()
    order = document["plan"]["order"]
    good = 0
    while good < asked.rounds and len(order) < TRIES * asked.rounds:
        tell(f"it measures round {len(order) + 1}; of {asked.rounds} that have to count, {good} are there")
        good += not bench.round()
        documents.save(output, document)
    try:
        document["steps"] = memory.steps(target, document["samples"])
    except TuningError as error:
        document["remarks"].append(memory.unread(error))
    document["restored"] = fingerprint.settings(host) == shown["settings"]
    document["ended"] = _now()
    documents.save(output, document)
    return output, document


def announced(host: Host, asked: Asked) -> tuple[str, str]:
    """Return the name of the instance that would be measured, and a sentence on how; raises as ``measure`` does."""
    target = find(host, asked.instance, asked.limit)
    streams = " and ".join(str(one) for one in [1, *streams_of(target, asked)])
    kinds = ", ".join(f"{len(those)} of {kind}" for kind, those in asked.prompts.items())
    return target.name, (
        f"{target.name} would be asked prompts in {asked.rounds} rounds ({kinds}), with {streams} "
        f"stream{'s' if streams != '1' else ''}."
    )


def streams_of(target: Target, asked: Asked) -> list[int]:
    """Return the numbers of streams beside one; BadRequest for more than the server takes at once."""
    if asked.streams is None:
        return [target.slots] if target.slots > 1 else []
    if asked.streams and asked.streams[-1] > target.slots:
        raise BadRequest(
            f"{target.name} takes {target.slots} streams at once, and {asked.streams[-1]} are asked for: give it more "
            "slots, or ask with fewer streams."
        )
    return asked.streams


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _bandwidth(host: Host, target: Target, document: dict[str, Any]) -> None:
    found = memory.measure(host, target)
    document["bandwidth"].append(memory.record(found))
    if not found.measured:
        document["remarks"] += found.reasons


def _step_aside(host: Host, cpus: Collection[int]) -> list[str]:
    """Have this program, and all threads that it starts, run where the instance does not compute; return a remark."""
    allowed = os.sched_getaffinity(0)
    free = allowed - set(cpus)
    if not free:
        return ["The prompts were sent from CPUs that the instance computes on, because it has all of them."]
    # A host that cannot be planned has no housekeeping CPUs.
    with suppress(TuningError):
        free = free & set(host.plan.housekeeping) or free
    os.sched_setaffinity(0, free)
    return []


class _Bench:
    """The rounds of one run."""

    def __init__(
        self, host: Host, target: Target, asked: Asked, streams: list[int], document: dict[str, Any], clock: Any
    ) -> None:
        self.host = host
        self.target = target
        self.asked = asked
        self.streams = streams
        self.document = document
        self.clock = clock

    def warm_up(self) -> None:
        """Ask until the server keeps an even pace; where it never does, say so."""
        first = self.asked.all[0]
        try:
            warm.until_stable(lambda: ask(self.target.server, Prompt(first.kind, first.text, warm.TOKENS)).rate)
        except TuningError as error:
            if "rates" not in error.details:
                raise
            self.document["remarks"].append(str(error))

    def round(self) -> str:
        """Measure one round; return why it is void, an empty text where it counts."""
        number = len(self.document["plan"]["order"]) + 1
        self.document["plan"]["order"].append(
            {
                "round": number,
                "phase": schedule.BENCHMARK,
                "class": schedule.LIVE,
                "restart": False,
                "arms": [schedule.RUNNING],
            }
        )
        where = {"round": number, "arm": schedule.RUNNING, "start": 1}
        before = self._look()
        answers: list[Answer] = []
        for prompts in self.asked.prompts.values():
            answers += load.one_stream(self.target.server, prompts)
        windows, reasons, counted = self._windows(answers)
        after = self._look()
        limits = void.Limits(self.target.nodes)
        reasons += void.objections(before, after, counted, limits)
        why = " ".join(reasons)
        seen = witness.witness(self.host.fs, before, after)
        made: list[Sample] = [sample(one, where, seen, why or None) for one in answers]
        made += [one.sample(where, seen, why or None) for one in windows]
        self.document["samples"] += made
        return why

    def _look(self) -> witness.Reading:
        target = self.target
        return witness.look(self.host.fs, target.units, target.server, target.plan["mapped"], self.clock)

    def _windows(self, answers: list[Answer]) -> tuple[list[load.Window], list[str], tuple[int, int]]:
        """Ask with several streams; return the windows, what is wrong with them, and all tokens of this round."""
        windows: list[load.Window] = []
        reasons: list[str] = []
        read, made = load.counted(answers)
        for streams in self.streams:
            for prompts in self.asked.prompts.values():
                by_stream = load.many_streams(self.target.server, prompts, streams)
                more = load.counted([one for those in by_stream for one in those])
                read, made = read + more[0], made + more[1]
                try:
                    windows.append(load.Window(by_stream))
                except TuningError as error:
                    reasons.append(str(error))
        return windows, reasons, (read, made)
