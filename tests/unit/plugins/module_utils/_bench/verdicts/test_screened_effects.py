# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a screening settles, where a setting may have an effect on one objective and not on another one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.screening import build_mirror_pairs
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench, knob

NAMES = ["ubatch", "threads", "pages", "boost", "governor", "load mode", "masks"]


def screen(
    seed: int, effects: Mapping[str, float], by_metric: Mapping[tuple[str, str], float], noise: float = 0.004
) -> Judgement:
    """Return the judgement of a run of two folds of a screening, without a race."""
    all_effects = {name: effects.get(name, 0.0) for name in NAMES}
    bench = Bench(seed, all_effects, schedule.RESTART, noise=noise, by_metric=by_metric)
    bench.nth[schedule.SCREENING] = 0
    bench.data["plan"].update(objectives=["latency", "prompt"])
    arms = bench.data["plan"]["arms"]
    for fold in range(2):
        pairs = build_mirror_pairs(NAMES, seed, fold)
        for at in range(0, len(pairs), 2):
            names = [schedule.TUNED]
            for removed in (removed for pair in pairs[at : at + 2] for removed in pair):
                number = 1 + sum(map(schedule.is_screening_arm, arms))
                knobs = [knob(name, schedule.RESTART) for name in removed]
                arms.append(schedule.build_screening_arm(number, knobs, schedule.RESTART))
                names.append(arms[-1]["name"])
            bench.round(names, schedule.SCREENING)
    return Judgement(run_document.validate_document(bench.data))


def test_a_setting_without_an_effect_on_any_objective_is_settled() -> None:
    judgement = screen(1, {"threads": 0.1}, {("threads", "prefill"): 0.1})
    words = {verdict.knob: verdict.word for verdict in judgement.verdicts}
    assert words == {**dict.fromkeys(NAMES, "nothing"), "threads": "not tested"}
    assert judgement.undecided_settings(schedule.RESTART) == ["threads"]
    settled = next(verdict for verdict in judgement.verdicts if verdict.knob == "pages")
    assert settled.is_settled_by_screening and settled.reason.startswith("by the screening: ")
    assert judgement.screened["threads"].to_ratios()[0] == pytest.approx(1.1, abs=0.01)


def test_a_setting_that_gains_in_another_objective_is_not_settled() -> None:
    judgement = screen(1, {}, {("ubatch", "prefill"): 0.4})
    assert judgement.undecided_settings(schedule.RESTART) == ["ubatch"]
    assert judgement.screened["ubatch"].to_ratios()[0] == pytest.approx(1.4, abs=0.02), "it is raced for its gain"


def test_a_screening_claims_no_gain() -> None:
    judgement = screen(1, {"threads": 0.3}, {})
    assert judgement.settings_proven_to_help_or_hurt() == []


def test_a_noisy_screening_settles_nothing() -> None:
    judgement = screen(1, {}, {}, noise=0.03)
    assert judgement.undecided_settings(schedule.RESTART) == NAMES
