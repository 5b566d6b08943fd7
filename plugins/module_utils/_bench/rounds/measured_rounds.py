# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Groups the samples of a run document by rounds: the levels of each arm, and why a round is discarded.

A round is discarded with all its arms. The rules look at the activity of the host, at starts of the server and at the
anchor, and never at the result of another arm, so that no rule can discard unwelcome results.
"""

from __future__ import annotations

import math

from ..statistics.confidence_interval import mean
from ..statistics.energy_figures import compute_tokens_per_joule
from ..statistics.figures import is_plain_sample
from . import schedule
from .limits import MAX_ANCHOR_JUMP, MAX_DISCARDED_IN_A_ROW, disturbance_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    #: A metric, a kind of prompts (empty for all kinds), and the number of streams.
    Key = tuple[str, str, int]
    Levels = dict[str, dict[Key, float]]
    #: A kind of prompts and a prompt of it, None for a prompt that is not known.
    PromptOfKind = tuple[str, "str | None"]

#: End-to-end output and decoding are of all streams together; all other metrics are of one stream.
OUTPUT, DECODE, PREFILL, STEPS, PER_STEP = "output", "decode", "prefill", "steps", "tokens per step"
REQUEST, FIRST_TOKEN, TOKENS_PER_JOULE = "request", "first token", "tokens per joule"
ONE_STREAM, WHOLE_REQUEST = (DECODE, "", 1), (REQUEST, "", 1)
#: The metrics that are known for each prompt, with one stream.
PROMPT_METRICS = (DECODE, REQUEST)
#: The fields of samples that are added up.
SUMMED = ("output_n", "output_ms", "prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "accepted")


class Round:
    """A measured round; ``discard_reason`` is empty for a round that counts.

    ``levels`` maps arm and metric to the natural logarithm of tokens or steps per millisecond, of tokens per step or
    joule, or of the reciprocal of the milliseconds to the first token, so that larger is better. The metric of a whole
    request is the tokens of the answer per millisecond of the whole request. ``prompt_levels`` maps arm, metric and
    prompt to the same with one stream. ``pass_levels`` has the decode rates of each pass of an arm.

    ``starts`` maps each arm to the start of the server that it was measured on. ``texts`` maps arm and prompt to the
    digests of the generated texts with one stream. ``speculating_arms`` are the arms that drafted tokens.
    ``settings_digests`` maps each arm to the digests of the settings that were read back.
    """

    def __init__(self, planned: Mapping[str, Any]) -> None:
        self.number: int = planned["round"]
        self.phase: str = planned["phase"]
        self.setting_class: str = planned["class"]
        self.planned_arms: Sequence[str] = planned["arms"]
        self.discard_reason = ""
        self.levels: Levels = {}
        self.prompt_levels: dict[str, dict[tuple[str, PromptOfKind], float]] = {}
        self.pass_levels: dict[str, list[float]] = {}
        self.starts: dict[str, int] = {}
        self.texts: dict[str, dict[PromptOfKind, list[str | None]]] = {}
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
    by_arm: dict[str, list[Mapping[str, Any]]] = {}
    for sample in samples:
        if is_plain_sample(sample):
            by_arm.setdefault(sample["arm"], []).append(sample)
    for arm, of_arm in by_arm.items():
        measured.starts[arm] = of_arm[0]["start"]
        measured.levels[arm] = _compute_log_rates(_group_samples(of_arm, lambda s: (s["kind"], s["streams"])))
        per_joule = compute_tokens_per_joule(of_arm)
        if per_joule:
            measured.levels[arm][TOKENS_PER_JOULE, "", 1] = math.log(per_joule)
        if any(sample["drafted"] for sample in of_arm):
            measured.speculating_arms.add(arm)
        digests = {sample["witness"]["settings_sha256"] for sample in of_arm} - {None}
        if digests:
            measured.settings_digests[arm] = digests
        one_stream = [sample for sample in of_arm if sample["streams"] == 1]
        _fill_prompts_of_arm(measured, arm, one_stream)


def _fill_prompts_of_arm(measured: Round, arm: str, samples: Sequence[Mapping[str, Any]]) -> None:
    """Fill in texts, and where prompts are known also the levels of prompts and passes; samples have one stream."""
    passes: list[list[Mapping[str, Any]]] = []
    for (kind, prompt), of_prompt in _group_samples(samples, lambda s: (s["kind"], s["prompt"])).items():
        digests = [sample["text_sha256"] for sample in of_prompt]
        measured.texts.setdefault(arm, {})[kind, prompt] = digests
        if prompt is None:
            continue
        levels = _compute_one_stream_levels(_sum_samples(of_prompt))
        for metric in PROMPT_METRICS:
            measured.prompt_levels.setdefault(arm, {})[metric, (kind, prompt)] = levels[metric]
        for at, sample in enumerate(of_prompt):
            passes += [[]] if at == len(passes) else []
            passes[at].append(sample)
    if passes:
        of_kinds = [_group_samples(of_pass, lambda s: s["kind"]).values() for of_pass in passes]
        measured.pass_levels[arm] = [
            mean([_compute_one_stream_levels(_sum_samples(of_kind))[DECODE] for of_kind in kinds]) for kinds in of_kinds
        ]


def _group_samples(samples: Iterable[Mapping[str, Any]], group_of: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for sample in samples:
        groups.setdefault(group_of(sample), []).append(sample)
    return groups


def _sum_samples(samples: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the sums of the counts and times of samples; the time to first token is their mean, 0 where unknown."""
    total = {name: math.fsum(sample[name] or 0 for sample in samples) for name in SUMMED}
    first = [sample["ttft_ms"] for sample in samples]
    total["ttft_ms"] = 0.0 if None in first else mean(first)
    return total


