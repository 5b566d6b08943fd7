# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which CPUs and which L3 shares each role gets: for every request on every machine, and some plans in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import Plan
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cache_masks import count_ways
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.cpu_plans import (
    EACH_NODE,
    FULL,
    RECIPE,
    cpus_of,
    every_cpu_has_one_role,
    planned,
)


@pytest.fixture(scope="module", params=[*hosts.SHAPES, *hosts.ZEN6_SHAPES])
def top(request: pytest.FixtureRequest) -> Topology:
    return hosts.standing(request.param).topology()


@pytest.fixture(scope="module")
def small() -> Topology:
    return hosts.standing("small").topology()


# What holds for every intent on every machine

AMOUNTS = st.sampled_from(["1 way", "4 ways", "3MiB", "8MiB", "16MiB", "25%", "60%", "100%"])
PLACEMENTS = st.one_of(
    st.fixed_dictionaries({}, optional={"l3": AMOUNTS}),
    st.fixed_dictionaries({"ccds": st.integers(0, 3)}, optional={"l3": AMOUNTS}),
    st.fixed_dictionaries({"l3_domains": st.integers(0, 5)}, optional={"l3": AMOUNTS}),
)
INTENTS = st.fixed_dictionaries(
    {},
    optional={
        "housekeeping": st.fixed_dictionaries(
            {"cores": st.integers(0, 3), "per": st.sampled_from(["node", "socket", "host"])}
        ),
        "draft": PLACEMENTS,
        "verify": PLACEMENTS,
        "default": st.fixed_dictionaries({}, optional={"l3": AMOUNTS}),
    },
)


@settings(deadline=None)
@given(raw=INTENTS)
def test_a_plan_keeps_its_promises_or_refuses(top: Topology, raw: dict[str, Any]) -> None:
    try:
        result = planned(top, **raw)
    except BadRequest as refusal:
        assert str(refusal).endswith(".")
        return
    every_cpu_has_one_role(result, top)
    siblings_stay_together(result, top)
    draft_avoids_housekeeping(result, top, raw.get("draft", {}))
    shares_are_reserved(result, top)


def siblings_stay_together(result: Plan, top: Topology) -> None:
    assert all(len({result.role_of(cpu) for cpu in core}) == 1 for core in top.cores)


def draft_avoids_housekeeping(result: Plan, top: Topology, draft: dict[str, Any]) -> None:
    units = [[domain] for domain in top.l3] if "l3_domains" in draft else top.ccds
    busy = sorted(len(cpus_of(unit) & set(result.housekeeping)) for unit in units)
    count = draft.get("l3_domains", draft.get("ccds", 0))
    taken = [unit for unit in units if cpus_of(unit) & set(result.draft)]
    assert len(taken) == count
    assert sum(len(cpus_of(unit) & set(result.housekeeping)) for unit in taken) == sum(busy[:count])
    assert all(cpus_of(unit) <= {*result.draft, *result.housekeeping} for unit in taken)


def shares_are_reserved(result: Plan, top: Topology) -> None:
    default = result.default.masks
    assert set(default) == {domain.id for domain in top.l3}
    assert all(0 < mask <= FULL for mask in default.values())
    for group in result.groups:
        assert set(group.masks) == set(default)
        own = {domain.id: domain for domain in group.domains}
        assert set(group.cpus) <= cpus_of(list(group.domains))
        for number, mask in group.masks.items():
            if number in own:
                assert mask & default[number] == 0
                assert group.amount is not None
                assert count_ways(mask) == group.amount.to_ways(16, own[number].bytes)
            else:
                assert mask == default[number]


def test_the_recipe_fits_every_machine(top: Topology) -> None:
    result = planned(top, **RECIPE)
    assert 0 in result.housekeeping
    assert result.idle == ()
    assert not result.cannot


# Some plans in full

