# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import knob

GOLDEN = [
    ["without b", "again", "stock", "tuned", "without a"],
    ["without b", "stock", "again", "tuned", "without a"],
    ["again", "without a", "stock", "tuned", "without b"],
]
KNOBS = [knob("boost"), knob("threads", schedule.RESTART), knob("pages", schedule.RESTART)]
NAMES = ("stock", "tuned", "again", "without a", "without b")


def orders(unit: str, rounds: int, seed: int = 7, names: Sequence[str] = NAMES) -> list[list[str]]:
    return [schedule.plan_round(seed, nth, unit, nth, names)["arms"] for nth in range(1, rounds + 1)]


def test_the_arms_of_an_ablation() -> None:
    arms = {arm["name"]: arm for arm in schedule.build_ablation_arms(KNOBS)}
    assert list(arms) == ["stock", "tuned", "again", "without boost", "without threads", "without pages"]
    assert arms["stock"]["class"] == "restart" and set(arms["stock"]["settings"]) == {
        "sysfs:boost",
        "sysfs:threads",
        "sysfs:pages",
    }
    assert (arms["tuned"]["class"], arms["again"]["settings"]) == (None, {})
    assert arms["without pages"]["settings"] == {"sysfs:pages": "1"}
    assert schedule.build_kept_arm(KNOBS[:1], "restart")["settings"] == {"sysfs:boost": "1"}


def test_each_class_has_its_own_rounds() -> None:
    arms = [*schedule.build_ablation_arms(KNOBS), schedule.build_kept_arm([], "restart")]
    assert schedule.arm_names_of_round(arms, "live", ["boost", "threads"]) == ["tuned", "again", "without boost"]
    assert schedule.arm_names_of_round(arms, "restart", ["threads"]) == ["tuned", "again", "without threads"]


def test_an_arm_says_which_settings_it_leaves_out() -> None:
    arms = {arm["name"]: arm["removed"] for arm in schedule.build_ablation_arms(KNOBS)}
    assert (arms["stock"], arms["tuned"]) == (["boost", "threads", "pages"], [])
    assert arms["without pages"] == ["pages"]
    screened = schedule.build_screening_arm(3, KNOBS[1:], "restart")
    assert (screened["name"], screened["without"], screened["removed"]) == ("screen 3", None, ["threads", "pages"])
    assert schedule.is_screening_arm(screened) and schedule.rejectable_setting_or_candidate(screened) == "screen 3"


def test_no_knob_and_a_knob_that_comes_twice_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"boost comes twice; name each setting once"):
        schedule.build_ablation_arms([KNOBS[0], KNOBS[0]])
    with pytest.raises(BadRequest, match=r"no setting to leave out: run site\.yml first"):
        schedule.build_ablation_arms([])


def test_the_order_of_a_seed_is_the_same_on_every_python() -> None:
    """The rows are what this seed gave once; the gates run this on each Python there is."""
    assert orders("live", 3) == GOLDEN
    assert orders("live", 3, seed=8) != GOLDEN


def test_blocks_are_complete_and_no_arm_has_a_place_of_its_own() -> None:
    rows = orders("live", 500)
    assert all(sorted(row) == sorted(NAMES) for row in rows)
    for place in range(len(NAMES)):
        for name in NAMES:
            assert 70 <= sum(row[place] == name for row in rows) <= 130


def test_an_arm_that_drops_out_leaves_the_others_in_their_order() -> None:
    fewer = [name for name in NAMES if name != "without a"]
    assert orders("restart", 9, names=fewer) == [[n for n in row if n in fewer] for row in orders("restart", 9)]


def test_every_second_round_of_boots_is_reversed() -> None:
    rows = orders("reboot", 6)
    assert [row[::-1] for row in rows[::2]] == rows[1::2]
    assert rows[0] != rows[2]


def test_each_round_has_a_start_of_its_own_or_each_arm_has() -> None:
    assert all(schedule.plan_round(1, nth, "live", nth, NAMES)["restart"] for nth in range(1, 12))
    assert not any(schedule.plan_round(1, nth, "restart", nth, NAMES)["restart"] for nth in range(1, 12))


@pytest.mark.parametrize(("count", "rounds"), [(2, 4), (3, 6), (5, 10)])
def test_in_the_confirmation_each_arm_follows_each_other_arm_equally_often(count: int, rounds: int) -> None:
    names = NAMES[:count]
    rows = [schedule.plan_round(7, nth, "restart", nth, names, schedule.CONFIRMATION)["arms"] for nth in range(1, 99)]
    assert rows[:rounds] == rows[rounds : 2 * rounds]
    order = [name for row in rows[: rounds + 1] for name in row][: rounds * count + 1]
    pairs = [(before, after) for before, after in zip(order, order[1:]) if before != after]
    assert {pairs.count((one, other)) for one in names for other in names if one != other} == {
        len(pairs) // (count * (count - 1))
    }
    for place in range(count):
        assert {[row[place] for row in rows[:rounds]].count(name) for name in names} == {rounds // count}
