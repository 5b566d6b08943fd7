# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a measurement: instance, prompts, streams, rounds and timeout; this module validates them."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.numbers import parse_decimal, parse_whole_number
from . import prompts as all_prompts
from .objective_names import OBJECTIVES, SMALLEST_EFFECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .answer import Api
    from .prompts import Prompt

#: Default of the rounds that have to count. Discarded rounds are repeated, so that a run has at most ROUND_TRIES times
#: as many rounds.
ROUNDS, ROUND_TRIES = 5, 3
#: The default minutes of an ablation or a tuning.
MINUTES = 240
#: The largest number of streams, and the default timeout of an answer in seconds.
MAX_STREAMS, ANSWER_TIMEOUT = 256, 600
#: The largest depth in tokens, the largest rate in requests per second, and the largest limit in milliseconds.
MAX_DEPTH, MAX_RATE, MAX_LIMIT_MS = 1 << 20, 1000, 3_600_000


#: The argument spec of options that all measuring modules have.
ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "kinds": {"type": "list", "elements": "str"},
    "prompts": {"type": "path"},
    "tokens": {"type": "int", "default": all_prompts.DEFAULT_TOKENS, "no_log": False},
    "timeout": {"type": "int", "default": ANSWER_TIMEOUT},
    "controller_timeout": {"type": "int", "default": 0},
}
#: The argument spec of the option that only modules which begin a run have.
OUTPUT_SPEC: dict[str, dict[str, Any]] = {"output": {"type": "path"}}
#: The argument spec of options that only benchmarks have; by default the depths depend on what reading them costs.
BENCHMARK_SPEC: dict[str, dict[str, Any]] = {
    "rounds": {"type": "int", "default": ROUNDS},
    "streams": {"type": "list", "elements": "int"},
    "depths": {"type": "list", "elements": "int"},
    "second_turn": {"type": "bool", "default": True},
    "rate": {"type": "float"},
    "slo": {
        "type": "dict",
        "options": {
            "first_ms": {"type": "float", "required": True},
            "per_token_ms": {"type": "float", "required": True, "no_log": False},
        },
    },
}
#: The argument spec of options that only ablations and tunings have; by default they measure one stream.
LONG_RUN_SPEC: dict[str, dict[str, Any]] = {
    "minutes": {"type": "float", "default": MINUTES},
    "seed": {"type": "int"},
    "streams": {"type": "list", "elements": "int", "default": []},
    "objective": {"type": "str", "choices": list(OBJECTIVES), "default": OBJECTIVES[0]},
    "smallest": {"type": "float", "default": SMALLEST_EFFECT},
}


class MeasuringRequest:
    """Options of a measurement.

    ``prompts`` are the prompts by kind. ``streams`` are the numbers of parallel streams to measure after one stream,
    None for as many as the instance has slots. ``answer_timeout`` is in seconds. ``depths`` are numbers of tokens of
    context, None for those that take little time. ``rate`` is a number of requests per second, None for no requests at
    a rate, and ``slo`` are the limits of a good request.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name, of which any may be missing; BadRequest for an invalid option."""
        self.instance: str | None = raw.get("instance")
        self.output: str | None = raw.get("output")
        #: Whether the run becomes the baseline of its instance, if a round counts.
        self.baseline = bool(raw.get("baseline"))
        self.rounds = _parse_whole_option(raw, "rounds", ROUNDS, 1, 1000)
        self.answer_timeout = _parse_whole_option(raw, "timeout", ANSWER_TIMEOUT, 1, 24 * 3600)
        tokens = _parse_whole_option(raw, "tokens", all_prompts.DEFAULT_TOKENS, 2, 100_000)
        self.prompts: dict[str, list[Prompt]] = all_prompts.built_in_prompts(tokens)
        if raw.get("prompts"):
            self.prompts = {}
            for prompt in all_prompts.read_prompt_file(raw["prompts"], tokens):
                self.prompts.setdefault(prompt.kind, []).append(prompt)
        kinds = raw.get("kinds")
        if kinds:
            unknown = [kind for kind in kinds if kind not in self.prompts]
            if unknown:
                known = ", ".join(self.prompts)
                raise BadRequest(f"There are no prompts of the kind {unknown[0]}; the kinds are {known}.")
            self.prompts = {kind: self.prompts[kind] for kind in self.prompts if kind in kinds}
        streams = raw.get("streams")
        self.streams: list[int] | None = None
        if streams is not None:
            counts = {_parse_whole_option({"streams": count}, "streams", 1, 1, MAX_STREAMS) for count in streams}
            self.streams = sorted(counts - {1})
        depths = raw.get("depths")
        self.depths: list[int] | None = None
        if depths is not None:
            wanted = {_parse_whole_option({"depths": depth}, "depths", 0, 0, MAX_DEPTH) for depth in depths}
            self.depths = sorted(wanted - {0})
        self.second_turn = bool(raw.get("second_turn"))
        self.rate = _parse_positive_option(raw, "rate", MAX_RATE)
        slo = raw.get("slo")
        self.slo: dict[str, float] | None = None
        if slo is not None:
            limits = {name: _parse_positive_option(slo, name, MAX_LIMIT_MS) for name in ("first_ms", "per_token_ms")}
            if None in limits.values():
                raise BadRequest("slo needs both first_ms and per_token_ms, in milliseconds.")
            self.slo = {name: limit for name, limit in limits.items() if limit is not None}

    def remove_measurements_unsupported_by_api(self, api: Api) -> None:
        """Leave out what cannot be measured by the completion API of a server."""
        if not api.can_reuse_prefix:
            self.second_turn, self.depths = False, []

    @property
    def all_prompts(self) -> list[Prompt]:
        """The prompts of all kinds."""
        return [prompt for prompts in self.prompts.values() for prompt in prompts]


def _parse_whole_option(raw: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = raw.get(name)
    if value is None:
        return default
    number = parse_whole_number(value)
    if number is None or not low <= number <= high:
        raise BadRequest(f"{name} is {value}; give a whole number from {low} to {high}.")
    return number


def _parse_positive_option(raw: Mapping[str, Any], name: str, high: float) -> float | None:
    value = raw.get(name)
    if value is None:
        return None
    number = parse_decimal(value)
    if number is None or not 0 < number <= high:
        raise BadRequest(f"{name} is {value}; give a number above 0, and at most {high:g}.")
    return number
