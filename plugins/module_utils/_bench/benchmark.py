# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A benchmark: the running service of an instance is measured in rounds, which count only if nothing disturbed them.

A round sends every prompt with one stream, and then those of each kind with several streams. The activity of the host
is read before and after a round. Nothing on the host is changed but the file of the run.
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
from .sampling.meter import Meter, stream_counts
from .target.vllm_instance import find_instance_of_any_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._host.host import Host
    from .load.request import MeasuringRequest


def run_benchmark(
    host: Host, asked: MeasuringRequest, tell: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Measure an instance of this host; return the path of the document, and the document.

    ``tell`` is called with a line on each step. The file has all samples after each round. BadRequest or
    TuningError where the instance cannot be measured, or the server fails meanwhile.
    """
    with progress.exclusive_run():
        return _run_rounds(host, asked, tell, clock)


def _run_rounds(
    host: Host, asked: MeasuringRequest, tell: Callable[[str], None], clock: Any
) -> tuple[str, dict[str, Any]]:
    target = find_instance_of_any_engine(host, asked.instance, asked.answer_timeout, clock)
    meter = Meter(host, target, asked, clock)
    run = Run(host, target, asked, schedule.build_benchmark_arms())
    run.prepare(tell)
    tell("it warms up")
    run.document["remarks"] += filter(None, [meter.warm_up()])
    order = run.document["plan"]["order"]
    good = 0
    while good < asked.rounds and len(order) < ROUND_TRIES * asked.rounds:
        tell(f"it measures round {len(order) + 1}; of {asked.rounds} that have to count, {good} are there")
        good += not _measure_round(meter, run.document)
        run.save()
    run.end()
    _save_memory_shares(run.document)
    return run.path, run.document


def _save_memory_shares(document: dict[str, Any]) -> None:
    """Save the memory shares of an instance for the metrics of the host, if the run counts."""
    found = BenchmarkResult(document)
    shares = {kind: round(ceiling.ratio, 4) for kind, ceiling in found.ceilings.items() if ceiling.ratio is not None}
    if found.counts and shares:
        kept = {**metrics.load_benchmark_shares(), document["instance"]: shares}
        textfile.write_file(metrics.BENCHMARK_SHARES, f"{json.dumps(kept, sort_keys=True)}\n", 0o600)


def describe_benchmark(host: Host, asked: MeasuringRequest) -> tuple[str, str]:
    """Return the name of the instance, and a sentence on what would be measured; raises as run_benchmark."""
    target = find_instance_of_any_engine(host, asked.instance, asked.answer_timeout)
    streams = " and ".join(str(count) for count in [1, *stream_counts(target, asked)])
    kinds = ", ".join(f"{len(those)} of {kind}" for kind, those in asked.prompts.items())
    return target.name, (
        f"{target.name} would be asked prompts in {asked.rounds} rounds ({kinds}), with {streams} "
        f"stream{'s' if streams != '1' else ''}."
    )


def _measure_round(meter: Meter, document: dict[str, Any]) -> str:
    """Measure one round; return why it is discarded, an empty text where it counts."""
    order = document["plan"]["order"]
    number = len(order) + 1
    arm = schedule.RUNNING
    order.append(
        {"round": number, "phase": schedule.BENCHMARK, "class": schedule.LIVE, "restart": False, "arms": [arm]}
    )
    samples, why = meter.measure({"round": number, "arm": arm, "start": 1})
    document["samples"] += samples
    return why
