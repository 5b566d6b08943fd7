# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A benchmark: what the running service of an instance does, in rounds that count only where nothing disturbed them.

A round asks every prompt with one stream, and then of each kind with several streams. Between the two readings of a
round the witnesses see everything else that the host did. Nothing is changed on the host but the file of the run.
"""

from __future__ import annotations

import json
import time

from .._io import textfile
from .._serving.verify import metrics
from . import progress
from .load.request import TRIES
from .reports.benchmark_report import Benchmark
from .rounds import schedule
from .run import Run
from .sampling.meter import Meter, streams_of
from .target.vllm_instance import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._host.host import Host
    from .load.request import Asked


def measure(host: Host, asked: Asked, tell: Callable[[str], None], clock: Any = time) -> tuple[str, dict[str, Any]]:
    """Measure an instance of this host; return the file of the run, and its document.

    ``tell`` gets a line on each step. What was measured is in the file after each round. BadRequest or TuningError
    where the instance cannot be measured, or the server fails while it is.
    """
    with progress.alone():
        return _measure(host, asked, tell, clock)


def _measure(host: Host, asked: Asked, tell: Callable[[str], None], clock: Any) -> tuple[str, dict[str, Any]]:
    target = find(host, asked.instance, asked.limit, clock)
    meter = Meter(host, target, asked, clock)
    run = Run(host, target, asked, schedule.running())
    run.prepare(tell)
    tell("it warms up")
    run.document["remarks"] += filter(None, [meter.warm_up()])
    order = run.document["plan"]["order"]
    good = 0
    while good < asked.rounds and len(order) < TRIES * asked.rounds:
        tell(f"it measures round {len(order) + 1}; of {asked.rounds} that have to count, {good} are there")
        good += not _round(meter, run.document)
        run.save()
    run.end()
    _keep(run.document)
    return run.path, run.document


def _keep(document: dict[str, Any]) -> None:
    """Keep what the last run that counts says of an instance and its memory, for the metrics of the host."""
    found = Benchmark(document)
    shares = {kind: round(one.ratio, 4) for kind, one in found.ceilings.items() if one.ratio is not None}
    if found.counts and shares:
        kept = {**metrics.measured(), document["instance"]: shares}
        textfile.write_file(metrics.MEASURED, f"{json.dumps(kept, sort_keys=True)}\n", 0o600)


def announced(host: Host, asked: Asked) -> tuple[str, str]:
    """Return the name of the instance that would be measured, and a sentence on how; raises as ``measure`` does."""
    target = find(host, asked.instance, asked.limit)
    streams = " and ".join(str(one) for one in [1, *streams_of(target, asked)])
    kinds = ", ".join(f"{len(those)} of {kind}" for kind, those in asked.prompts.items())
    return target.name, (
        f"{target.name} would be asked prompts in {asked.rounds} rounds ({kinds}), with {streams} "
        f"stream{'s' if streams != '1' else ''}."
    )


def _round(meter: Meter, document: dict[str, Any]) -> str:
    """Measure one round; return why it is void, an empty text where it counts."""
    order = document["plan"]["order"]
    number = len(order) + 1
    arm = schedule.RUNNING
    order.append(
        {"round": number, "phase": schedule.BENCHMARK, "class": schedule.LIVE, "restart": False, "arms": [arm]}
    )
    samples, why = meter.measure({"round": number, "arm": arm, "start": 1})
    document["samples"] += samples
    return why
