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
from .._serving.verify import metrics
from . import progress
from .load.request import ROUND_TRIES
from .reports.benchmark_report import BenchmarkResult
from .rounds import schedule
from .run import Run
from .sampling.meter import Meter, parallel_stream_counts
from .target.vllm_instance import find_instance_of_any_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._host.host import Host
    from .load.request import MeasuringRequest


def run_benchmark(
    host: Host, request: MeasuringRequest, report_step: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Measure an instance of this host; return the path of the run document, and the document.

    ``report_step`` is called with a line on each step. After each round the file has all samples so far. BadRequest or
    TuningError where the instance cannot be measured, or its server fails during the run.
    """
    with progress.hold_run_lock(f"the benchmark of {request.instance or 'the only instance'}"):
        return _run_rounds(host, request, report_step, clock)


def _run_rounds(
    host: Host, request: MeasuringRequest, report_step: Callable[[str], None], clock: Any
) -> tuple[str, dict[str, Any]]:
    target = find_instance_of_any_engine(host, request.instance, request.answer_timeout, clock)
    meter = Meter(host, target, request, clock)
    run = Run(host, target, request, schedule.build_benchmark_arms())
    run.leave_cpus_and_measure_bandwidth(report_step)
    report_step("it warms up")
    run.document["remarks"] += filter(None, [meter.warm_up_and_report_instability()])
    order = run.document["plan"]["order"]
    counting = 0
    try:
        while counting < request.rounds and len(order) < ROUND_TRIES * request.rounds:
            report_step(
                f"it measures round {len(order) + 1}; of {request.rounds} that have to count, {counting} are there"
            )
            counting += not _measure_and_append_round(meter, run.document)
            run.save()
    except progress.RunStopped as reason:
        run.document["remarks"].append(f"It ended early: {reason}")
        run.finish_document()
        raise
    run.finish_document()
    _save_memory_time_shares_for_metrics(run.document)
    return run.path, run.document


def _save_memory_time_shares_for_metrics(document: dict[str, Any]) -> None:
    """Save the share of memory time in each step for the metrics of the host, if any round counts."""
    result = BenchmarkResult(document)
    shares = {
        kind: round(ceiling.memory_time_share, 4)
        for kind, ceiling in result.ceilings.items()
        if ceiling.memory_time_share is not None
    }
    if result.counts and shares:
        of_all_instances = {**metrics.load_shares_of_last_benchmark(), document["instance"]: shares}
        textfile.write_file(metrics.BENCHMARK_SHARES, f"{json.dumps(of_all_instances, sort_keys=True)}\n", 0o600)


def describe_planned_benchmark(host: Host, request: MeasuringRequest) -> tuple[str, str]:
    """Return the name of the instance, and a sentence on what would be measured; raises as run_benchmark."""
    target = find_instance_of_any_engine(host, request.instance, request.answer_timeout)
    streams = " and ".join(str(count) for count in [1, *parallel_stream_counts(target, request)])
    kinds = ", ".join(f"{len(prompts)} of {kind}" for kind, prompts in request.prompts.items())
    return target.name, (
        f"{target.name} would be asked prompts in {request.rounds} rounds ({kinds}), with {streams} "
        f"stream{'s' if streams != '1' else ''}."
    )


def _measure_and_append_round(meter: Meter, document: dict[str, Any]) -> str:
    """Measure one round; return why it is discarded, an empty text for a round that counts."""
    order = document["plan"]["order"]
    number = len(order) + 1
    arm = schedule.RUNNING
    order.append(
        {"round": number, "phase": schedule.BENCHMARK, "class": schedule.LIVE, "restart": False, "arms": [arm]}
    )
    samples, discard_reason = meter.measure_samples({"round": number, "arm": arm, "start": 1})
    document["samples"] += samples
    return discard_reason
