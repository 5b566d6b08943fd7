# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decode rate of an instance as it is predicted before a run, which the run then measures.

The run document keeps the prediction beside the samples, so that everybody can see how good predictions are. Nothing
learns from that: the constants of a prediction change only with the collection.
"""

from __future__ import annotations

from ..._host.memory_channels import numbers_of_ccds
from ..._host.memory_speed import load_memory_speed
from ..._models.model_shape import shape_of_model
from ..._notation.numbers import parse_whole_number
from ..._serving.prediction.decode_rate import describe_processor, predict_decode_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..._host.host import Host
    from ..._serving.prediction.decode_rate import DecodeRate
    from ..target.measured_instance import MeasuredInstance

#: The numbers of a predicted rate that the run document keeps.
NUMBERS = ("tokens_per_second", "low", "high", "ceiling", "gbps")


def predict_rates_of_instance(host: Host, target: MeasuredInstance) -> list[dict[str, Any]]:
    """Return the predicted rates of an instance with one stream and with all slots busy, for the run document.

    The list is empty for a model that is in no GGUF file, and where the bandwidth of the memory is unknown.
    """
    model = target.read_gguf_model()
    if model is None:
        return []
    shape = shape_of_model(model)
    threads = parse_whole_number(target.process_argument_value("--threads", "-t")) or len(target.cpus)
    gbps, source = load_memory_speed(host).gbps_for(target.nodes, numbers_of_ccds(host.topology, target.cpus))
    processor = describe_processor(host, target.cpus, threads)
    return [
        prediction_to_record(predict_decode_rate(shape, processor, gbps, source, streams))
        for streams in sorted({1, target.slots})
        if gbps
    ]


def prediction_to_record(rate: DecodeRate) -> dict[str, Any]:
    """Return a predicted rate in the format of the run document."""
    numbers = {name: round(getattr(rate, name), 3) for name in NUMBERS}
    return {"streams": rate.streams, **numbers, "source": rate.source, "arithmetic": rate.arithmetic}
