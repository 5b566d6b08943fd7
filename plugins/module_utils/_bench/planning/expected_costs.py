# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What starts and passes of an instance probably cost, before a run has measured them.

The last run of the instance has recorded its costs. Without one they are predicted from the times of tokens and from
the size of the model.
"""

from __future__ import annotations

import os

from ..load.warm_up import STABLE_RATES, WARM_UP_TOKENS
from ..memory import instance_memory
from .costs import Costs, costs_of_plan
from .last_runs import load_newest_documents
from .token_times import list_request_seconds, predict_token_times, token_times_of_last_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..load.request import MeasuringRequest
    from ..target.measured_instance import MeasuredInstance

#: Bytes per second with which a model is usually read from its disk, and seconds until a server has begun.
USUAL_DISK_RATE, SERVER_BEGIN_S = 2e9, 5.0


def find_expected_costs(
    folder: str, host: Host, target: MeasuredInstance, request: MeasuringRequest, streams: Sequence[int]
) -> tuple[Costs, str] | None:
    """Return the expected costs, and where they are from as text; None where nothing is known of the instance.

    ``folder`` has the documents of runs, and ``streams`` are the numbers of streams that are measured beside one.
    """
    recorded = _costs_of_last_run(folder, target.name)
    if recorded:
        return recorded
    times = token_times_of_last_run(folder, target.name)
    if times is None:
        known = instance_memory.predict_step_bytes_and_bandwidth(host.topology, target)
        times = predict_token_times(*known) if known else None
    if times is None:
        return None
    model_bytes = sum(os.path.getsize(file) for file in target.mapped if os.path.exists(file))
    warm_up_s = STABLE_RATES * WARM_UP_TOKENS * times.output_ms / 1000
    start_s = SERVER_BEGIN_S + model_bytes / USUAL_DISK_RATE + warm_up_s
    pass_s = sum(list_request_seconds(times, request, streams))
    return Costs(start_s, pass_s), f"predicted from {times.source}"


def _costs_of_last_run(folder: str, instance: str) -> tuple[Costs, str] | None:
    """Return the costs that the newest run of an instance has recorded, and which run it was."""
    for dummy, document in load_newest_documents(folder, instance):
        costs = costs_of_plan(document["plan"])
        if costs:
            return costs, f"as in the run of {document['started']}"
    return None