def _compute_log_rates(cells: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]) -> dict[Key, float]:
    """Return the log rates of an arm in a round by metric, for each kind and as the mean over all kinds."""
    levels: dict[Key, float] = {}
    parts: dict[tuple[str, int], list[float]] = {}
    for (kind, streams), samples in sorted(cells.items()):
        total = _sum_samples(samples)
        of_cell = {OUTPUT: math.log(total["output_n"] / total["output_ms"])}
        if streams == 1:
            of_cell.update(_compute_one_stream_levels(total))
        elif total["predicted_n"]:
            of_cell[DECODE] = math.log(streams * total["predicted_n"] / total["predicted_ms"])
        for metric, level in of_cell.items():
            levels[metric, kind, streams] = level
            parts.setdefault((metric, streams), []).append(level)
    for (metric, streams), values in parts.items():
        levels[metric, "", streams] = mean(values)
    return levels


def _compute_one_stream_levels(total: Mapping[str, float]) -> dict[str, float]:
    """Return the log rates of sums of samples with one stream, by metric."""
    tokens, steps = total["predicted_n"], total["predicted_n"] - total["accepted"]
    levels = {
        DECODE: math.log(tokens / total["predicted_ms"]),
        STEPS: math.log(steps / total["predicted_ms"]),
        PER_STEP: math.log(tokens / steps),
        REQUEST: math.log(tokens / (total["prompt_ms"] + total["predicted_ms"])),
    }
    if total["prompt_n"] and total["prompt_ms"]:
        levels[PREFILL] = math.log(total["prompt_n"] / total["prompt_ms"])
    if total["ttft_ms"]:
        levels[FIRST_TOKEN] = -math.log(total["ttft_ms"])
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


def group_counting_rounds_by_start(rounds: Iterable[Round]) -> list[list[Round]]:
    """Return the rounds that count, those whose arms all share the same start of the server in one group.

    The chance of a start changes what a setting does in all rounds on it, so that a group is one repetition.
    """
    groups: dict[tuple[str, int], list[Round]] = {}
    for measured in rounds:
        if not measured.discard_reason:
            starts = set(measured.starts.values())
            unit = ("start", starts.pop()) if len(starts) == 1 else ("round", measured.number)
            groups.setdefault(unit, []).append(measured)
    return list(groups.values())


def log_ratios_of_counting_rounds(
    rounds: Iterable[Round], arm: str, key: Key, anchor: str = schedule.TUNED
) -> list[float]:
    """Return the log ratios of an anchor to an arm; above 0 the anchor is better.

    Each counting round has a ratio; rounds that share a start of the server have the mean of their ratios.
    """
    values = []
    for group in group_counting_rounds_by_start(rounds):
        both = [r.levels for r in group if key in r.levels.get(anchor, {}) and key in r.levels.get(arm, {})]
        if both:
            values.append(mean([levels[anchor][key] - levels[arm][key] for levels in both]))
    return values


def list_metrics(rounds: Iterable[Round]) -> list[Key]:
    """Return the sorted metrics of the rounds that count."""
    counting = [measured for measured in rounds if not measured.discard_reason]
    return sorted({key for measured in counting for levels in measured.levels.values() for key in levels})


def list_guard_metrics(rounds: Iterable[Round]) -> list[Key]:
    """Return the sorted metrics that a gain must not worsen.

    These are prefill, decoding for each kind with one stream, and the end-to-end output of several streams.
    """
    return [
        (metric, kind, streams)
        for metric, kind, streams in list_metrics(rounds)
        if (metric == PREFILL and not kind and streams == 1)
        or (metric == DECODE and kind and streams == 1)
        or (metric == OUTPUT and not kind and streams > 1)
    ]
