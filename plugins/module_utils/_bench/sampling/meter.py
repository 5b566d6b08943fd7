# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks an instance all prompts between two looks of the witnesses, for a round of a benchmark or one of its arms."""

from __future__ import annotations

import os
from contextlib import suppress

from ..._errors import BadRequest, TuningError
from ..load import closed_loop, warm_up
from ..load.answer import ask, sample
from ..load.prompts import Prompt
from . import discard_reasons, host_activity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from ..._host.host import Host
    from ..load.answer import Answer, Sample
    from ..load.request import Asked
    from ..target.measured_instance import Target


class Meter:
    """Measures one target. ``anywhere`` is for one whose memory may lie on other nodes than its plan says."""

    def __init__(self, host: Host, target: Target, asked: Asked, clock: Any, anywhere: bool = False) -> None:
        self.host = host
        self.target = target
        self.asked = asked
        self.streams = streams_of(target, asked)
        self.clock = clock
        self.limits = discard_reasons.Limits(None if anywhere else target.nodes)

    def warm_up(self) -> str:
        """Ask until the server keeps an even pace; return a sentence where it never does."""
        first = self.asked.all[0]
        try:
            warm_up.until_stable(lambda: ask(self.target.server, Prompt(first.kind, first.text, warm_up.TOKENS)).rate)
        except TuningError as error:
            if "rates" not in error.details:
                raise
            return str(error)
        return ""

    def measure(
        self,
        where: Mapping[str, Any],
        requests: int = 1,
        settings: str | None = None,
        digest: Callable[[], str] | None = None,
    ) -> tuple[list[Sample], str]:
        """Ask all prompts ``requests`` times; return the samples, and why they are void, an empty text where not.

        ``where`` names round, arm and start. ``settings`` is the digest of all settings of the host, which ``digest``
        has to return afterwards too.
        """
        before = self._look()
        answers: list[Answer] = []
        for dummy in range(requests):
            for prompts in self.asked.prompts.values():
                answers += closed_loop.one_stream(self.target.server, prompts)
        windows, reasons, counted = self._windows(answers)
        after = self._look()
        reasons += discard_reasons.objections(before, after, counted, self.limits)
        if digest and digest() != settings:
            reasons.append("Somebody changed settings of this host while it was measured.")
        why = " ".join(reasons)
        seen = host_activity.witness(self.host.fs, before, after, settings)
        made: list[Sample] = [sample(one, where, seen, why or None) for one in answers]
        return made + [one.sample(where, seen, why or None) for one in windows], why

    def _look(self) -> host_activity.Reading:
        target = self.target
        return host_activity.look(self.host.fs, target.units, target.server, target.mapped, self.clock)

    def _windows(self, answers: list[Answer]) -> tuple[list[closed_loop.Window], list[str], tuple[int, int]]:
        """Ask with several streams; return the windows, what is wrong with them, and all tokens so far."""
        windows: list[closed_loop.Window] = []
        reasons: list[str] = []
        read, made = closed_loop.counted(answers)
        for streams in self.streams:
            for prompts in self.asked.prompts.values():
                by_stream = closed_loop.many_streams(self.target.server, prompts, streams)
                more = closed_loop.counted([one for those in by_stream for one in those])
                read, made = read + more[0], made + more[1]
                try:
                    windows.append(closed_loop.Window(by_stream))
                except TuningError as error:
                    reasons.append(str(error))
        return windows, reasons, (read, made)


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


def step_aside(host: Host, cpus: Collection[int]) -> list[str]:
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
