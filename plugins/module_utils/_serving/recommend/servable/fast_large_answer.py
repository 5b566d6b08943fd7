# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers whether a host gives 60 tokens per second at the quality of a dense model of 70 billion parameters.

A dense model of that size reads all its weights for each token. A mixture of experts with 3 to 12 billion active
parameters reads a small part of its weights, so it is the candidate.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .servable_models import ServableModel

TARGET_RATE = 60.0
#: Billions of parameters: of a dense model "of 70B", and the active ones of the candidates.
DENSE_SIZES, ACTIVE_SIZES = (60.0, 80.0), (3.0, 12.0)
#: The number of published rates that the answer shows.
MOST_PUBLIC_RATES = 3


def answer_fast_large_model(models: Sequence[ServableModel], public_rates: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the answer as sentences, with the arithmetic, published rates, and the source of the quality.

    ``models`` are in the order of a recommendation. ``public_rates`` have ``cpu``, ``model``, ``rate``, ``gbps`` and
    ``source``.
    """
    dense = find_dense_reference(models)
    candidates = [model for model in models if model.fits_in_memory and is_mixture_of_target_size(model)]
    comparable = [model for model in candidates if is_at_least_as_good(model, dense)]
    question = f"{TARGET_RATE:.0f} tokens per second at the quality of a dense 70B"
    if not candidates:
        low, high = ACTIVE_SIZES
        sentences = [
            f"{question}: no. No mixture of experts with {low:.0f} to {high:.0f} billion active parameters is in the "
            "catalogue that fits here."
        ]
    else:
        best = choose_model_to_name(comparable or candidates)
        sentences = [f"{question}: {_reaches_target_rate_word(best)}", _quality_sentence(best, dense, bool(comparable))]
    if dense and dense.rate:
        needed = TARGET_RATE * dense.shape.bytes_per_token / 1e9
        sentences.append(
            f"The dense {dense.name} is predicted at {dense.rate.tokens_per_second:.1f}: {dense.rate.arithmetic}. "
            f"For {TARGET_RATE:.0f} it would need {needed:.0f} GB/s without any floor, and this place reads "
            f"{dense.rate.gbps:.0f} GB/s ({dense.rate.source})."
        )
    shown = [
        f"{rate['rate']:g} of {rate['model']} on {rate['cpu']} reading {rate['gbps']:.0f} GB/s ({rate['source']})"
        for rate in public_rates[:MOST_PUBLIC_RATES]
    ]
    return [*sentences, *([f"Published by others: {'; '.join(shown)}."] if shown else [])]


def choose_model_to_name(models: Sequence[ServableModel]) -> ServableModel:
    """Return the best model of those that are predicted to reach TARGET_RATE, else the fastest.

    ``models`` are in the order of a recommendation.
    """

    def rate(model: ServableModel) -> float:
        return model.rate.tokens_per_second if model.rate else 0.0

    return next((model for model in models if rate(model) >= TARGET_RATE), max(models, key=rate))


def is_mixture_of_target_size(model: ServableModel) -> bool:
    """Return whether a model is a mixture of experts with 3 to 12 billion active parameters."""
    low, high = ACTIVE_SIZES
    return model.shape.is_mixture and low <= model.shape.active_parameters / 1e9 <= high


def find_dense_reference(models: Sequence[ServableModel]) -> ServableModel | None:
    """Return the dense model of about 70 billion parameters that the catalogue has, whether it fits or not."""
    low, high = DENSE_SIZES
    return next(
        (model for model in models if not model.shape.is_mixture and low <= model.shape.parameters / 1e9 <= high), None
    )


def is_at_least_as_good(model: ServableModel, dense: ServableModel | None) -> bool:
    """Return whether a public score says that a model is at least as good as the dense one in the same benchmark."""
    if dense is None or not model.benchmark or model.benchmark != dense.benchmark:
        return False
    return float(model.quality["score"]) >= float(dense.quality["score"])


def _reaches_target_rate_word(model: ServableModel) -> str:
    rate = model.rate
    if rate is None:
        return ""
    top = rate.high * (model.gains[1] if model.gains else 1.0)
    if rate.low >= TARGET_RATE:
        word = "yes"
    elif rate.tokens_per_second >= TARGET_RATE:
        word = "probably"
    elif top >= TARGET_RATE:
        word = "only at the upper end of the prediction"
    else:
        word = "no"
    guessed = ""
    if model.gains and model.gains[1] > 1:
        low, high = (gain * rate.tokens_per_second for gain in model.gains)
        guessed = f" With {model.guesser}, {low:.0f} to {high:.0f} are predicted."
    return (
        f"{word}. {model.name} ({model.shape.parameters / 1e9:.0f} billion parameters, "
        f"{model.shape.active_parameters / 1e9:.1f} active) is predicted at {rate.tokens_per_second:.0f} tokens per "
        f"second, {rate.low:.0f} to {rate.high:.0f}, for one user: {rate.arithmetic}.{guessed}"
    )


def _quality_sentence(model: ServableModel, dense: ServableModel | None, is_shown: bool) -> str:
    if is_shown and dense:
        return (
            f"Quality: {model.quality['score']:g} in {model.quality['name']} ({model.quality.get('source')}), against "
            f"{dense.quality['score']:g} of {dense.name} in {dense.quality['name']} ({dense.quality.get('source')})."
        )
    return (
        f"Quality: no public score in the catalogue shows that {model.name} reaches a dense 70B; ask both your own "
        "questions before you decide."
    )