PLANS = {
    "9754": ("0,32,64,96", "16-31", "1-15,33-63,65-95,97-127", "fff0", "f"),
    "9754 SMT": (
        "0,32,64,96,128,160,192,224",
        "16-31,144-159",
        "1-15,33-63,65-95,97-127,129-143,161-191,193-223,225-255",
        "fff0",
        "f",
    ),
    "9654": ("0,24,48,72", "8-15", "1-7,16-23,25-47,49-71,73-95", "fc00", "3ff"),
    "9354": ("0,8,16,24", "4-7", "1-3,9-15,17-23,25-31", "fc00", "3ff"),
    "two 7543": ("0,32", "4-7", "1-3,8-31,33-63", "fc00", "3ff"),
    "9655": ("0,96", "8-15,104-111", "1-7,16-95,97-103,112-191", "fc00", "3ff"),
    "small": ("0,4,8,12", "9-11,13-15", "1-3,5-7", "fff0", "f"),
    "Zen 6 sample": ("0,144", "24-47,168-191", "1-23,48-143,145-167,192-287", "e000", "1fff"),
    "9686F": ("0,96", "12-23,108-119", "1-11,24-95,97-107,120-191", "f000", "fff"),
    "9996": ("0,256", "32-63,288-319", "1-31,64-255,257-287,320-511", "c000", "3fff"),
    "two 9996": (
        "0,256,512,768",
        "32-63,544-575",
        "1-31,64-255,257-511,513-543,576-767,769-1023",
        "c000",
        "3fff",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_recipe_on(name: str) -> None:
    housekeeping, draft, verify, share, rest = PLANS[name]
    facts: Any = planned(hosts.standing(name).topology(), **RECIPE).to_dict()
    assert facts["cpus"] == {"housekeeping": housekeeping, "draft": draft, "verify": verify, "idle": ""}
    assert facts["resctrl"]["masks_known"] is True
    assert set(facts["resctrl"]["default"]["l3"].values()) == {rest}
    for group in facts["resctrl"]["groups"]:
        assert set(group["l3"].values()) == {share, rest}


def test_masks_go_by_the_kernels_ids(tmp_path: Path) -> None:
    facts: Any = planned(hosts.milan_pair(tmp_path).topology(), **RECIPE).to_dict()
    draft, verify = facts["resctrl"]["groups"]
    ids = [str(number) for number in (*range(8), *range(16, 24))]
    assert draft["l3"] == {number: "fc00" if number == "1" else "3ff" for number in ids}
    assert verify["l3"] == {number: "3ff" if number == "1" else "fc00" for number in ids}


def test_l3_domains_count_singly() -> None:
    result = planned(hosts.standing("9754").topology(), draft={"l3_domains": 1})
    assert result.draft == tuple(range(8, 16))


def test_nothing_asked_gives_all_but_the_housekeeping_to_verify(small: Topology) -> None:
    result = planned(small)
    assert (result.housekeeping, result.verify) == ((0,), tuple(range(1, 16)))
    assert (result.draft, result.idle, result.groups) == ((), (), [])
    assert set(result.default.masks.values()) == {FULL}


def test_what_no_role_wants_is_idle(small: Topology) -> None:
    result = planned(small, housekeeping=EACH_NODE, verify={"l3_domains": 1})
    assert result.verify == (5, 6, 7)
    assert result.idle == (1, 2, 3, 9, 10, 11, 13, 14, 15)
    assert [result.role_of(cpu) for cpu in (0, 5, 1)] == ["housekeeping", "verify", "idle"]


def test_housekeeping_counts_in_its_place(tmp_path: Path) -> None:
    top = hosts.milan_pair(tmp_path).topology()
    cores = {per: planned(top, housekeeping={"cores": 2, "per": per}).housekeeping for per in ("socket", "host")}
    assert cores == {"socket": (0, 1, 32, 33), "host": (0, 1)}


def test_a_node_without_cpus_needs_no_housekeeping(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/sys/devices/system/node/node4/cpulist", "")
    assert planned(host.topology(), housekeeping=EACH_NODE).housekeeping == (0, 4, 8, 12)


def test_the_default_group_may_keep_less_than_is_left(small: Topology) -> None:
    result = planned(small, verify={"l3": "4 ways"}, default={"l3": "2 ways"})
    assert set(result.default.masks.values()) == {0b11}
    assert set(result.groups[0].masks.values()) == {0xF000}


def test_an_option_left_empty_is_not_given(small: Topology) -> None:
    result = planned(small, draft={"ccds": None, "l3_domains": 1, "l3": None}, verify=None)
    assert result.draft == (4, 5, 6, 7)
