# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a request for resctrl groups comes to: which groups, and with which CPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import build_plan
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.expansions import Case, masks


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(hosts.small(tmp_path).topology())


# What is left out stays out


def test_nothing_asked_wants_nothing(case: Case) -> None:
    assert case.wanted() == {}


def test_a_group_that_is_there_keeps_what_is_not_asked(case: Case) -> None:
    case.there("draft", cpus="0-3")
    assert case.wanted({"name": "draft"}) == {"resctrl:draft": "present"}


def test_only_the_domains_asked_for_change(case: Case) -> None:
    case.there("draft")
    assert masks(case.wanted({"name": "draft", "l3": {"1": "f0"}}), "draft") == [None, "f0", None, None]


def test_all_settings_have_their_address(case: Case) -> None:
    case.there("draft")
    group = {
        "name": "draft",
        "cpus": "4-7",
        "mode": "shareable",
        "monitors": [{"name": "watch", "cpus": "4"}, {"name": "threads"}],
    }
    assert case.wanted(group) == {
        "resctrl:draft": "present",
        "resctrl:draft/cpus": "4-7",
        "resctrl:draft/mode": "shareable",
        "resctrl:draft/mon/watch": "present",
        "resctrl:draft/mon/watch/cpus": "4",
        "resctrl:draft/mon/threads": "present",
    }


def test_the_default_group_takes_masks_limits_and_monitors(case: Case) -> None:
    default = {"l3": {"0": "f"}, "mb": {"0": 2}, "monitors": [{"name": "watch"}]}
    assert case.wanted(default=default) == {
        "resctrl:default/L3/0": "f",
        "resctrl:default/MB/0": "16",
        "resctrl:default/mon/watch": "present",
    }


def test_everything_in_a_group_goes_with_it(case: Case) -> None:
    case.there("old", cpus="0-3")
    case.gone = {"old"}
    wanted = case.wanted({"name": "old", "state": "absent"})
    assert wanted == dict.fromkeys((name for name in case.found if name.startswith("resctrl:old")), None)


# A new group


def test_a_new_group_gets_every_domain_named(case: Case) -> None:
    wanted = case.wanted({"name": "draft", "l3": {"1": "f0"}})
    assert masks(wanted, "draft") == ["ffff", "f0", "ffff", "ffff"]


def test_a_new_group_is_left_without_limits_as_the_kernel_makes_it(case: Case) -> None:
    """What CPUID calls no limit is more than some kernels take, and would have the whole group refused."""
    case.able.throttle_max = {"MB": 4096}
    assert [name for name in case.wanted({"name": "draft", "l3": {"1": "f0"}}) if "MB" in name] == []


@pytest.mark.parametrize("resource", ["SMBA", "MB"])
def test_a_new_group_gets_no_limit_of_what_the_kernel_does_not_offer(case: Case, resource: str) -> None:
    """CPUID shows SMBA on machines whose kernel is too old for it, and MB where rdt=!mba hides it."""
    case.able.throttle_max = {"MB": 2048, "SMBA": 2048}
    case.hide(resource)
    assert masks(case.wanted({"name": "draft"}), "draft", resource) == [None] * 4


def test_a_new_group_gets_no_masks_where_the_kernel_hides_them(case: Case) -> None:
    case.hide("L3")
    assert masks(case.wanted({"name": "batch", "mb": {"all": 2}}), "batch") == [None] * 4


def test_a_new_group_keeps_off_exclusive_ways(case: Case) -> None:
    case.there("alone", mode="exclusive", mask="ff00")
    assert masks(case.wanted({"name": "draft"}), "draft") == ["ff"] * 4


def test_a_new_group_may_have_the_ways_of_an_exclusive_one_that_goes(case: Case) -> None:
    case.there("alone", mode="exclusive", mask="ff00")
    case.gone = {"alone"}
    assert masks(case.wanted({"name": "draft"}), "draft") == ["ffff"] * 4


@pytest.mark.parametrize("mode", ["exclusive", None])
def test_exclusive_ways_count_as_they_will_be(case: Case, mode: str | None) -> None:
    case.there("alone", mode="exclusive", mask="ff00")
    wanted = case.wanted({"name": "alone", "mode": mode, "l3": {"all": "f000"}}, {"name": "draft"})
    assert masks(wanted, "draft") == ["fff"] * 4


