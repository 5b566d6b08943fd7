# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends all prompts to an instance between two readings of the host, for a round of a benchmark or one of its arms."""

from __future__ import annotations

import os
from contextlib import suppress

from ..._errors import BadRequest, TuningError
from ..load import closed_loop, warm_up
from ..load.answer import build_sample, fetch_answer
from ..load.prompts import Prompt
from . import discard_reasons, host_activity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from ..._host.host import Host
    from ..load.answer import Answer, Sample
    from ..load.request import MeasuringRequest
    from ..target.measured_instance import MeasuredInstance


class Meter:
    """Measures one instance. ``anywhere`` is for an instance whose memory may be on other nodes than planned."""

    def __init__(
        self, host: Host, target: MeasuredInstance, asked: MeasuringRequest, clock: Any, anywhere: bool = False
    ) -> None:
        self.host = host
        self.target = target
        self.asked = asked
        self.streams = stream_counts(target, asked)
        self.clock = clock
        self.limits = discard_reasons.DiscardLimits(None if anywhere else target.nodes)

    def warm_up(self) -> str:
        """Send requests until the token rate is stable; return the message of the failure where it never is."""
        first = self.asked.all_prompts[0]
        try:
            warm_up.warm_up_until_stable(
                lambda: (
                    fetch_answer(
                        self.target.server, Prompt(first.kind, first.text, warm_up.WARM_UP_TOKENS)
                    ).tokens_per_second
                )
            )
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
        """Send all prompts ``requests`` times; return the samples, and why they are discarded, an empty text where not.

        ``where`` has round, arm and start. ``settings`` is the digest of all settings of the host; ``digest``
        computes it again after the samples, and both must be equal.
        """
        before = self._read_host()
        answers: list[Answer] = []
        for dummy in range(requests):
            for prompts in self.asked.prompts.values():
                answers += closed_loop.answer_in_turn(self.target.server, prompts)
        windows, reasons, counted = self._measure_windows(answers)
        after = self._read_host()
        reasons += discard_reasons.discard_reasons(before, after, counted, self.limits)
        if digest and digest() != settings:
            reasons.append("Somebody changed settings of this host while it was measured.")
        why = " ".join(reasons)
        seen = host_activity.summarize_activity(self.host.fs, before, after, settings)
        made: list[Sample] = [build_sample(answer, where, seen, why or None) for answer in answers]
        return made + [window.to_sample(where, seen, why or None) for window in windows], why

    def _read_host(self) -> host_activity.HostReading:
        target = self.target
        return host_activity.read_host_activity(self.host.fs, target.units, target.server, target.mapped, self.clock)

    def _measure_windows(
        self, answers: list[Answer]
    ) -> tuple[list[closed_loop.BusyWindow], list[str], tuple[int, int]]:
        """Measure several streams; return their windows, the errors, and the token counts of all answers so far."""
        windows: list[closed_loop.BusyWindow] = []
        reasons: list[str] = []
        read, made = closed_loop.count_tokens(answers)
        for streams in self.streams:
            for prompts in self.asked.prompts.values():
                by_stream = closed_loop.answer_in_parallel(self.target.server, prompts, streams)
                more = closed_loop.count_tokens([answer for those in by_stream for answer in those])
                read, made = read + more[0], made + more[1]
                try:
                    windows.append(closed_loop.BusyWindow(by_stream))
                except TuningError as error:
                    reasons.append(str(error))
        return windows, reasons, (read, made)


def stream_counts(target: MeasuredInstance, asked: MeasuringRequest) -> list[int]:
    """Return the numbers of parallel streams beside 1; BadRequest for more than the server has slots."""
    if asked.streams is None:
        return [target.slots] if target.slots > 1 else []
    if asked.streams and asked.streams[-1] > target.slots:
        raise BadRequest(
            f"{target.name} takes {target.slots} streams at once, and {asked.streams[-1]} are asked for: give it more "
            "slots, or ask with fewer streams."
        )
    return asked.streams


def leave_cpus_of_instance(host: Host, cpus: Collection[int]) -> list[str]:
    """Move this process to CPUs that the instance does not use; return a remark if there are none."""
    allowed = os.sched_getaffinity(0)
    free = allowed - set(cpus)
    if not free:
        return ["The prompts were sent from CPUs that the instance computes on, because it has all of them."]
    # A host that cannot be planned has no housekeeping CPUs; then all free CPUs may be used.
    with suppress(TuningError):
        free = free & set(host.plan.housekeeping) or free
    os.sched_setaffinity(0, free)
    return []
