# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures an arm in a round: sends all prompts to an instance between two readings of the host."""

from __future__ import annotations

import os
from contextlib import suppress

from ..._errors import TuningError
from ..load import warm_up
from ..load.answer import fetch_answer
from ..load.load_pass import LoadPass
from ..load.prompts import Prompt
from . import discard_reasons, host_activity
from .energy import EnergyRecorder
from .other_programs import InstanceCpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
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
        load = LoadPass(self.target.server, self.request)
        return self._send_load_between_host_readings(
            load,
            lambda: load.send_all_prompts(requests, self.streams, str(place["round"])),
            place,
            settings_digest,
            read_settings_digest,
        )

    def measure_samples_at_depth(self, place: Mapping[str, Any], context: Sequence[int]) -> tuple[list[Sample], str]:
        """Send a prompt of each kind after a context of these token ids; return as ``measure_samples`` does.

        TuningError where the server does not keep the context in its prefix cache.
        """
        load = LoadPass(self.target.server, self.request)
        return self._send_load_between_host_readings(load, lambda: load.send_at_depth(context), place)

    def _send_load_between_host_readings(
        self,
        load: LoadPass,
        send: Callable[[], None],
        place: Mapping[str, Any],
        settings_digest: str | None = None,
        read_settings_digest: Callable[[], str] | None = None,
    ) -> tuple[list[Sample], str]:
        """Read the host, ``send`` the load, and read the host again; return the samples, and why they are discarded."""
        before = self._read_host_activity()
        with EnergyRecorder(self.host.fs, self.cpus.sockets, self.clock) as energy:
            send()
        after = self._read_host_activity()
        activity = host_activity.activity_between_readings(
            self.host.fs, before, after, self.cpus, energy, load.generated, settings_digest
        )
        counted = load.read, load.generated
        reasons = load.reasons + discard_reasons.discard_reasons(before, after, counted, activity, self.planned_nodes)
        if read_settings_digest and read_settings_digest() != settings_digest:
            reasons.append("Somebody changed settings of this host while it was measured.")
        reason = " ".join(reasons)
        return load.build_samples(place, activity, reason or None), reason

    def _read_host_activity(self) -> host_activity.HostReading:
        target = self.target
        return host_activity.read_host_activity(self.host.fs, target.units, target.server, target.mapped, self.clock)


def parallel_stream_counts(target: MeasuredInstance, request: MeasuringRequest) -> list[int]:
    """Return the numbers of parallel streams to measure after one stream; more streams than slots wait in turn."""
    if request.streams is None:
        return [target.slots] if target.slots > 1 else []
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
