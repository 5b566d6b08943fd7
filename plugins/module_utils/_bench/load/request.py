# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a benchmark is asked for: an instance, prompts, streams and rounds; read and refused in one place."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.numbers import parse_whole
from . import prompts as all_prompts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .prompts import Prompt

#: Rounds that count; void ones are repeated, up to so many times as many in all.
ROUNDS, TRIES = 5, 3
#: The most streams, and the seconds that one answer may take.
MOST_STREAMS, LIMIT = 256, 600

#: The argument spec of what is read here, but the instance, the rounds and the streams.
SPEC: dict[str, dict[str, Any]] = {
    "kinds": {"type": "list", "elements": "str"},
    "prompts": {"type": "path"},
    "tokens": {"type": "int", "default": all_prompts.TOKENS, "no_log": False},
    "timeout": {"type": "int", "default": LIMIT},
    "output": {"type": "path"},
}


class Asked:
    """``prompts`` are those of one stream by kind; ``streams`` are the numbers beside 1, None for as many as slots."""

    __slots__ = ("instance", "limit", "output", "prompts", "rounds", "streams")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name, of which any may be missing. BadRequest for one that cannot be."""
        self.instance: str | None = raw.get("instance")
        self.output: str | None = raw.get("output")
        self.rounds = _number(raw, "rounds", ROUNDS, 1, 1000)
        self.limit = _number(raw, "timeout", LIMIT, 1, 24 * 3600)
        tokens = _number(raw, "tokens", all_prompts.TOKENS, 2, 100_000)
        self.prompts: dict[str, list[Prompt]] = all_prompts.ours(tokens)
        if raw.get("prompts"):
            self.prompts = {all_prompts.USER: all_prompts.read(raw["prompts"], tokens)}
        kinds = raw.get("kinds")
        if kinds:
            unknown = [kind for kind in kinds if kind not in self.prompts]
            if unknown:
                raise BadRequest(f"There are no prompts of the kind {unknown[0]}; say of {', '.join(self.prompts)}.")
            self.prompts = {kind: self.prompts[kind] for kind in self.prompts if kind in kinds}
        streams = raw.get("streams")
        self.streams: list[int] | None = None
        if streams is not None:
            named = [_number({"streams": one}, "streams", 1, 1, MOST_STREAMS) for one in streams]
            self.streams = sorted({one for one in named if one > 1})

    @property
    def all(self) -> list[Prompt]:
        """All prompts, in their order."""
        return [prompt for those in self.prompts.values() for prompt in those]


def _number(raw: Mapping[str, Any], name: str, usual: int, low: int, high: int) -> int:
    value = raw.get(name)
    if value is None:
        return usual
    number = parse_whole(value)
    if number is None or not low <= number <= high:
        raise BadRequest(f"{name} is {value}; say a whole number from {low} to {high}.")
    return number
