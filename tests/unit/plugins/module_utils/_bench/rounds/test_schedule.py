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
PHASES = (schedule.ABLATION, schedule.CONFIRMATION)


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
    assert schedule.arm_names_of_round(arms, "restart", ["threads"]) == ["stock", "tuned", "again", "without threads"]


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


def test_the_server_that_all_share_starts_anew_every_five_rounds() -> None:
    live = [schedule.plan_round(1, nth, "live", nth, NAMES)["restart"] for nth in range(1, 12)]
    assert [nth for nth, restart in enumerate(live, 1) if restart] == [1, 6, 11]
    assert not any(schedule.plan_round(1, nth, "restart", nth, NAMES)["restart"] for nth in range(1, 12))


def test_the_confirmation_has_an_order_of_its_own() -> None:
    rows = [[schedule.plan_round(7, 1, "live", nth, NAMES, phase)["arms"] for nth in (1, 2, 3)] for phase in PHASES]
    assert rows[0] != rows[1]
