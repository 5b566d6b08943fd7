# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a report shows first: what was measured, and how fast the arm is that the run recommends."""

from __future__ import annotations

from ..load.objective_names import ENERGY, LATENCY, PROMPT, THROUGHPUT
from ..rounds import measured_rounds
from ..statistics.figures import percentile
from .report_model import Figure
from .shown_run import mean_tokens_per_second, tokens_per_second_by_round
from .wording import count_with_noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .shown_run import ShownRun

#: Objective -> what it is measured by.
OBJECTIVES = {
    LATENCY: "decoding of one stream",
    THROUGHPUT: "tokens per second of as many streams as slots",
    PROMPT: "prefill of one stream, and its time to first token",
    ENERGY: "tokens per joule",
}


def list_facts(run: ShownRun) -> list[tuple[str, str]]:
    """Return what was measured as label and value; a fact that the document does not name is left out."""
    known = run.data["fingerprint"]
    host = [known.get("host"), known["sku"] or "unknown processor", known.get("dimms")]
    host += [known.get("nps"), f"Linux {known['kernel'] or 'unknown'}"]
    model = [known.get("model") or _model_file_name(known["arguments"]), known.get("quantization")]
    engine = [known.get("engine"), known["engine_build"]]
    facts = {
        "host": ", ".join(_nonempty_values_to_texts(host)),
        "model": ", ".join(_nonempty_values_to_texts(model)),
        "engine": " ".join(_nonempty_values_to_texts(engine)),
    }
    objective = run.data["plan"].get("objective")
    if objective and run.arm != "running":
        facts["objective"] = f"{objective}: {OBJECTIVES[objective]}"
    return [(label, value) for label, value in facts.items() if value]


def list_figures(run: ShownRun) -> Iterator[Figure]:
    """Yield the figures of the arm that the run recommends, beside those of the arm that it is compared with."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    arm, other = arms[-1], arms[0] if len(arms) > 1 else ""
    mark = "" if run.counts else "discarded, and proves nothing"
    for label, streams, metric in _speeds_to_show(run):
        rates = tokens_per_second_by_round(rounds, arm, streams, metric)
        rate, compared = (mean_tokens_per_second(rounds, name, streams, metric) for name in (arm, other))
        if rate is not None:
            note = f"{arm}; {other} {compared:.1f}" if compared else f"rounds from {min(rates):.1f} to {max(rates):.1f}"
            notes = [f"{metric} of {count_with_noun(streams, 'stream')}", note, mark]
            yield Figure(label, f"{rate:.1f} tokens/s", "; ".join(_nonempty_values_to_texts(notes)))
    samples = run.select_samples(arm, rounds, 1)
    first = percentile([sample["ttft_ms"] for sample in samples if sample["ttft_ms"] is not None], 50)
    if first is not None:
        yield Figure(
            "first token", f"{first:.0f} ms", "; ".join(_nonempty_values_to_texts(["median of one stream", mark]))
        )
    share = run.share_of_ceiling(samples)
    if share is not None:
        yield Figure("ceiling", f"{100 * share:.0f} %", "of the speed that reading the memory allows")
    watts, tokens_per_joule = run.power_and_tokens_per_joule(arm, rounds)
    if watts is not None:
        note = f"{tokens_per_joule:.3g} tokens per joule" if tokens_per_joule else ""
        yield Figure("power", f"{watts:.0f} W", "; ".join(_nonempty_values_to_texts([note, mark])))


def _speeds_to_show(run: ShownRun) -> Iterator[tuple[str, int, str]]:
    """Yield label, number of streams and metric: decoding of one stream, and the output of the most streams."""
    counts = run.stream_counts()
    if 1 in counts:
        yield "speed", 1, measured_rounds.DECODE
    if counts and counts[-1] > 1:
        yield "throughput", counts[-1], measured_rounds.OUTPUT


def format_provenance(run: ShownRun) -> str:
    """Return the run with its time, seed, and numbers of rounds and samples."""
    data = run.data
    rounds = f"{count_with_noun(len(run.rounds), 'round')}, {len(run.discarded_rounds)} of them discarded"
    return f"{data['id']} of {data['started']}, seed {data['seed']}; {rounds}; " + count_with_noun(
        len(data["samples"]), "sample"
    )


def _model_file_name(arguments: list[str]) -> str:
    """Return the name of the model's file in the arguments of a server, "" without one."""
    for flag, value in zip(arguments, arguments[1:]):
        if flag in ("--model", "-m"):
            return value.rpartition("/")[2]
    return ""


def _nonempty_values_to_texts(values: Iterable[Any]) -> list[str]:
    return [str(value) for value in values if value]


def remove_remarks_equal_except_numbers(remarks: Iterable[str]) -> list[str]:
    """Return remarks without those that differ from an earlier remark in their numbers only."""
    first: dict[str, str] = {}
    for remark in remarks:
        words = "".join(char for char in remark if not (char.isdigit() or char == "."))
        first.setdefault(words, remark)
    return list(first.values())
