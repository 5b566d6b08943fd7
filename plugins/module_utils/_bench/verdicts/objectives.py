# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objectives for which an instance is measured: each has its own metric, and a setting has a verdict for each.

- ``latency``: tokens per second of one stream, decoding only.
- ``throughput``: tokens per second of as many streams as were measured at most, end to end.
- ``prompt``: tokens of a prompt per second.
- ``energy``: tokens per joule.
"""

from __future__ import annotations

from ..load.objective_names import ENERGY, LATENCY, PROMPT, THROUGHPUT
from ..rounds import measured_rounds
from .comparison import HURTS, MIXED, PAYS, UNDECIDED, compare_anchor_with_arm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Key, Round
    from .comparison import Comparison, DecisionRule

#: Objective -> its metric; that of throughput has the number of streams of the run.
METRICS: dict[str, Key] = {
    LATENCY: measured_rounds.ONE_STREAM,
    PROMPT: (measured_rounds.PREFILL, "", 1),
    ENERGY: (measured_rounds.TOKENS_PER_JOULE, "", 1),
}


def find_metrics_of_objectives(rounds: Iterable[Round]) -> dict[str, Key]:
    """Return the metric of each objective that the rounds that count have measured."""
    present = measured_rounds.list_metrics(rounds)
    metrics = {objective: key for objective, key in METRICS.items() if key in present}
    several = [key for key in present if key[0] == measured_rounds.OUTPUT and not key[1] and key[2] > 1]
    return {**metrics, THROUGHPUT: max(several, key=lambda key: key[2])} if several else metrics


def order_objectives(plan: Mapping[str, Any]) -> list[str]:
    """Return the objectives of a plan that get a verdict; the one that decides is the first."""
    return list(dict.fromkeys([plan["objective"], *plan["objectives"]]))


def compare_objectives(
    rounds: Sequence[Round], arm: str, plan: Mapping[str, Any], rule: DecisionRule, anchor: str
) -> dict[str, Comparison]:
    """Compare an anchor with an arm by each objective of the plan that was measured; the deciding one is the first."""
    metrics = find_metrics_of_objectives(rounds)
    return {
        objective: compare_anchor_with_arm(rounds, arm, metrics[objective], rule, anchor)
        for objective in order_objectives(plan)
        if objective in metrics
    }


def compare_guard_metrics(
    rounds: Sequence[Round], arm: str, plan: Mapping[str, Any], rule: DecisionRule, anchor: str
) -> list[Comparison]:
    """Compare an anchor with an arm by the metrics that get no verdict of their own."""
    metrics = find_metrics_of_objectives(rounds)
    judged = {metrics.get(objective) for objective in order_objectives(plan)}
    keys = [key for key in measured_rounds.list_guard_metrics(rounds) if key not in judged]
    return [compare_anchor_with_arm(rounds, arm, key, rule, anchor) for key in keys]


def combine_verdict_words(words: Sequence[str], guard_words: Sequence[str] = ()) -> str:
    """Return the word for all objectives from the word for each, of which the deciding one is the first.

    A proven gain and a proven loss together are mixed. A guard alone moves nothing, because it is a part of a metric
    that decides or belongs to an objective that was not asked for.
    """
    moved = {PAYS, HURTS} & set(words)
    if not moved:
        return words[0] if words else UNDECIDED
    return MIXED if len(moved | ({PAYS, HURTS} & set(guard_words))) > 1 else moved.pop()
