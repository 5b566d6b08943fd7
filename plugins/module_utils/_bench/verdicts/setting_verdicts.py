# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on each setting of an ablation, from the samples alone.

One metric decides on a setting: the geometric mean, over the kinds of prompts, of the tokens per second that are
decoded with one stream. Prefill, several streams and each kind by itself are guards: a proven loss there forbids
"pays". The probability of a false claim is shared among all arms that are compared with the anchor, so it holds for the
whole run.

With speculation, tokens per second depend on the text. Where arms that speculate generated different texts, the time
per step decides instead, and tokens per step must not contradict it.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from . import soundness
from .comparison import HURTS, NOTHING, PAYS, UNDECIDED, DecisionRule, compare_arms, format_metric
from .confirmation import Confirmation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison

UNTESTED, REJECTED = "not tested", "rejected"
#: Verdicts of settings that were measured; all other settings count as not tested.
TESTED_WORDS = (PAYS, HURTS, NOTHING, UNDECIDED)
OTHER_TEXT = "other text"
STEP_KEY, PER_STEP_KEY = (measured_rounds.STEPS, "", 1), (measured_rounds.PER_STEP, "", 1)


class Verdict:
    """The verdict on one setting: its word, the reason where it needs one, and the comparisons behind it."""

    def __init__(self, knob: str, unit: str, word: str, reason: str = "") -> None:
        self.knob = knob
        self.unit = unit
        self.word = word
        self.reason = reason
        self.primary: Comparison | None = None
        self.guards: list[Comparison] = []
        #: Whether more rounds may decide this setting.
        self.needs_rounds = False


