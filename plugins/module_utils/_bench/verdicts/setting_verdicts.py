# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each setting does here, from the samples alone.

One metric decides on a setting: the geometric mean over the kinds of prompts of the tokens per second that are decoded
with one stream. Prefill, several streams and each kind by itself are guards: a proven loss there forbids "pays". The
probability of a false claim is shared out among all arms that are compared with the anchor, so it holds for the run.

Speculation makes tokens per second depend on the text. Where arms that speculate gave other texts, time per step
decides instead, and tokens per step may not contradict it.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from . import soundness
from .comparison import HURTS, NOTHING, PAYS, UNDECIDED, Rule, compare, key_text
from .confirmation import Confirmation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison

UNTESTED, REJECTED = "not tested", "rejected"
#: Verdicts that a race ends with, so these settings count as tested.
RACED = (PAYS, HURTS, NOTHING, UNDECIDED)
OTHER_TEXT = "other text"
STEP_KEY, PER_STEP_KEY = (measured_rounds.STEPS, "", 1), (measured_rounds.PER_STEP, "", 1)


class Verdict:
    """What was found out about one setting: the word, the reason where it needs one, and the comparisons."""

    __slots__ = ("guards", "knob", "open", "primary", "reason", "unit", "word")

    def __init__(self, knob: str, unit: str, word: str, reason: str = "") -> None:
        self.knob = knob
        self.unit = unit
        self.word = word
        self.reason = reason
        self.primary: Comparison | None = None
        self.guards: list[Comparison] = []
        #: Whether more rounds may decide.
        self.open = False


class Judgement:
    """All that a run says: the verdicts in the order of the plan, the rounds, and why the run is void, if it is."""

    __slots__ = ("confirmation", "faults", "rounds", "stock", "twins", "verdicts")

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Judge a document that document.check has passed."""
        self.rounds = measured_rounds.of(document)
        plan = document["plan"]
        arms = {arm["name"]: arm for arm in plan["arms"]}
        knobs = [arm for arm in plan["arms"] if arm["without"] is not None]
        compared = sum(name not in (schedule.TUNED, schedule.KEPT) for name in arms)
        rules = {
            unit: Rule(plan["alpha"] / compared, math.log1p(plan["zone"]), rule.least)
            for unit, rule in schedule.UNITS.items()
        }
        ablation = {
            unit: [one for one in self.rounds if (one.unit, one.phase) == (unit, schedule.ABLATION)]
            for unit in schedule.UNITS
        }
        self.twins = {
            unit: compare(those, schedule.AGAIN, measured_rounds.ONE_STREAM, rules[unit])
            for unit, those in ablation.items()
            if those
        }
        unit = arms[schedule.STOCK]["class"]
        self.stock = compare(ablation[unit], schedule.STOCK, measured_rounds.ONE_STREAM, rules[unit])
        self.verdicts = [
            Verdict(arm["without"], arm["class"], REJECTED, plan["rejected"][arm["without"]])
            if arm["without"] in plan["rejected"]
            else _verdict(arm, ablation[arm["class"]], rules[arm["class"]])
            for arm in knobs
        ]
        self.verdicts += [Verdict(knob, "", UNTESTED, why) for knob, why in sorted(plan["untested"].items())]
        self.faults = soundness.faults(document, self.rounds, self.twins)
        for one in self.verdicts if self.faults else ():
            if one.word in RACED:
                one.word, one.reason, one.open = UNDECIDED, "the run is void", False
        self.confirmation = Confirmation(document, self.rounds)

    def rows(self) -> list[dict[str, Any]]:
        """Return plain data for programs: a row for each setting, then one for each of its guards, ratios or None."""
        return [
            {"knob": one.knob, "verdict": word, **(comparison.to_dict() if comparison else {})}
            for one in self.verdicts
            for word, comparison in ((one.word, one.primary), *((guard.word, guard) for guard in one.guards))
        ]

    def open(self, unit: str) -> list[str]:
        """Return the settings of a class that need another round: a run goes on until none does, or it is void."""
        return [one.knob for one in self.verdicts if one.open and one.unit == unit]

    def claims(self) -> list[str]:
        """Return the settings of which the run says that they pay or hurt."""
        return [one.knob for one in self.verdicts if one.word in (PAYS, HURTS)]


def _verdict(arm: Mapping[str, Any], those: Sequence[Round], rule: Rule) -> Verdict:
    name, unit = arm["name"], arm["class"]
    one = Verdict(arm["without"], unit, UNDECIDED)
    untaken = next((r.number for r in those if arm["settings"] and _same_settings(r, name)), None)
    if untaken is not None:
        one.word, one.reason = REJECTED, f"in round {untaken} its settings read back as those of the anchor"
        return one
    one.primary = compare(those, name, measured_rounds.ONE_STREAM, rule)
    least = 1 if unit != schedule.REBOOT else rule.least
    tried = sum(name in r.planned for r in those)
    one.open = one.primary.count < schedule.MOST and tried < schedule.TRIES
    if one.primary.count < least:
        one.word = UNTESTED
        one.reason = f"{one.primary.count} of {least} {schedule.UNITS[unit].name}{'' if least == 1 else 's'} count"
        return one
    other = any(_other_text(r, name) for r in those if not r.void)
    if other:
        _judge_steps(one, those, name, rule)
    else:
        one.word = one.primary.word
        one.open = one.open and one.word == UNDECIDED
    keys = measured_rounds.guards(those, measured_rounds.STEPS if other else measured_rounds.DECODE)
    one.guards = [compare(those, name, key, rule) for key in keys]
    lost = [guard for guard in one.guards if guard.word == HURTS]
    if one.word == PAYS and lost:
        one.word, one.reason = UNDECIDED, f"better over all kinds, but {key_text(lost[0])} loses: {lost[0].text()}"
    elif one.word == UNDECIDED and not one.reason and not one.open:
        one.reason = f"{one.primary.count} rounds that count, of {tried}, did not decide"
    return one


def _judge_steps(one: Verdict, those: Sequence[Round], name: str, rule: Rule) -> None:
    """Judge by the time of a step where the texts differ, as long as tokens per step do not say otherwise."""
    step, per_step = (compare(those, name, key, rule) for key in (STEP_KEY, PER_STEP_KEY))
    one.primary = step
    one.reason = f"{OTHER_TEXT}: judged by time per step; tokens per step {per_step.text()}"
    words = (step.word, per_step.word)
    if NOTHING in words and words[0] == words[1]:
        one.word = NOTHING
    elif step.word in (PAYS, HURTS) and per_step.word in (step.word, NOTHING):
        one.word = step.word
    one.open = one.open and UNDECIDED in words


def _other_text(one: Round, name: str) -> bool:
    """Return whether arms of which one speculates are not known to have given the same text for each kind."""
    if not {name, schedule.TUNED} & one.drafted or name not in one.levels:
        return False
    kinds = sorted(kind for arm, kind in one.texts if arm == name)
    pairs = [(one.texts[name, kind], one.texts.get((schedule.TUNED, kind), {None})) for kind in kinds]
    return any(mine != other or None in mine for mine, other in pairs)


def _same_settings(one: Round, name: str) -> bool:
    return bool(one.proof.get(name, set()) & one.proof.get(schedule.TUNED, set()))
