# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures an arm in a round: sends all prompts to an instance between two readings of the host."""

from __future__ import annotations

import os
from contextlib import suppress

from ..._errors import BadRequest, TuningError
from ..load import closed_loop, warm_up
from ..load.answer import build_one_stream_sample, fetch_answer
from ..load.prompts import Prompt
from . import discard_reasons, host_activity
from .energy import EnergyRecorder
from .other_programs import InstanceCpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from ..._host.host import Host
    from ..load.answer import Answer, Sample
    from ..load.request import MeasuringRequest
    from ..target.measured_instance import MeasuredInstance


class Meter:
    """Measures one instance; with ``anywhere`` its memory may be on other nodes than planned.

    ``unchanged`` is the instance before any arm changed it: other programs count on its CPUs in all arms alike.
    """

    def __init__(
        self,
        host: Host,
        target: MeasuredInstance,
        request: MeasuringRequest,
        clock: Any,
        anywhere: bool = False,
        unchanged: MeasuredInstance | None = None,
    ) -> None:
        self.host = host
        self.target = target
        self.request = request
        self.streams = parallel_stream_counts(target, request)
        self.clock = clock
        #: The answers of the last warm-up.
        self.warm_up_answers: list[Answer] = []
        self.planned_nodes = None if anywhere else target.nodes
        self.cpus = InstanceCpus(host.topology, [unchanged or target, target])

    def warm_up_and_report_instability(self, report_step: Callable[[str], None] = lambda line: None) -> str:
        """Send requests until the token rate is stable; return an empty text, or why the rate is not stable.

        The requests have the shortest prompt, and at most as many tokens as the run asks for. ``report_step`` is called
        with a line on each answer, and ``warm_up_answers`` gets the answer.
        """
        shortest = min(self.request.all_prompts, key=lambda prompt: len(prompt.text))
        short = Prompt(shortest.kind, shortest.text, min(warm_up.WARM_UP_TOKENS, shortest.tokens))
        self.warm_up_answers = []

        def measure_rate() -> float:
            answer = fetch_answer(self.target.server, short)
            self.warm_up_answers.append(answer)
            place = f"answer {len(self.warm_up_answers)} of at most {warm_up.MAX_REQUESTS}"
            report_step(f"warm-up, {place}: {answer.tokens_per_second:.1f} tokens per second")
            return answer.tokens_per_second

        try:
            warm_up.warm_up_until_stable(measure_rate)
        except TuningError as error:
            if "rates" not in error.details:
                raise
            return str(error)
        return ""

    def measure_samples(
        self,
        place: Mapping[str, Any],
        requests: int = 1,
        settings_digest: str | None = None,
        read_settings_digest: Callable[[], str] | None = None,
    ) -> tuple[list[Sample], str]:
        """Send all prompts ``requests`` times; return the samples, and why they are discarded (an empty text if not).

        ``place`` has round, arm and start. ``settings_digest`` is the digest of all settings of the host, and
        ``read_settings_digest`` reads it again after the samples. The samples are discarded where both differ.
        """
        before = self._read_host_activity()
        answers: list[Answer] = []
        with EnergyRecorder(self.host.fs, self.cpus.sockets, self.clock) as energy:
            for dummy in range(requests):
                for prompts in self.request.prompts.values():
                    answers += closed_loop.fetch_answers_sequentially(self.target.server, prompts)
            windows, reasons, counted = self._measure_parallel_streams(answers)
        after = self._read_host_activity()
        activity = host_activity.activity_between_readings(
            self.host.fs, before, after, self.cpus, energy, counted[1], settings_digest
        )
        reasons += discard_reasons.discard_reasons(before, after, counted, activity, self.planned_nodes)
        if read_settings_digest and read_settings_digest() != settings_digest:
            reasons.append("Somebody changed settings of this host while it was measured.")
        reason = " ".join(reasons)
        samples: list[Sample] = [build_one_stream_sample(answer, place, activity, reason or None) for answer in answers]
        return samples + [window.to_sample(place, activity, reason or None) for window in windows], reason

    def _read_host_activity(self) -> host_activity.HostReading:
        target = self.target
        return host_activity.read_host_activity(self.host.fs, target.units, target.server, target.mapped, self.clock)

    def _measure_parallel_streams(
        self, answers: list[Answer]
    ) -> tuple[list[closed_loop.BusyWindow], list[str], tuple[int, int]]:
        """Measure with several streams; return windows, messages on invalid windows, and read and generated tokens.

        ``answers`` are the answers with one stream, whose tokens are included.
        """
        windows: list[closed_loop.BusyWindow] = []
        reasons: list[str] = []
        read, generated = closed_loop.count_prompt_and_output_tokens(answers)
        for streams in self.streams:
            for prompts in self.request.prompts.values():
                by_stream = closed_loop.fetch_answers_in_parallel(self.target.server, prompts, streams)
                counts = closed_loop.count_prompt_and_output_tokens(
                    [answer for stream in by_stream for answer in stream]
                )
                read, generated = read + counts[0], generated + counts[1]
                try:
                    windows.append(closed_loop.BusyWindow(by_stream))
                except TuningError as error:
                    reasons.append(str(error))
        return windows, reasons, (read, generated)


def parallel_stream_counts(target: MeasuredInstance, request: MeasuringRequest) -> list[int]:
    """Return the numbers of parallel streams to measure after one stream; BadRequest for more streams than slots."""
    if request.streams is None:
        return [target.slots] if target.slots > 1 else []
    if request.streams and request.streams[-1] > target.slots:
        raise BadRequest(
            f"{target.name} takes {target.slots} streams at once, and {request.streams[-1]} are asked for: give it "
            "more slots, or ask with fewer streams."
        )
    return request.streams


def move_off_instance_cpus(host: Host, cpus: Collection[int]) -> list[str]:
    """Move this process to CPUs that the instance does not use; return a remark where all CPUs are used."""
    allowed = os.sched_getaffinity(0)
    free = allowed - set(cpus)
    if not free:
        return ["The prompts were sent from CPUs that the instance computes on, because it has all of them."]
    # A host without a valid plan has no housekeeping CPUs; this process uses all free CPUs then.
    with suppress(TuningError):
        free = free & set(host.plan.housekeeping) or free
    os.sched_setaffinity(0, free)
    return []
