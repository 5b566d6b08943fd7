# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The samples of a document as rounds: what each arm reached in each, and which rounds are void.

A void round is dropped whole, with all its arms. The rules look at witnesses, at starts and at the anchor, and never at
what an arm reached, so that they cannot drop what does not please.
"""

from __future__ import annotations

import math

from ..statistics.confidence_interval import mean
from . import schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    #: A metric, the prompt kind or an empty text for all kinds, and the streams.
    Key = tuple[str, str, int]
    Levels = dict[str, dict[Key, float]]

#: Other programs may have this share of the service's CPU time, and the hypervisor this share of all of it.
OTHERS, STEAL = 0.02, 0.005
#: So far the anchor may be off from one round to the next; a drift is slower, and what is faster is no drift.
JUMP = math.log(1.1)
DECODE, PREFILL, STEPS, PER_STEP, REQUEST = "decode", "prefill", "steps", "tokens per step", "request"
ONE_STREAM, WHOLE_REQUEST = (DECODE, "", 1), (REQUEST, "", 1)


class Round:
    """One round: its plan, what each arm reached, and why it is void, an empty text where it counts.

    ``levels`` maps arm and metric to a natural logarithm, of tokens or steps per millisecond or tokens per step, so the
    larger is the better; of a request these are the tokens of its answer over all of its time. ``texts`` maps arm and
    kind to the digest of the text with one stream, ``drafted`` arm to whether it speculated, and ``proof`` arm to the
    digests of the settings that were read back.
    """

    __slots__ = ("drafted", "levels", "number", "phase", "planned", "proof", "texts", "unit", "void")

    def __init__(self, planned: Mapping[str, Any]) -> None:
        self.number: int = planned["round"]
        self.phase: str = planned["phase"]
        self.unit: str = planned["class"]
        self.planned: Sequence[str] = planned["arms"]
        self.void = ""
        self.levels: Levels = {}
        self.texts: dict[tuple[str, str], set[str | None]] = {}
        self.drafted: set[str] = set()
        self.proof: dict[str, set[str]] = {}


def of(document: Mapping[str, Any]) -> list[Round]:
    """Return the rounds of a checked document that have samples, in their order."""
    members: dict[int, list[Mapping[str, Any]]] = {}
    for sample in document["samples"]:
        members.setdefault(sample["round"], []).append(sample)
    cells = {(sample["kind"], sample["streams"]) for sample in document["samples"]}
    rounds = []
    started: dict[int, tuple[int, str]] = {}
    for planned in document["plan"]["order"]:
        if planned["round"] in members:
            samples = members[planned["round"]]
            one = Round(planned)
            _fill(one, samples)
            one.void = _spoiled(samples) or _torn(one, samples, cells) or _shared(one, samples, started)
            rounds.append(one)
    _mark_jumps(rounds, schedule.anchor(document["plan"]["arms"]))
    return rounds


def _fill(one: Round, samples: Iterable[Mapping[str, Any]]) -> None:
    """Add up the requests of each arm, kind and number of streams: together they are one value."""
    sums: dict[str, dict[tuple[str, int], list[float]]] = {}
    for sample in samples:
        arm, cell = sample["arm"], (sample["kind"], sample["streams"])
        total = sums.setdefault(arm, {}).setdefault(cell, [0.0] * 5)
        for at, name in enumerate(("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "accepted")):
            total[at] += sample[name]
        if sample["drafted"]:
            one.drafted.add(arm)
        if sample["streams"] == 1:
            one.texts.setdefault((arm, sample["kind"]), set()).add(sample["text_sha256"])
        if sample["witness"]["settings_sha256"] is not None:
            one.proof.setdefault(arm, set()).add(sample["witness"]["settings_sha256"])
    one.levels = {arm: _levels(cells) for arm, cells in sums.items()}


def _levels(cells: Mapping[tuple[str, int], Sequence[float]]) -> dict[Key, float]:
    """Return each metric of one arm in one round, by kind and as the geometric mean over the kinds."""
    levels: dict[Key, float] = {}
    parts: dict[tuple[str, int], list[float]] = {}
    for (kind, streams), (prompt_n, prompt_ms, predicted_n, predicted_ms, accepted) in sorted(cells.items()):
        found = {DECODE: math.log(predicted_n / predicted_ms)}
        if streams == 1:
            steps = predicted_n - accepted
            found.update({STEPS: math.log(steps / predicted_ms), PER_STEP: math.log(predicted_n / steps)})
            found[REQUEST] = math.log(predicted_n / (prompt_ms + predicted_ms))
            if prompt_n and prompt_ms:
                found[PREFILL] = math.log(prompt_n / prompt_ms)
        for metric, level in found.items():
            levels[metric, kind, streams] = level
            parts.setdefault((metric, streams), []).append(level)
    for (metric, streams), values in parts.items():
        levels[metric, "", streams] = mean(values)
    return levels


def _spoiled(samples: Iterable[Mapping[str, Any]]) -> str:
    """Return what a witness says against a round; each limit is held against the numbers again."""
    for sample in samples:
        if sample["void"]:
            return str(sample["void"])
        for name, limit in (("others", OTHERS), ("steal", STEAL)):
            share = sample["witness"][name]
            if share is not None and share > limit:
                return f"{name} took {share:.1%} of the CPU time, above {limit:.1%}"
    return ""


def _torn(one: Round, samples: Iterable[Mapping[str, Any]], cells: set[tuple[str, int]]) -> str:
    """Return what a round lacks: a block that is not complete compares unlike with unlike."""
    there = {(sample["arm"], sample["kind"], sample["streams"]) for sample in samples}
    for arm in one.planned:
        for kind, streams in sorted(cells):
            if (arm, kind, streams) not in there:
                return f"{arm} has no sample of {kind} with {streams} stream{'' if streams == 1 else 's'}"
    return ""


def _shared(one: Round, samples: Iterable[Mapping[str, Any]], started: dict[int, tuple[int, str]]) -> str:
    """Return where arms that need a start of their own shared one, or live ones did not share theirs."""
    shared = schedule.UNITS[one.unit].restart_every > 0
    if shared and len({sample["start"] for sample in samples}) > 1:
        return "the server was started again within the round"
    for sample in samples:
        owner = (one.number, "" if shared else sample["arm"])
        number, arm = started.setdefault(sample["start"], owner)
        if not shared and (number, arm) != owner:
            return f"{sample['arm']} was not started anew: start {sample['start']} is of round {number}"
    return ""


def _mark_jumps(rounds: Iterable[Round], anchor: str) -> None:
    """Mark rounds whose anchor is off from that of the last good one, unless it stays at its new level."""
    good: dict[tuple[str, str], float] = {}
    last: dict[tuple[str, str], float] = {}
    for one in rounds:
        level = one.levels.get(anchor, {}).get(ONE_STREAM)
        if level is None:
            one.void = one.void or "no sample of the anchor with one stream"
            continue
        place = (one.unit, one.phase)
        if not one.void and place in good and all(abs(level - before[place]) > JUMP for before in (good, last)):
            one.void = f"the anchor was {math.exp(level - good[place]):.2f} of that in the round before"
        last[place] = level
        if not one.void:
            good[place] = level


def differences(rounds: Iterable[Round], arm: str, key: Key, anchor: str = schedule.TUNED) -> list[float]:
    """Return the log ratio of the anchor to an arm in each good round that has both: above 0, the anchor is better."""
    values = []
    for one in rounds:
        if not one.void and arm in one.levels and anchor in one.levels:
            above, below = one.levels[anchor].get(key), one.levels[arm].get(key)
            if above is not None and below is not None:
                values.append(above - below)
    return values


def guards(rounds: Iterable[Round], decode: str = DECODE) -> list[Key]:
    """Return what a gain must not cost in good rounds, sorted: prefill, several streams, and each kind with one.

    ``decode`` is the metric that decides.
    """
    there = {key for one in rounds if not one.void for levels in one.levels.values() for key in levels}
    wanted = {(PREFILL, "", 1), *(key for key in there if key[0] == decode and (key[1] == "") != (key[2] == 1))}
    return sorted(there & wanted)