def test_a_group_that_becomes_exclusive_counts(case: Case) -> None:
    wanted = case.wanted({"name": "alone", "mode": "exclusive", "l3": {"all": "f000"}}, {"name": "draft"})
    assert masks(wanted, "draft") == ["fff"] * 4


def test_a_group_that_becomes_shareable_counts_no_more(case: Case) -> None:
    case.there("alone", mode="exclusive", mask="ff00")
    assert masks(case.wanted({"name": "alone", "mode": "shareable"}, {"name": "draft"}), "draft") == ["ffff"] * 4


def test_a_new_group_for_which_no_way_is_left_is_refused(case: Case) -> None:
    case.there("alone", mode="exclusive", mask="ffff")
    assert "Group draft: exclusive groups own every way of L3 domain 0" in case.refused({"name": "draft"})


# CPUs


@pytest.mark.parametrize(("cpus", "words"), [("16", "there is no CPU 16 on this host, only 0-15."), ("0-99", "CPU 16")])
def test_cpus_that_are_not_there(case: Case, cpus: str, words: str) -> None:
    assert words in case.refused({"name": "draft", "cpus": cpus})


def test_offline_cpus(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/sys/devices/system/cpu/online", "0-14")
    assert "Group draft: CPU 15 is offline" in Case(host.topology()).refused({"name": "draft", "cpus": "15"})


def test_cpus_of_a_group_that_does_not_give_them(case: Case) -> None:
    case.there("old", cpus="0-3")
    draft = {"name": "draft", "cpus": "3-7"}
    assert "CPU 3 belongs to the group old, whose CPUs are not given here. Give the cpus of old too." in (
        case.refused({"name": "old"}, draft)
    )
    said = case.refused(draft)
    assert "Give the cpus" not in said, "the role epyc_cat has no variable for that"
    assert "Have the program that made old leave that CPU out" in said
    assert "epyc_cat_purge" in said


def test_cpus_of_a_group_that_gives_them_or_goes(case: Case) -> None:
    case.there("old", cpus="0-3")
    draft = {"name": "draft", "cpus": "3-7"}
    assert case.wanted({"name": "old", "cpus": "0-2"}, draft)["resctrl:draft/cpus"] == "3-7"
    case.gone = {"old"}
    assert case.wanted(draft)["resctrl:draft/cpus"] == "3-7"


def test_its_own_cpus_are_not_somebody_elses(case: Case) -> None:
    case.there("draft", cpus="0-3")
    assert case.wanted({"name": "draft", "cpus": "0-5"})["resctrl:draft/cpus"] == "0-5"


# Classes of service


def test_more_groups_than_classes_of_service(case: Case) -> None:
    case.able.closids = 3
    case.there("old")
    assert "4 groups with the default one are more than the 3 classes of service (CLOSIDs) of this host: a, b, " in (
        case.refused({"name": "a"}, {"name": "b"})
    )


def test_io_takes_a_class_of_service(case: Case) -> None:
    case.able.closids, case.able.io_alloc = 3, False
    assert case.wanted({"name": "a"}, {"name": "b"})["resctrl:b"] == "present"
    case.able.io_alloc = True
    assert "3 groups with the default one are more than the 2 classes of service (CLOSIDs) of this host that I/O" in (
        case.refused({"name": "a"}, {"name": "b"})
    )


def test_a_group_that_goes_frees_its_class_of_service(case: Case) -> None:
    case.able.closids = 3
    case.there("old")
    case.gone = {"old"}
    assert "resctrl:b" in case.wanted({"name": "a"}, {"name": "b"})


# From the plan


def test_a_plan_is_carried_out_to_the_mask(case: Case) -> None:
    intent = Intent.from_options({"draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "10 ways"}})
    options = build_plan(intent, case.top).resctrl_options()
    wanted = case.wanted(*options["groups"], default=options["default"])
    assert masks(wanted, "draft") == ["3f", "3f", "fff0", "fff0"]
    assert masks(wanted, "verify") == ["ffc0", "ffc0", "f", "f"]
    assert masks(wanted, "default") == ["3f", "3f", "f", "f"]
    assert case.remarks == []
