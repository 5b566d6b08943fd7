# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures a benchmark's instance with long contexts, once in a run: decoding and reading slow down with the context.

A context is read once, which takes most of the time. So by default only depths are measured whose reading takes little
time beside the rounds.
"""

from __future__ import annotations

from .._errors import TuningError
from .load import prefix_reuse
from .planning.budget import format_seconds
from .rounds import schedule
from .statistics.figures import is_plain_sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .load.answer import Answer, Sample
    from .load.request import MeasuringRequest
    from .run import Run
    from .sampling.meter import Meter
    from .target.measured_instance import MeasuredInstance

#: By default all depths together take at most this share of the time of all rounds.
DEFAULT_SHARE = 0.5
#: Tries of a depth whose round is discarded.
TRIES = 2


def measure_depths(meter: Meter, run: Run, round_seconds: float, report_step: Callable[[str], None]) -> None:
    """Measure depths, and add their rounds to the document; ``round_seconds`` is the duration of a plain round."""
    target, request = meter.target, meter.request
    depths, remarks = choose_depths(target, request, run.document["samples"], round_seconds)
    run.document["remarks"] += remarks
    if not depths:
        return
    try:
        tokens = prefix_reuse.fetch_context_tokens(target.server, depths[-1])
        for before, depth in _pair_each_depth_with_previous(depths):
            target.server.report_answer = _answer_reporter(depth, report_step)
            seconds = estimate_depth_seconds(depth, before, run.document["samples"])
            for number in range(1, TRIES + 1):
                again = "" if number == 1 else ", once more"
                report_step(
                    f"it measures with {depth} tokens of context{again}, which takes about {format_seconds(seconds)}"
                )
                if not _measure_and_append_depth(meter, run.document, tokens[:depth]):
                    break
            run.save()
    except TuningError as error:
        if "depth" not in error.details:
            raise
        run.document["remarks"].append(str(error))


def _answer_reporter(depth: int, report_step: Callable[[str], None]) -> Callable[[Answer], None]:
    """Return a function that reports an answer with its rates."""

    def report_answer(answer: Answer) -> None:
        reading = 1000 * answer.timings["prompt_n"] / answer.timings["prompt_ms"]
        decoding = answer.tokens_per_second
        report_step(f"{depth} tokens of context: read at {reading:.1f}, decoded at {decoding:.1f} tokens per second")

    return report_answer


def choose_depths(
    target: MeasuredInstance, request: MeasuringRequest, samples: Sequence[Sample], round_seconds: float
) -> tuple[list[int], list[str]]:
    """Return the depths to measure in tokens, the smallest first, and remarks on those that are not measured."""
    if request.depths == []:
        return [], []
    longest_prompt = max(sample["prompt_n"] for sample in samples if _is_plain_answer(sample))
    longest = longest_prompt + max(prompt.tokens for prompt in request.all_prompts)
    room = (target.slot_context or 0) - longest
    fitting = [depth for depth in request.depths or prefix_reuse.DEPTHS if depth <= room]
    left_out = [depth for depth in request.depths or () if depth > room]
    remarks = [
        f"Depth {depth} was not measured: with prompt and answer it needs {depth + longest} tokens, and a slot has "
        f"{target.slot_context or 'an unknown number of'}."
        for depth in left_out
    ]
    if request.depths is not None:
        return fitting, remarks
    affordable = DEFAULT_SHARE * request.rounds * round_seconds
    seconds = [
        estimate_depth_seconds(depth, before, samples) for before, depth in _pair_each_depth_with_previous(fitting)
    ]
    chosen = [depth for at, depth in enumerate(fitting) if sum(seconds[: at + 1]) <= affordable]
    for depth in fitting[len(chosen) :][:1]:
        duration = format_seconds(sum(seconds[len(chosen) :]))
        remarks.append(
            f"Contexts of {depth} tokens and more were not measured, because reading them takes about {duration}. Ask "
            "for them with the option depths."
        )
    return chosen, remarks


def estimate_depth_seconds(depth: int, read_before: int, samples: Sequence[Sample]) -> float:
    """Return the estimated seconds of a depth, of which ``read_before`` tokens are in the prefix cache already."""
    plain = list(filter(_is_plain_answer, samples))
    read, milliseconds = (sum(sample[key] for sample in plain) for key in ("prompt_n", "prompt_ms"))
    kinds = len({sample["kind"] for sample in plain})
    answer_ms = sum(sample["output_ms"] for sample in plain) / len(plain)
    return float((depth - read_before) * milliseconds / max(read, 1) + kinds * answer_ms) / 1000


def _is_plain_answer(sample: Sample) -> bool:
    return is_plain_sample(sample) and sample["streams"] == 1


def _pair_each_depth_with_previous(depths: Sequence[int]) -> list[tuple[int, int]]:
    """Return each depth with the depth before it, which is a part of its context."""
    return list(zip([0, *depths], depths))


def _measure_and_append_depth(meter: Meter, document: dict[str, Any], context: Sequence[int]) -> str:
    """Measure one depth; return why its round is discarded, an empty text for a round that counts."""
    row = schedule.next_benchmark_round(document["plan"]["order"], schedule.DEPTH)
    place = {"round": row["round"], "arm": schedule.RUNNING, "start": 1}
    samples, discard_reason = meter.measure_samples_at_depth(place, context)
    document["plan"]["order"].append(row)
    document["samples"] += samples
    return discard_reason
