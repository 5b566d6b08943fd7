# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a benchmark: measures the running service of an instance in rounds; a disturbed round does not count.

A round sends every prompt with one stream, and then the prompts of each kind with several streams. The activity of the
host is read before and after each round. A benchmark changes nothing on the host but the file of the run.
"""

from __future__ import annotations

import json
import time

from .._io import textfile
from .._serving.unit.installed import select_instance_and_plan
from .._serving.verify import metrics
from .._serving.verify.baseline import save_baseline
from . import depth_rounds, progress
from .load.request import ROUND_TRIES
from .memory import instance_memory
from .planning.budget import format_seconds
from .planning.round_clock import RoundClock
from .planning.token_times import (
    list_request_seconds,
    predict_token_times,
    token_times_of_answers,
    token_times_of_last_run,
)
from .reports.benchmark_report import BenchmarkResult
from .rounds import schedule
from .run import FOLDER, Run
from .sampling.meter import Meter, parallel_stream_counts
from .target.vllm_instance import find_instance_of_any_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._host.host import Host
    from .load.answer import Answer
    from .load.request import MeasuringRequest
    from .planning.token_times import TokenTimes
    from .target.measured_instance import MeasuredInstance


def run_benchmark(
    host: Host, request: MeasuringRequest, report_step: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Measure an instance of this host; return the path of the run document, and the document.

    ``report_step`` is called with a line on each step. After each round the file has all samples so far. BadRequest or
    TuningError where the instance cannot be measured, or its server fails during the run.
    """
    name = select_instance_and_plan(request.instance, host.fs.root)[0]
    with progress.hold_run_lock(f"the benchmark of {name}"):
        return _run_rounds(host, request, report_step, clock)


def _run_rounds(
    host: Host, request: MeasuringRequest, report_step: Callable[[str], None], clock: Any
) -> tuple[str, dict[str, Any]]:
    target = find_instance_of_any_engine(host, request.instance, request.answer_timeout, clock)
    request.remove_measurements_unsupported_by_api(target.server.api)
    meter = Meter(host, target, request, clock)
    run = Run(host, target, request, schedule.build_arm_as_running(), slo=request.slo)
    run.leave_cpus_and_measure_bandwidth(report_step)
    report_step("it warms up")
    run.document["remarks"] += filter(None, [meter.warm_up_and_report_instability(report_step)])
    times = token_times_of_answers(meter.warm_up_answers)
    round_clock = RoundClock(list_request_seconds(times, request, meter.streams), clock)
    report_step(_describe_duration(request, round_clock.requests_per_round, round_clock.round_seconds, times))
    order = run.document["plan"]["order"]
    counting = 0
    try:
        while counting < request.rounds and len(order) < ROUND_TRIES * request.rounds:
            place = f"round {len(order) + 1}, {counting} of {request.rounds} count"
            target.server.report_answer = _answer_reporter(
                round_clock, place, request.rounds - counting - 1, report_step
            )
            round_clock.begin_round()
            discard_reason = _measure_and_append_round(meter, run.document)
            round_clock.end_round()
            run.save()
            counting += not discard_reason
            if discard_reason:
                report_step(f"round {len(order)} does not count and is repeated: {discard_reason}")
        if counting or request.depths:
            depth_rounds.measure_depths(meter, run, round_clock.round_seconds, report_step)
    except progress.RunStopped as reason:
        run.document["remarks"].append(f"It ended early: {reason}")
        run.finish_document()
        raise
    run.finish_document()
    _save_memory_time_shares_for_metrics(run.document)
    if request.baseline and counting:
        save_baseline(host, target.plan, run.document, run.path)
    return run.path, run.document


def _answer_reporter(
    round_clock: RoundClock, place: str, later_rounds: int, report_step: Callable[[str], None]
) -> Callable[[Answer], None]:
    """Return a function that reports an answer of a round with its rate, and the time until the end of the run."""

    def report_answer(answer: Answer) -> None:
        answered, left = round_clock.add_answer(later_rounds)
        report_step(
            f"{place}; answer {answered} of {round_clock.requests_per_round}: "
            f"{answer.tokens_per_second:.1f} tokens per second; about {format_seconds(left)} left"
        )

    return report_answer


def _describe_duration(request: MeasuringRequest, requests: int, round_seconds: float, times: TokenTimes) -> str:
    """Return the duration of a benchmark in words."""
    duration, contexts = format_seconds(request.rounds * round_seconds), ""
    if request.depths is None:
        contexts = f"; long contexts take at most {depth_rounds.DEFAULT_SHARE:.0%} more"
    elif request.depths:
        reading = format_seconds(request.depths[-1] * times.prompt_ms / 1000)
        contexts = f"; to read contexts of up to {request.depths[-1]} tokens takes about {reading} more"
    return (
        f"{request.rounds} rounds of {requests} requests take about {duration}, and up to {ROUND_TRIES} times as long "
        f"where rounds are disturbed{contexts}"
    )


def _save_memory_time_shares_for_metrics(document: dict[str, Any]) -> None:
    """Save the share of memory time in each step for the metrics of the host, if any round counts."""
    result = BenchmarkResult(document)
    shares = {
        kind: round(ceiling.memory_time_share, 4)
        for (kind, streams, depth), ceiling in result.ceilings.items()
        if ceiling.memory_time_share is not None and (streams, depth) == (1, 0)
    }
    if result.counts and shares:
        of_all_instances = {**metrics.load_shares_of_last_benchmark(), document["instance"]: shares}
        textfile.write_file(metrics.BENCHMARK_SHARES, f"{json.dumps(of_all_instances, sort_keys=True)}\n", 0o600)


def describe_planned_benchmark(host: Host, request: MeasuringRequest) -> tuple[str, str]:
    """Return the name of the instance, and a sentence on what would be measured; raises as run_benchmark."""
    target = find_instance_of_any_engine(host, request.instance, request.answer_timeout)
    request.remove_measurements_unsupported_by_api(target.server.api)
    streams = " and ".join(str(count) for count in [1, *parallel_stream_counts(target, request)])
    kinds = ", ".join(f"{len(prompts)} of {kind}" for kind, prompts in request.prompts.items())
    return target.name, (
        f"{target.name} would be asked prompts in {request.rounds} rounds ({kinds}), with {streams} "
        f"stream{'s' if streams != '1' else ''}. {_predict_duration(host, target, request)}"
    )


def _predict_duration(host: Host, target: MeasuredInstance, request: MeasuringRequest) -> str:
    """Return a sentence on the duration of a benchmark that has not begun."""
    times = token_times_of_last_run(FOLDER, target.name)
    if times is None:
        known = instance_memory.predict_step_bytes_and_bandwidth(host.topology, target)
        times = predict_token_times(*known) if known else None
    if times is None:
        return "How long that takes is known after the warm-up."
    seconds = list_request_seconds(times, request, parallel_stream_counts(target, request))
    return f"By {times.source}, {_describe_duration(request, len(seconds), sum(seconds), times)}."


def _measure_and_append_round(meter: Meter, document: dict[str, Any]) -> str:
    """Measure one round; return why it is discarded, an empty text for a round that counts."""
    planned = schedule.next_benchmark_round(document["plan"]["order"])
    document["plan"]["order"].append(planned)
    samples, discard_reason = meter.measure_samples({"round": planned["round"], "arm": schedule.RUNNING, "start": 1})
    document["samples"] += samples
    return discard_reason
