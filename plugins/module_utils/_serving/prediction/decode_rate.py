# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Predicts how many tokens per second a model decodes: a floor, and the time to read its bytes from memory.

Milliseconds of a token = floor + bytes of a token / usable bandwidth. The floor is operations, barriers and computing.
Computing is added to reading, because a core hides only part of it behind the memory: two quantizations of one model
had the same rest beside different reading times.
"""

from __future__ import annotations

from ..._host.memory_speed import MEASURED, PAPER, USUAL_SHARE
from .step_floor import Processor, estimate_computing_ms, estimate_operations_ms, find_core_speed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..._host.host import Host
    from ..._models.model_shape import ModelShape

#: The bandwidth at the ends of the predicted range, as a share of the given bandwidth.
LEAST_SHARES = {PAPER: 0.65 / USUAL_SHARE, MEASURED: 0.85}
LARGEST_SHARES = {PAPER: 0.88 / USUAL_SHARE, MEASURED: 1.05}
#: The floor of the slowest and of the fastest decoding as a multiple of the expected floor: engines fuse some
#: operations into one, up to half of them, and other programs of the host hold threads up at barriers.
FLOOR_RANGE = (1.5, 0.6)
#: The share of the usable bandwidth where half of all reads come over the links of two sockets: 3 links with 64 GB/s in
#: each direction at 0.78 carry the reads of 600 of 921.6 GB/s on two sockets of Zen 4, which is 0.65 instead of 0.82.
FAR_MEMORY_SHARE = 0.8
#: Memory policies by which the threads of a socket read only memory of that socket.
LOCAL_POLICIES = ("rows", "mirror")
#: The largest number of streams that is tried for a rate of each stream.
MOST_STREAMS = 256


class DecodeRate:
    """A predicted rate of decoding, with the numbers that it is made of.

    ``tokens_per_second``, ``low`` and ``high`` are for each stream, and ``total`` for all ``streams`` together.
    ``ceiling`` is the rate that the whole bandwidth alone would allow. ``bytes_per_token`` are the bytes that one step
    reads, and ``gbps`` is the bandwidth, ``source`` "measured" or "paper". ``arithmetic`` is a sentence of numbers.
    """

    __slots__ = (
        *("arithmetic", "bytes_per_token", "ceiling", "floor_ms", "gbps", "high", "low", "memory_ms", "source"),
        *("streams", "tokens_per_second"),
    )

    def __init__(self, floor_ms: float, step_bytes: float, gbps: float, source: str, streams: int, far: bool) -> None:
        share = FAR_MEMORY_SHARE if far else 1.0
        usable = share * gbps
        self.floor_ms = floor_ms
        self.memory_ms = step_bytes / usable / 1e6
        self.bytes_per_token = step_bytes
        self.gbps = gbps
        self.source = source
        self.streams = streams
        self.tokens_per_second = 1000 / (floor_ms + self.memory_ms)
        slow, fast = FLOOR_RANGE
        self.low = 1000 / (slow * floor_ms + step_bytes / (LEAST_SHARES[source] * share * gbps) / 1e6)
        self.high = 1000 / (fast * floor_ms + step_bytes / (LARGEST_SHARES[source] * share * gbps) / 1e6)
        self.ceiling = 1e9 * gbps / step_bytes / (USUAL_SHARE if source == PAPER else 1.0)
        self.arithmetic = (
            f"{step_bytes / 1e9:.2f} GB / {usable:.0f} GB/s ({source}) = {self.memory_ms:.1f} ms, and {floor_ms:.1f} "
            f"ms of operations, barriers and computing: {self.memory_ms + floor_ms:.1f} ms"
        )

    @property
    def total(self) -> float:
        """The tokens per second of all streams together."""
        return self.streams * self.tokens_per_second

    def describe(self) -> str:
        """Return a sentence with the rate of one user, its range, its ceiling, and how they are computed."""
        return (
            f"Predicted are {self.tokens_per_second:.1f} tokens per second for one user, {self.low:.1f} to "
            f"{self.high:.1f}, and at most {self.ceiling:.1f} by bandwidth alone: {self.arithmetic}."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the prediction as plain data, with rounded numbers."""
        return {
            key: round(value, 3) if isinstance(value, float) else value
            for key, value in ((key, getattr(self, key)) for key in sorted(self.__slots__))
        }


def predict_decode_rate(
    shape: ModelShape,
    threads: int | Processor,
    gbps: float,
    source: str,
    streams: int = 1,
    context: int = 0,
) -> DecodeRate:
    """Return the predicted rate of a model that some threads decode for some streams.

    ``gbps`` is the bandwidth of the memory nodes in GB/s, measured or USUAL_SHARE of the data sheet's, as ``source``
    says. Each stream has ``context`` tokens in its KV cache, and also reads these.
    """
    processor = threads if isinstance(threads, Processor) else Processor(threads)
    floor_ms = estimate_operations_ms(shape, processor) + estimate_computing_ms(shape, processor, streams)
    step_bytes = shape.bytes_read_by_streams(streams) + streams * context * shape.kv_bytes_per_token
    return DecodeRate(floor_ms, step_bytes, gbps, source, streams, processor.reads_far_memory)


def count_streams_at_rate(
    shape: ModelShape, processor: int | Processor, gbps: float, source: str, rate: float, context: int = 0
) -> int:
    """Return how many streams get at least ``rate`` tokens per second each; 0 where not even one does."""
    low, high = 0, MOST_STREAMS
    # More streams never make each of them faster, so the number is found by halving.
    while low < high:
        middle = (low + high + 1) // 2
        predicted = predict_decode_rate(shape, processor, gbps, source, middle, context)
        low, high = (middle, high) if predicted.tokens_per_second >= rate else (low, middle - 1)
    return low


def describe_processor(
    host: Host, cpus: tuple[int, ...], threads: int, is_local: bool = False, keep_memory_busy: bool = False
) -> Processor:
    """Return the threads on some CPUs of a host; ``is_local`` says that threads read only memory of their socket.

    Threads that ``keep_memory_busy`` wait for the memory as long as a thread on each core would: 48 and 96 threads of a
    9655 decoded a model with 21 GB per token equally fast. So all cores count for the part that no memory hides.
    """
    top = host.topology
    members = set(cpus)
    cores = sum(1 for core in top.cores if members.intersection(core))
    sockets = sum(1 for socket_cpus in top.sockets.values() if members.intersection(socket_cpus)) or 1
    speed = find_core_speed(top.family, top.model_number)
    computing = cores if keep_memory_busy else min(cores, threads)
    return Processor(threads, computing, sockets, speed, False if is_local else None)


def predict_plan_rate(host: Host, plan: Any) -> DecodeRate | None:
    """Return the rate of one stream of a planned instance without speculation; None where its model is not known.

    ``plan`` is an InstancePlan. Its option ``bandwidth`` counts as measured.
    """
    if plan.shape is None:
        return None
    is_local = plan.placement.policy in LOCAL_POLICIES
    is_chosen = any(choice.option == "threads" for choice in plan.default_choices)
    processor = describe_processor(host, plan.placement.busy_cpus, plan.parameters["threads"], is_local, is_chosen)
    if plan.options.bandwidth:
        return predict_decode_rate(plan.shape, processor, plan.options.bandwidth, MEASURED)
    from ..._host.memory_channels import numbers_of_ccds

    ccds = numbers_of_ccds(host.topology, plan.placement.busy_cpus)
    return predict_decode_rate(plan.shape, processor, *host.memory_speed.gbps_for(plan.placement.nodes, ccds))
