# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine as a sum of sockets, and what it serves of a model: instances, users at a rate, and tokens per second.

An instance has one socket where the model fits into its memory, or else all sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import MEASURED, PAPER
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.decode_rate import (
    count_streams_at_rate,
    predict_decode_rate,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.step_floor import Processor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import ModelShape
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import CapacityRequest

#: The share of the memory of a socket that weights and KV caches may fill.
USABLE_MEMORY = 0.9
#: Threads that are tried for decoding, as shares of the cores: with few active parameters, fewer threads are faster.
THREAD_SHARES = (1.0, 0.5, 0.25)


class MachineSocket:
    """A socket: its memory in bytes, its CCDs and threads, and the GB/s that it reads with their source."""

    __slots__ = ("bytes", "ccds", "gbps", "processor", "source")

    def __init__(self, size: int, ccds: int, processor: Processor, gbps: float, source: str) -> None:
        self.bytes = size
        self.ccds = ccds
        self.processor = processor
        self.gbps = gbps
        self.source = source


class Machine:
    """A host of the fleet, or a machine of which only the data sheet is known.

    ``watts`` are those of all processors by the data sheet, None where not known. ``note`` is a remark for people.
    """

    __slots__ = ("name", "note", "sockets", "watts")

    def __init__(self, name: str, sockets: Sequence[MachineSocket], watts: float | None = None, note: str = "") -> None:
        self.name = name
        self.sockets = list(sockets)
        self.watts = watts
        self.note = note

    @property
    def gbps(self) -> float:
        """The GB/s that all sockets read together."""
        return sum(socket.gbps for socket in self.sockets)

    @property
    def bandwidth_source(self) -> str:
        """The source of the bandwidth: "measured" only where that of each socket was measured."""
        return join_bandwidth_sources([socket.source for socket in self.sockets])

    @property
    def memory_bytes(self) -> int:
        """The memory of all sockets."""
        return sum(socket.bytes for socket in self.sockets)


class Service:
    """What a machine serves of a model: ``instances``, the ``users`` of all of them, and tokens per second of a user.

    ``tokens_per_second``, ``low`` and ``high`` are of a user who is alone. ``sockets`` is the number of an instance's
    sockets. ``source`` says of the bandwidth whether it was measured.
    """

    __slots__ = ("high", "instances", "low", "sockets", "source", "tokens_per_second", "users")

    def __init__(self, instances: int, sockets: int, users: int, rate: Any) -> None:
        self.instances = instances
        self.sockets = sockets
        self.users = users
        self.tokens_per_second = float(rate.tokens_per_second)
        self.low = float(rate.low)
        self.high = float(rate.high)
        self.source = str(rate.source)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            **{name: getattr(self, name) for name in ("instances", "sockets", "users", "source")},
            **{name: round(getattr(self, name), 2) for name in ("tokens_per_second", "low", "high")},
        }


def join_bandwidth_sources(sources: Sequence[str]) -> str:
    """Return "measured" where all of at least one source are that, else "paper"."""
    return MEASURED if sources and set(sources) == {MEASURED} else PAPER


def machine_of_facts(name: str, facts: Mapping[str, Any]) -> Machine:
    """Return the machine that the facts of a host describe."""
    return Machine(
        name,
        [
            MachineSocket(
                socket["bytes"], socket["ccds"], Processor(**socket["processor"]), socket["gbps"], socket["source"]
            )
            for socket in facts["sockets"]
        ],
    )


def plan_service(machine: Machine, shape: ModelShape, request: CapacityRequest) -> Service | None:
    """Return what a machine serves of a model if it serves nothing else; None where the model does not fit."""
    fitting = [socket for socket in machine.sockets if _fits_in_usable_memory(socket.bytes, shape)]
    if fitting:
        services = [_serve_on_sockets([socket], shape, request) for socket in fitting]
        users = sum(service.users for service in services)
        slowest = min(services, key=lambda service: service.tokens_per_second)
        slowest.instances, slowest.users = len(services), users
        return slowest
    return (
        _serve_on_sockets(machine.sockets, shape, request)
        if _fits_in_usable_memory(machine.memory_bytes, shape)
        else None
    )


def _fits_in_usable_memory(size: int, shape: ModelShape) -> bool:
    return size * USABLE_MEMORY >= shape.file_bytes


def _serve_on_sockets(sockets: Sequence[MachineSocket], shape: ModelShape, request: CapacityRequest) -> Service:
    """Return the service of one instance on some sockets; KV caches limit its users too."""
    gbps, source = sum(socket.gbps for socket in sockets), join_bandwidth_sources([socket.source for socket in sockets])
    processor = choose_decode_threads(shape, join_processors([socket.processor for socket in sockets]), gbps, source)
    rate = predict_decode_rate(shape, processor, gbps, source, context=request.context)
    users = count_streams_at_rate(shape, processor, gbps, source, request.rate, request.context)
    return Service(1, len(sockets), min(users, count_users_in_memory(sockets, shape, request)), rate)


def count_users_in_memory(sockets: Sequence[MachineSocket], shape: ModelShape, request: CapacityRequest) -> int:
    """Return for how many users the KV caches fit beside the weights."""
    left = USABLE_MEMORY * sum(socket.bytes for socket in sockets) - shape.file_bytes
    return int(left / max(1.0, request.context * shape.kv_bytes_per_token))


def join_processors(processors: Sequence[Processor]) -> Processor:
    """Return the threads of several sockets as those of one instance."""
    first = processors[0]
    return Processor(
        sum(processor.threads for processor in processors),
        sum(processor.cores for processor in processors),
        len(processors),
        first.core_speed,
    )


def choose_decode_threads(shape: ModelShape, processor: Processor, gbps: float, source: str) -> Processor:
    """Return the threads of a processor with the highest predicted rate of a model."""
    tried = [
        Processor(max(1, int(share * processor.cores)), None, processor.sockets, processor.core_speed)
        for share in THREAD_SHARES
    ]
    return max(tried, key=lambda part: predict_decode_rate(shape, part, gbps, source).tokens_per_second)
