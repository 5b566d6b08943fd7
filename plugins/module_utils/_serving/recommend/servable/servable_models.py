# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds which models of the catalogue a host can serve, how fast each is predicted to be, and for how many users.

No model file is needed: the catalogue states the numbers of each model. A model gets one socket where it fits, with a
copy on each socket; only a larger one gets all sockets.
"""

from __future__ import annotations

import math

from ...._errors import BadRequest
from ...._host.memory_channels import numbers_of_ccds
from ...._models.model_shape import shape_of_catalogue_entry
from ...._notation.sizes import UNITS, format_bytes_short
from ...plan import cpu_assignment
from ...prediction.decode_rate import count_streams_at_rate, describe_processor, predict_decode_rate
from .speculation_gain import predict_speculation_gains

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ...._host.host import Host
    from ...._host.memory_speed import MemorySpeed
    from ...._models.model_shape import ModelShape
    from ...plan.memory.free_memory import FreeMemory
    from ...prediction.decode_rate import DecodeRate

#: Bytes of a server beside weights and KV cache. Compute buffers of a 70B take 0.7 GiB.
OTHER_BYTES = UNITS["GiB"]
#: The smallest context of a slot that is worth serving, in tokens.
SMALLEST_CONTEXT = 4096


class WantedService:
    """What the models shall give: tokens per second of each user, and the tokens in a user's conversation."""

    __slots__ = ("context", "rate")

    def __init__(self, rate: float, context: int) -> None:
        if rate <= 0:
            raise BadRequest(f"rate is {rate:g}; say the tokens per second that each user shall get, such as 10.")
        if context < 1:
            raise BadRequest(f"context is {context}; say the tokens of a user's conversation, such as 8192.")
        self.rate = rate
        self.context = context


class ServingPlace:
    """A part of the host on which an instance would decode: a socket, or all sockets.

    ``bytes`` are free there, and ``gbps`` is the bandwidth, ``source`` "measured" or "paper". ``socket_bytes`` are the
    free bytes of each socket, for a place on one socket.
    """

    def __init__(
        self, host: Host, free: FreeMemory, speed: MemorySpeed, cpus: Sequence[int], socket_bytes: Sequence[int] = ()
    ) -> None:
        top = host.topology
        self.cpus = tuple(cpus)
        self.nodes = cpu_assignment.memory_nodes_of_cpus(host, cpus)
        self.bytes = free.count_free_bytes(self.nodes, even=len(self.nodes) > 1)
        self.socket_bytes = list(socket_bytes) or [self.bytes]
        cores = sum(1 for core in top.cores if set(core).intersection(cpus))
        self.processor = describe_processor(host, self.cpus, cores)
        self.gbps, self.source = speed.gbps_for(self.nodes, numbers_of_ccds(top, self.cpus))

    def count_copies(self, needed_bytes: float) -> int:
        """Return on how many sockets a copy fits; for a place of all sockets, 1 or 0."""
        return sum(1 for free_bytes in self.socket_bytes if needed_bytes <= free_bytes)


def list_serving_places(host: Host, free: FreeMemory, speed: MemorySpeed) -> list[ServingPlace]:
    """Return the places to try for a model, in this order: the socket with the most free memory, and all sockets."""
    housekeeping = set(host.plan.housekeeping)
    computing = [
        [cpu for cpu in cpus if cpu not in housekeeping] or list(cpus)
        for dummy, cpus in sorted(host.topology.sockets.items())
    ]
    sockets = [ServingPlace(host, free, speed, cpus) for cpus in computing]
    best = max(sockets, key=lambda place: place.bytes)
    best.socket_bytes = [place.bytes for place in sockets]
    if len(sockets) == 1:
        return [best]
    return [best, ServingPlace(host, free, speed, [cpu for cpus in computing for cpu in cpus])]


