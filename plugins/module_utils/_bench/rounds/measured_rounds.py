# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Groups the samples of a run document by rounds: the levels of each arm, and why a round is discarded.

A round is discarded with all its arms. The rules look at the activity of the host, at starts of the server and at the
anchor, and never at the result of another arm, so that no rule can discard unwelcome results.
"""

from __future__ import annotations

import math

from ..statistics.confidence_interval import mean
from ..statistics.figures import is_plain_sample
from . import schedule
from .limits import MAX_ANCHOR_JUMP, MAX_DISCARDED_IN_A_ROW, disturbance_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    #: A metric, a kind of prompts (empty for all kinds), and the number of streams.
    Key = tuple[str, str, int]
    Levels = dict[str, dict[Key, float]]

#: End-to-end output and decoding are of all streams together; all other metrics are of one stream.
OUTPUT, DECODE, PREFILL, STEPS, PER_STEP = "output", "decode", "prefill", "steps", "tokens per step"
REQUEST = "request"
ONE_STREAM, WHOLE_REQUEST = (DECODE, "", 1), (REQUEST, "", 1)
#: The fields of samples that are added up.
SUMMED = ("output_n", "output_ms", "prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "accepted")


class Round:
    """A measured round; ``discard_reason`` is empty for a round that counts.

    ``levels`` maps arm and metric to the natural logarithm of tokens or steps per millisecond or of tokens per step, so
    that larger is better. The metric of a whole request is the tokens of the answer per millisecond of the whole
    request. ``texts`` maps arm and kind to digests of the generated texts with one stream. ``speculating_arms`` are the
    arms that drafted tokens. ``settings_digests`` maps each arm to the digests of the settings that were read back.
    """

    def __init__(self, planned: Mapping[str, Any]) -> None:
        self.number: int = planned["round"]
        self.phase: str = planned["phase"]
        self.setting_class: str = planned["class"]
        self.planned_arms: Sequence[str] = planned["arms"]
        self.discard_reason = ""
        self.levels: Levels = {}
        self.texts: dict[tuple[str, str], set[str | None]] = {}
        self.speculating_arms: set[str] = set()
        self.settings_digests: dict[str, set[str]] = {}


def rounds_of_document(document: Mapping[str, Any]) -> list[Round]:
    """Return the rounds of a validated document that have samples, in their order.

    Samples with context before their prompt or at a rate of arrivals are not in the levels of a round.
    """
    samples_by_round: dict[int, list[Mapping[str, Any]]] = {}
    for sample in document["samples"]:
        samples_by_round.setdefault(sample["round"], []).append(sample)
    cells = {(sample["kind"], sample["streams"]) for sample in document["samples"] if is_plain_sample(sample)}
    rounds = []
    started: dict[int, tuple[int, str]] = {}
    for planned in document["plan"]["order"]:
        if planned["round"] in samples_by_round:
            samples = samples_by_round[planned["round"]]
            measured = Round(planned)
            _fill_round_from_samples(measured, samples)
            measured.discard_reason = (
                _disturbance_reason(samples)
                or _missing_sample_reason(measured, samples, cells)
                or _wrong_server_start_reason(measured, samples, started)
            )
            rounds.append(measured)
    _discard_rounds_with_anchor_jump(rounds, schedule.anchor_name(document["plan"]["arms"]))
    return rounds


def last_rounds_all_discarded(rounds: Sequence[Round]) -> bool:
    """Return whether a run gives up because its last rounds were all discarded."""
    return len(rounds) >= MAX_DISCARDED_IN_A_ROW and all(
        measured.discard_reason for measured in rounds[-MAX_DISCARDED_IN_A_ROW:]
    )


def _fill_round_from_samples(measured: Round, samples: Iterable[Mapping[str, Any]]) -> None:
    """Fill in the log rates and digests of a round; requests of an arm with equal kind and streams are one value."""
    sums: dict[str, dict[tuple[str, int], list[float]]] = {}
    for sample in filter(is_plain_sample, samples):
        arm, cell = sample["arm"], (sample["kind"], sample["streams"])
        total = sums.setdefault(arm, {}).setdefault(cell, [0.0] * len(SUMMED))
        for at, name in enumerate(SUMMED):
            total[at] += sample[name] or 0
        if sample["drafted"]:
            measured.speculating_arms.add(arm)
        if sample["streams"] == 1:
            measured.texts.setdefault((arm, sample["kind"]), set()).add(sample["text_sha256"])
        if sample["witness"]["settings_sha256"] is not None:
            measured.settings_digests.setdefault(arm, set()).add(sample["witness"]["settings_sha256"])
    measured.levels = {arm: _compute_log_rates(cells) for arm, cells in sums.items()}


def _compute_log_rates(cells: Mapping[tuple[str, int], Sequence[float]]) -> dict[Key, float]:
    """Return the log rates of an arm in a round by metric, for each kind and as the mean over all kinds."""
    levels: dict[Key, float] = {}
    parts: dict[tuple[str, int], list[float]] = {}
    for (kind, streams), totals in sorted(cells.items()):
        output_n, output_ms, prompt_n, prompt_ms, predicted_n, predicted_ms, accepted = totals
        of_cell = {OUTPUT: math.log(output_n / output_ms)}
        if predicted_n:
            of_cell[DECODE] = math.log(streams * predicted_n / predicted_ms)
        if streams == 1:
            steps = predicted_n - accepted
            of_cell.update({STEPS: math.log(steps / predicted_ms), PER_STEP: math.log(predicted_n / steps)})
            of_cell[REQUEST] = math.log(predicted_n / (prompt_ms + predicted_ms))
            if prompt_n and prompt_ms:
                of_cell[PREFILL] = math.log(prompt_n / prompt_ms)
        for metric, level in of_cell.items():
            levels[metric, kind, streams] = level
            parts.setdefault((metric, streams), []).append(level)
    for (metric, streams), values in parts.items():
        levels[metric, "", streams] = mean(values)
    return levels


def _disturbance_reason(samples: Iterable[Mapping[str, Any]]) -> str:
    """Return how the host was disturbed in a round; recorded shares are compared with the limits of this version."""
    for sample in samples:
        if sample["void"]:
            return str(sample["void"])
        messages = disturbance_messages(sample["witness"])
        if messages:
            return messages[0]
    return ""


def _missing_sample_reason(measured: Round, samples: Iterable[Mapping[str, Any]], cells: set[tuple[str, int]]) -> str:
    """Return which sample an incomplete round lacks; the arms of such a round are not comparable.

    A round with a long context before each prompt has other samples.
    """
    if measured.phase == schedule.DEPTH:
        return ""
    present = {(sample["arm"], sample["kind"], sample["streams"]) for sample in samples}
    for arm in measured.planned_arms:
        for kind, streams in sorted(cells):
            if (arm, kind, streams) not in present:
                return f"{arm} has no sample of {kind} with {streams} stream{'' if streams == 1 else 's'}"
    return ""


def _wrong_server_start_reason(
    measured: Round, samples: Iterable[Mapping[str, Any]], started: dict[int, tuple[int, str]]
) -> str:
    """Return why starts of the server in a round are wrong: arms shared a start, or a shared server was restarted.

    ``started`` maps each start to the first round and arm that used it, and gets the starts of this round.
    """
    shared = schedule.REPETITIONS[measured.setting_class].shares_start
    if shared and len({sample["start"] for sample in samples}) > 1:
        return "the server was started again within the round"
    for sample in samples:
        owner = (measured.number, "" if shared else sample["arm"])
        number, arm = started.setdefault(sample["start"], owner)
        if not shared and (number, arm) != owner:
            return f"{sample['arm']} was not started anew: start {sample['start']} is of round {number}"
    return ""


def _discard_rounds_with_anchor_jump(rounds: Iterable[Round], anchor: str) -> None:
    """Discard a round whose anchor differs too much from both the last counting round and the round before.

    So a new level of the anchor that stays is accepted in its second round.
    """
    last_counting: dict[tuple[str, str], float] = {}
    last: dict[tuple[str, str], float] = {}
    for measured in rounds:
        if measured.phase == schedule.DEPTH:
            continue
        level = measured.levels.get(anchor, {}).get(ONE_STREAM)
        if level is None:
            measured.discard_reason = measured.discard_reason or "no sample of the anchor with one stream"
            continue
        place = (measured.setting_class, measured.phase)
        if (
            not measured.discard_reason
            and place in last_counting
            and all(abs(level - before[place]) > MAX_ANCHOR_JUMP for before in (last_counting, last))
        ):
            measured.discard_reason = (
                f"the anchor was {math.exp(level - last_counting[place]):.2f} of that in the round before"
            )
        last[place] = level
        if not measured.discard_reason:
            last_counting[place] = level


def log_ratios_of_counting_rounds(
    rounds: Iterable[Round], arm: str, key: Key, anchor: str = schedule.TUNED
) -> list[float]:
    """Return the log ratio of an anchor to an arm in each counting round; above 0 the anchor is better."""
    values = []
    for measured in rounds:
        if not measured.discard_reason and arm in measured.levels and anchor in measured.levels:
            above, below = measured.levels[anchor].get(key), measured.levels[arm].get(key)
            if above is not None and below is not None:
                values.append(above - below)
    return values


def guard_metrics(rounds: Iterable[Round], decode: str = DECODE) -> list[Key]:
    """Return the sorted metrics that a gain must not worsen.

    These are prefill, ``decode`` (the metric that decides) for each kind with one stream, and the end-to-end output of
    several streams.
    """
    present = {
        key
        for measured in rounds
        if not measured.discard_reason
        for levels in measured.levels.values()
        for key in levels
    }
    guards = {
        (PREFILL, "", 1),
        *(key for key in present if key[0] == decode and key[1] and key[2] == 1),
        *(key for key in present if key[0] == OUTPUT and not key[1] and key[2] > 1),
    }
    return sorted(present & guards)
