# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the answers of two arms to the same prompts differ: in their speed by prompt, and in their texts.

The speed of a server that speculates depends on the text. Another setting may round numbers otherwise and so change a
text, and with it the number of accepted drafted tokens.
"""

from __future__ import annotations

import math

from ..statistics.confidence_interval import mean
from . import schedule
from .measured_rounds import PER_STEP, group_counting_rounds_by_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .measured_rounds import Key, Round

#: Levels that differ by less are equal but for rounding.
EQUAL_LEVELS = 1e-9


def log_ratios_of_prompts(
    rounds: Iterable[Round], arm: str, key: Key, anchor: str = schedule.TUNED
) -> dict[str, dict[str, list[float]]]:
    """Return by kind and prompt the log ratios of an anchor to an arm, one for each start.

    It is empty for metrics and rounds without prompts. A prompt counts if both arms were sent it.
    """
    metric, wanted_kind, streams = key
    by_kind: dict[str, dict[str, list[float]]] = {}
    for group in group_counting_rounds_by_start(rounds) if streams == 1 else ():
        ratios: dict[Any, list[float]] = {}
        for measured in group:
            above, below = measured.prompt_levels.get(anchor, {}), measured.prompt_levels.get(arm, {})
            for place in above.keys() & below.keys():
                ratios.setdefault(place, []).append(above[place] - below[place])
        for (of_metric, (kind, prompt)), values in sorted(ratios.items()):
            if of_metric == metric and wanted_kind in ("", kind):
                by_kind.setdefault(kind, {}).setdefault(prompt, []).append(mean(values))
    return by_kind


def speculating_arms_answers_differ(rounds: Iterable[Round], arm: str, anchor: str = schedule.TUNED) -> bool:
    """Return whether arms drafted tokens and their answers differ, in the texts or in the number of steps."""
    for measured in rounds:
        levels = measured.levels
        if measured.discard_reason or not {arm, anchor} & measured.speculating_arms or not {arm, anchor} <= set(levels):
            continue
        keys = [key for key in levels[arm] if key[0] == PER_STEP]
        if any(abs(levels[arm][key] - levels[anchor].get(key, math.inf)) > EQUAL_LEVELS for key in keys):
            return True
        if count_differing_texts([measured], arm, anchor)[0]:
            return True
    return False


def count_differing_texts(rounds: Iterable[Round], arm: str, anchor: str = schedule.TUNED) -> tuple[int, int]:
    """Return how many answers of an arm have another text than those of the anchor, and how many were compared.

    An answer is compared with the answers to the same prompt in the same round.
    """
    differing = compared = 0
    for measured in rounds:
        of_arm, of_anchor = measured.texts.get(arm, {}), measured.texts.get(anchor, {})
        for prompt in () if measured.discard_reason else of_arm.keys() & of_anchor.keys():
            expected = {digest for digest in of_anchor[prompt] if digest is not None}
            known = [digest for digest in of_arm[prompt] if digest is not None]
            if expected:
                compared += len(known)
                differing += sum(digest not in expected for digest in known)
    return differing, compared