class ServableModel:
    """A model of the catalogue on a host: its memory, rate and users where it fits, and else the ``reason``.

    ``copies`` is the number of instances, one on each socket. ``context`` is the longest context of one user, ``users``
    how many get the wanted rate. ``gains`` are the least and the largest factor of speculation by ``guesser``, None
    without a draft in the catalogue.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.name = str(entry["name"])
        self.entry = entry
        self.shape: ModelShape = shape_of_catalogue_entry(self.name, entry)
        self.quality: Mapping[str, Any] = entry.get("quality") or {}
        self.reason = ""
        self.place: ServingPlace | None = None
        self.rate: DecodeRate | None = None
        self.copies = self.context = self.users = 0
        self.guesser = ""
        self.gains: tuple[float, float] | None = None

    @property
    def fits_in_memory(self) -> bool:
        """Whether the host has the memory for the model."""
        return self.rate is not None

    @property
    def benchmark(self) -> str:
        """The benchmark of the public score; empty without a score. What follows a comma says how it was found."""
        return str(self.quality.get("name") or "").partition(",")[0] if "score" in self.quality else ""

    @property
    def effective_parameters(self) -> float:
        """The parameters of a dense model of about the same quality, by rule of thumb: sqrt(all x active)."""
        return math.sqrt(self.shape.parameters * self.shape.active_parameters)

    def bytes_needed(self, context_tokens: float) -> float:
        """Return the bytes of an instance whose users have so many tokens in all."""
        return self.shape.file_bytes + OTHER_BYTES + context_tokens * self.shape.kv_bytes_per_token

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain data for the result of a module."""
        return {
            "name": self.name,
            "fits": self.fits_in_memory,
            "reason": self.reason,
            "quantization": self.shape.quantization,
            "bytes": round(self.bytes_needed(self.context)) if self.fits_in_memory else None,
            "copies": self.copies,
            "context": self.context,
            "users": self.users,
            "rate": self.rate.to_dict() if self.rate else None,
            "speculation": [round(gain, 2) for gain in self.gains] if self.gains else None,
            "guesser": self.guesser,
            "quality": dict(self.quality),
            "fetched": bool(self.entry.get("fetched")),
        }


def find_servable_models(
    entries: Sequence[Mapping[str, Any]], places: Sequence[ServingPlace], wanted: WantedService
) -> list[ServableModel]:
    """Return all models of the catalogue: those that fit, the best first, and then those that do not fit."""
    models = [ServableModel(entry) for entry in entries]
    shapes = {model.name: model.shape for model in models}
    for model in models:
        _set_place(model, places)
        if model.place:
            _set_predictions(model, model.place, wanted)
            _set_speculation(model, model.place, shapes)
    return sort_best_first(models, wanted)


def sort_best_first(models: Sequence[ServableModel], wanted: WantedService) -> list[ServableModel]:
    """Return the models in the order of a recommendation.

    First those that give the wanted rate, then slower ones, then those that do not fit. Among these, models with a
    score of the benchmark that most models have come first, by that score; the others follow by their effective
    parameters, and equals by their rate.
    """
    benchmark = most_common_benchmark(models)

    def place(model: ServableModel) -> tuple[object, ...]:
        score = model.quality.get("score") if benchmark and model.benchmark == benchmark else None
        rate = model.rate.tokens_per_second if model.rate else 0.0
        return (
            not model.fits_in_memory,
            rate < wanted.rate,
            score is None,
            -(score or 0.0),
            -round(model.effective_parameters / 1e9),
            -rate,
            model.name,
        )

    return sorted(models, key=place)


def most_common_benchmark(models: Sequence[ServableModel]) -> str:
    """Return the name of the benchmark of which most models have a score; empty where no model has any."""
    names = [model.benchmark for model in models if model.benchmark]
    return max(sorted(set(names)), key=names.count, default="")


def _set_place(model: ServableModel, places: Sequence[ServingPlace]) -> None:
    """Set the first place with enough memory and the number of copies, or the reason why there is none."""
    least = model.bytes_needed(SMALLEST_CONTEXT)
    for place in places:
        copies = place.count_copies(least)
        if copies:
            model.place, model.copies = place, copies
            return
    most = max(place.bytes for place in places)
    model.reason = (
        f"needs {format_bytes_short(round(least))} of {format_bytes_short(max(0, most))} with a context of "
        f"{SMALLEST_CONTEXT}"
    )


def _set_predictions(model: ServableModel, place: ServingPlace, wanted: WantedService) -> None:
    shape = model.shape
    model.rate = predict_decode_rate(shape, place.processor, place.gbps, place.source)
    model.context = shape.trained_context or SMALLEST_CONTEXT
    while model.context > SMALLEST_CONTEXT and model.bytes_needed(model.context) > place.bytes:
        model.context //= 2
    tokens = min(wanted.context, shape.trained_context or wanted.context)
    by_rate = count_streams_at_rate(shape, place.processor, place.gbps, place.source, wanted.rate, tokens)
    for free_bytes in sorted(place.socket_bytes, reverse=True)[: model.copies]:
        left = free_bytes - model.bytes_needed(0)
        by_memory = int(left // (tokens * shape.kv_bytes_per_token)) if shape.kv_bytes_per_token else by_rate
        model.users += max(0, min(by_rate, by_memory))


def _set_speculation(model: ServableModel, place: ServingPlace, shapes: Mapping[str, ModelShape]) -> None:
    """Set the gain of the draft of the catalogue that gains most, or else of MTP layers."""
    guessers: dict[str, ModelShape | None] = {
        name: shapes[name] for name in model.entry.get("drafts") or [] if name in shapes
    }
    if not guessers and model.entry.get("mtp"):
        guessers["its MTP layers"] = None
    for name, draft in guessers.items():
        gains = predict_speculation_gains(model.shape, draft, place.processor, place.gbps, place.source)
        if model.gains is None or gains > model.gains:
            model.gains, model.guesser = gains, name
