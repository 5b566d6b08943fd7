# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Predicted rates beside the rates that runs measured.

A prediction is of steps, each of which gives one token unless the instance speculates. So steps are compared.
"""

from __future__ import annotations

from ..rounds.run_summary import summarize_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any


class ComparedPrediction:
    """A predicted rate of an instance with a number of streams, and what a run measured then.

    ``tokens`` and ``steps`` are those of one stream per second.
    """

    __slots__ = ("host", "instance", "model", "predicted", "started", "steps", "tokens")

    def __init__(self, summary: Mapping[str, Any], predicted: Mapping[str, Any], rates: Mapping[str, Any]) -> None:
        self.host = str(summary["host"] or "")
        self.instance = str(summary["instance"])
        self.model = str(summary["model"] or "")
        self.started = str(summary["started"])
        self.predicted = predicted
        self.tokens = float(rates["tokens_per_second"])
        self.steps = float(rates["steps_per_second"])

    @property
    def ratio(self) -> float:
        """The measured steps over the predicted ones."""
        return self.steps / float(self.predicted["tokens_per_second"])

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction and the measured rates as plain data."""
        names = ("host", "instance", "model", "started", "tokens", "steps", "ratio")
        return {**{name: getattr(self, name) for name in names}, "predicted": dict(self.predicted)}


def compare_predictions(documents: Iterable[Mapping[str, Any]]) -> list[ComparedPrediction]:
    """Return the predictions in validated documents as ``compare_summaries`` does."""
    return compare_summaries(map(summarize_run, documents))


def compare_summaries(summaries: Iterable[Mapping[str, Any]]) -> list[ComparedPrediction]:
    """Return the predictions of the newest run of each instance with what the run measured.

    Predictions without a measured rate are left out, as are those of runs without a counting round.
    """
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for summary in sorted(summaries, key=lambda summary: str(summary["started"])):
        if summary["rates"]:
            newest[str(summary["host"]), summary["instance"]] = summary
    return [compared for key in sorted(newest) for compared in _compare_summary(newest[key])]


def _compare_summary(summary: Mapping[str, Any]) -> Iterator[ComparedPrediction]:
    rates = {rate["streams"]: rate for rate in summary["rates"]}
    for predicted in summary["predictions"]:
        if predicted["streams"] in rates and predicted["tokens_per_second"]:
            yield ComparedPrediction(summary, predicted, rates[predicted["streams"]])
