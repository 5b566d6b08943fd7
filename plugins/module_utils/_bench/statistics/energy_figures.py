# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tokens per joule, and watts, of samples.

All samples of an arm in a round have the same witness, so that its energy and its tokens count once. The tokens are all
that the server generated for these prompts, with one stream and with several.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def compute_tokens_per_joule(samples: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the generated tokens per joule; None where the energy or the tokens of any arm in a round are unknown."""
    joules, dummy, tokens = _sum_over_witnesses(samples)
    return tokens / joules if joules and tokens else None


def compute_mean_watts(samples: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the mean power while the samples were taken; None where the energy of any arm in a round is unknown."""
    joules, seconds, dummy = _sum_over_witnesses(samples)
    return joules / seconds if joules and seconds else None


def _sum_over_witnesses(samples: Iterable[Mapping[str, Any]]) -> list[float | None]:
    """Return joules, seconds and tokens of all arms in their rounds; None for a sum of which a part is unknown."""
    witnesses = {(sample["round"], sample["arm"], sample["start"]): sample["witness"] for sample in samples}
    return [
        _sum_or_none([witness.get(field) for witness in witnesses.values()])
        for field in ("joules", "seconds", "tokens")
    ]


def _sum_or_none(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
