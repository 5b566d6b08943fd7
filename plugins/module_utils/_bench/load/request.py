# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a measurement: instance, prompts, streams and rounds; they are validated here only."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.numbers import parse_whole
from . import prompts as all_prompts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .prompts import Prompt

#: Rounds that have to count; discarded rounds are repeated, up to this many times as many rounds in all.
ROUNDS, ROUND_TRIES = 5, 3
#: Default of the minutes of an ablation or a tuning.
MINUTES = 240
#: The largest number of streams, and the default timeout of an answer in seconds.
MAX_STREAMS, ANSWER_TIMEOUT = 256, 600

#: The argument spec that all measuring modules share.
ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "kinds": {"type": "list", "elements": "str"},
    "prompts": {"type": "path"},
    "tokens": {"type": "int", "default": all_prompts.DEFAULT_TOKENS, "no_log": False},
    "timeout": {"type": "int", "default": ANSWER_TIMEOUT},
}
#: The option of modules that begin a run.
OUTPUT_SPEC: dict[str, dict[str, Any]] = {"output": {"type": "path"}}
#: The options that ablations and tunings share; a tuned state is compared with one stream unless more are requested.
LONG_RUN_SPEC: dict[str, dict[str, Any]] = {
    "minutes": {"type": "float", "default": MINUTES},
    "seed": {"type": "int"},
    "streams": {"type": "list", "elements": "int", "default": []},
}


class MeasuringRequest:
    """Options of a measurement.

    ``prompts`` are those for one stream, by kind. ``streams`` are the numbers of parallel streams to measure beside
    a single one, None for as many as the instance has slots. ``answer_timeout`` is in seconds.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name, of which any may be missing; BadRequest for an invalid one."""
        self.instance: str | None = raw.get("instance")
        self.output: str | None = raw.get("output")
        self.rounds = _parse_number(raw, "rounds", ROUNDS, 1, 1000)
        self.answer_timeout = _parse_number(raw, "timeout", ANSWER_TIMEOUT, 1, 24 * 3600)
        tokens = _parse_number(raw, "tokens", all_prompts.DEFAULT_TOKENS, 2, 100_000)
        self.prompts: dict[str, list[Prompt]] = all_prompts.built_in_prompts(tokens)
        if raw.get("prompts"):
            self.prompts = {all_prompts.USER_KIND: all_prompts.read_prompt_file(raw["prompts"], tokens)}
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
            named = [_parse_number({"streams": count}, "streams", 1, 1, MAX_STREAMS) for count in streams]
            self.streams = sorted({count for count in named if count > 1})

    @property
    def all_prompts(self) -> list[Prompt]:
        """All prompts of all kinds, in their order."""
        return [prompt for those in self.prompts.values() for prompt in those]


def _parse_number(raw: Mapping[str, Any], name: str, usual: int, low: int, high: int) -> int:
    value = raw.get(name)
    if value is None:
        return usual
    number = parse_whole(value)
    if number is None or not low <= number <= high:
        raise BadRequest(f"{name} is {value}; give a whole number from {low} to {high}.")
    return number