class Judgement:
    """The result of an ablation: verdicts in the order of the plan, rounds, and why the run proves nothing, if so."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Judge a document that ``validate_document`` has returned."""
        self.rounds = measured_rounds.rounds_of_document(document)
        plan = document["plan"]
        arms = {arm["name"]: arm for arm in plan["arms"]}
        knobs = [arm for arm in plan["arms"] if arm["without"] is not None]
        compared = sum(name not in (schedule.TUNED, schedule.KEPT) for name in arms)
        rules = {
            unit: DecisionRule(plan["alpha"] / compared, math.log1p(plan["zone"]), rule.least)
            for unit, rule in schedule.REPETITIONS.items()
        }
        ablation = {
            unit: [measured for measured in self.rounds if (measured.unit, measured.phase) == (unit, schedule.ABLATION)]
            for unit in schedule.REPETITIONS
        }
        self.twins = {
            unit: compare_arms(those, schedule.AGAIN, measured_rounds.ONE_STREAM, rules[unit])
            for unit, those in ablation.items()
            if those
        }
        unit = arms[schedule.STOCK]["class"]
        self.stock = compare_arms(ablation[unit], schedule.STOCK, measured_rounds.ONE_STREAM, rules[unit])
        self.verdicts = [
            Verdict(arm["without"], arm["class"], REJECTED, plan["rejected"][arm["without"]])
            if arm["without"] in plan["rejected"]
            else _judge_setting(arm, ablation[arm["class"]], rules[arm["class"]])
            for arm in knobs
        ]
        self.verdicts += [Verdict(knob, "", UNTESTED, why) for knob, why in sorted(plan["untested"].items())]
        self.faults = soundness.find_faults(document, self.rounds, self.twins)
        for verdict in self.verdicts if self.faults else ():
            if verdict.word in TESTED_WORDS:
                verdict.word, verdict.reason, verdict.needs_rounds = UNDECIDED, "the run is not sound", False
        self.confirmation = Confirmation(document, self.rounds)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return plain data: a row for each setting, then one for each of its guards; ratios may be None."""
        return [
            {"knob": verdict.knob, "verdict": word, **(comparison.to_dict() if comparison else {})}
            for verdict in self.verdicts
            for word, comparison in (
                (verdict.word, verdict.primary),
                *((guard.word, guard) for guard in verdict.guards),
            )
        ]

    def undecided_settings(self, unit: str) -> list[str]:
        """Return the settings of a class that need another round; a run continues until there are none."""
        return [verdict.knob for verdict in self.verdicts if verdict.needs_rounds and verdict.unit == unit]

    def claimed_settings(self) -> list[str]:
        """Return the settings of which the run proves that they pay or hurt."""
        return [verdict.knob for verdict in self.verdicts if verdict.word in (PAYS, HURTS)]


def _judge_setting(arm: Mapping[str, Any], those: Sequence[Round], rule: DecisionRule) -> Verdict:
    name, unit = arm["name"], arm["class"]
    one = Verdict(arm["without"], unit, UNDECIDED)
    untaken = next((r.number for r in those if arm["settings"] and _settings_unchanged(r, name)), None)
    if untaken is not None:
        one.word, one.reason = REJECTED, f"in round {untaken} its settings read back as those of the anchor"
        return one
    one.primary = compare_arms(those, name, measured_rounds.ONE_STREAM, rule)
    least = 1 if unit != schedule.REBOOT else rule.least
    tried = sum(name in r.planned_arms for r in those)
    one.needs_rounds = one.primary.count < schedule.MAX_ROUNDS and tried < schedule.MAX_ROUND_TRIES
    if one.primary.count < least:
        one.word = UNTESTED
        one.reason = (
            f"{one.primary.count} of {least} {schedule.REPETITIONS[unit].name}{'' if least == 1 else 's'} count"
        )
        return one
    other = any(_texts_differ(r, name) for r in those if not r.discard_reason)
    if other:
        _judge_by_step_time(one, those, name, rule)
    else:
        one.word = one.primary.word
        one.needs_rounds = one.needs_rounds and one.word == UNDECIDED
    keys = measured_rounds.guard_metrics(those, measured_rounds.STEPS if other else measured_rounds.DECODE)
    one.guards = [compare_arms(those, name, key, rule) for key in keys]
    lost = [guard for guard in one.guards if guard.word == HURTS]
    if one.word == PAYS and lost:
        one.word, one.reason = (
            UNDECIDED,
            f"better over all kinds, but {format_metric(lost[0])} loses: {lost[0].format_ratio()}",
        )
    elif one.word == UNDECIDED and not one.reason and not one.needs_rounds:
        one.reason = f"{one.primary.count} rounds that count, of {tried}, did not decide"
    return one


def _judge_by_step_time(one: Verdict, those: Sequence[Round], name: str, rule: DecisionRule) -> None:
    """Judge by the time per step where texts differ, if tokens per step do not contradict it."""
    step, per_step = (compare_arms(those, name, key, rule) for key in (STEP_KEY, PER_STEP_KEY))
    one.primary = step
    one.reason = f"{OTHER_TEXT}: judged by time per step; tokens per step {per_step.format_ratio()}"
    words = (step.word, per_step.word)
    if NOTHING in words and words[0] == words[1]:
        one.word = NOTHING
    elif step.word in (PAYS, HURTS) and per_step.word in (step.word, NOTHING):
        one.word = step.word
    one.needs_rounds = one.needs_rounds and UNDECIDED in words


def _texts_differ(one: Round, name: str) -> bool:
    """Return whether arms, of which at least one speculates, generated or may have generated different texts."""
    if not {name, schedule.TUNED} & one.speculating_arms or name not in one.levels:
        return False
    kinds = sorted(kind for arm, kind in one.texts if arm == name)
    pairs = [(one.texts[name, kind], one.texts.get((schedule.TUNED, kind), {None})) for kind in kinds]
    return any(mine != other or None in mine for mine, other in pairs)


def _settings_unchanged(one: Round, name: str) -> bool:
    return bool(one.settings_digests.get(name, set()) & one.settings_digests.get(schedule.TUNED, set()))
