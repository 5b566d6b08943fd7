# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The design of a screening: arms that each leave out about half of the settings.

Over the arms of a fold, each setting is left out in half of the arms, and in half of the arms with each other setting.
So every sample tells something of the effect of every setting: 40 arms estimate the effects of 19 settings as exactly
as 19 comparisons of 20 arms each would. Each arm has a mirror arm, which leaves out the other half (fold-over), so that
no pair of settings that act together is mistaken for a third setting.

Source: Plackett and Burman, "The design of optimum multifactorial experiments" (1946); Box and Wilson, "On the
experimental attainment of optimum conditions" (1951), fold-over.
"""

from __future__ import annotations

import hashlib
import math

from .hadamard import build_hadamard_matrix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    #: The names of the settings that an arm leaves out, and the same of its mirror arm.
    MirrorPair = tuple[tuple[str, ...], tuple[str, ...]]

#: With fewer settings an ablation leaves them out one at a time from its beginning.
LEAST_SETTINGS = 4
#: Mirror pairs of a round, beside the anchor: a drift of the machine that is slower than a round cancels out.
PAIRS_PER_ROUND = 2
#: Arms of a full round: the anchor and the mirror pairs.
ARMS_PER_ROUND = 1 + 2 * PAIRS_PER_ROUND
#: The largest number of folds of a run.
MAX_FOLDS = 4


def build_mirror_pairs(names: Sequence[str], seed: int, fold: int) -> list[MirrorPair]:
    """Return the mirror pairs of a fold, in the order in which they are measured.

    The seed decides which setting has which column, and in which order the pairs come; each fold has other columns.
    """
    matrix = build_hadamard_matrix(len(names) + 1)
    columns = {name: at for at, name in enumerate(_sort_by_digest(names, f"{seed}/columns/{fold}"), 1)}
    pairs = [
        (
            tuple(name for name in names if row[columns[name]] < 0),
            tuple(name for name in names if row[columns[name]] > 0),
        )
        for row in matrix
    ]
    order = _sort_by_digest([str(at) for at in range(len(pairs))], f"{seed}/pairs/{fold}")
    return [pairs[int(at)] for at in order]


def count_fold_rounds(setting_count: int) -> int:
    """Return the number of rounds of a fold for a number of settings."""
    return math.ceil(len(build_hadamard_matrix(setting_count + 1)) / PAIRS_PER_ROUND)


def _sort_by_digest(names: Sequence[str], prefix: str) -> list[str]:
    return sorted(names, key=lambda name: hashlib.sha256(f"{prefix}/{name}".encode()).digest())
