# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Predicts by how much guessed tokens multiply the decode rate of a model: by a draft model, or by its MTP layers.

A step verifies the guessed tokens in one batch. So it reads the weights once, and computes all tokens of the batch.
"""

from __future__ import annotations

from ...plan.draft_estimate import LONGEST_DRAFT, expected_tokens_per_step
from ...prediction.decode_rate import predict_decode_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...._models.model_shape import ModelShape
    from ...prediction.step_floor import Processor

#: The share of guessed tokens that is accepted, from prose to code. Reports have 0.6 to 0.7 for prose, and more for
#: code.
ACCEPTANCES = (0.6, 0.8)
#: The most tokens that MTP layers guess in a step, and the share of a token's time that a guess of them takes: one
#: layer of some 50, and the output.
MTP_LONGEST, MTP_SHARE = 3, 0.04


def predict_speculation_gains(
    target: ModelShape, draft: ModelShape | None, processor: Processor, gbps: float, source: str
) -> tuple[float, float]:
    """Return the least and the largest factor by which guesses raise the rate; without ``draft``, MTP layers guess.

    A factor is at least 1, because a draft that gains nothing is left out.
    """
    step_ms = [
        1000 / predict_decode_rate(target, processor, gbps, source, tokens).tokens_per_second
        for tokens in range(1, (LONGEST_DRAFT if draft else MTP_LONGEST) + 2)
    ]
    guess_ms = (
        1000 / predict_decode_rate(draft, processor, gbps, source).tokens_per_second
        if draft
        else MTP_SHARE * step_ms[0]
    )
    gains = [
        max(
            expected_tokens_per_step(acceptance, guessed) * step_ms[0] / (step_ms[guessed] + guessed * guess_ms)
            for guessed in range(len(step_ms))
        )
        for acceptance in ACCEPTANCES
    ]
    return gains[0], gains[1]
