# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._plan import Intent, plan
from ansible_collections.sovereign.epyc.plugins.module_utils._resctrl import Abilities
from ansible_collections.sovereign.epyc.plugins.module_utils._resctrl_expand import Expansion
from ansible_collections.sovereign.epyc.plugins.module_utils._resctrl_request import parse
from ansible_collections.sovereign.epyc.plugins.module_utils._topology import Topology
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils import hosts

IDS = range(4)


class Case:
    """A small machine with resctrl mounted: four domains of 16 ways of 1 MiB, and only the default group."""

    def __init__(self, top: Topology) -> None:
        self.top = top
        self.able: Abilities = top.resctrl or Abilities()
        self.able.mount_point = "/sys/fs/resctrl"
        self.able.throttle_max = {"MB": 2048}
        self.found: dict[str, str | None] = {}
        self.gone: set[str] = set()
        self.remarks: list[str] = []
        self.there("default", cpus="0-15")

    def there(
        self, name: str, cpus: str = "", mode: str = "shareable", mask: str = "ffff", limit: str = "2048"
    ) -> None:
        """Put a group among those found."""
        self.found[f"resctrl:{name}"] = "present"
        self.found[f"resctrl:{name}/cpus"] = cpus
        self.found[f"resctrl:{name}/mode"] = mode
        for number in IDS:
            self.found[f"resctrl:{name}/L3/{number}"] = mask
            self.found[f"resctrl:{name}/MB/{number}"] = limit

    def hide(self, resource: str) -> None:
        """Let the kernel not offer a resource."""
        self.found = {name: value for name, value in self.found.items() if f"/{resource}/" not in name}

    def wanted(self, *groups: dict[str, Any], default: dict[str, Any] | None = None) -> dict[str, str | None]:
        expansion = Expansion(parse(groups, default, "none"), self.top, self.able, self.found, self.gone)
        wanted = expansion.wanted()
        self.remarks = expansion.remarks
        return wanted

    def refused(self, *groups: dict[str, Any], default: dict[str, Any] | None = None) -> str:
        with pytest.raises(BadRequest) as caught:
            self.wanted(*groups, default=default)
        return str(caught.value)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Topology:
    return hosts.small(tmp_path_factory.mktemp("small")).topology()


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(hosts.small(tmp_path).topology())


def masks(wanted: dict[str, str | None], group: str, resource: str = "L3") -> list[str | None]:
    return [wanted.get(f"resctrl:{group}/{resource}/{number}") for number in IDS]


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
        "tasks_of": ["llama.service"],
        "monitors": [{"name": "watch", "cpus": "4"}, {"name": "threads"}],
    }
    assert case.wanted(group) == {
        "resctrl:draft": "present",
        "resctrl:draft/cpus": "4-7",
        "resctrl:draft/mode": "shareable",
        "resctrl:draft/tasks_of/llama.service": "all",
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
    assert masks(wanted, "draft", "MB") == ["2048"] * 4


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


@pytest.mark.parametrize("others", [[], [{"name": "old"}]])
def test_cpus_of_a_group_that_does_not_give_them(case: Case, others: list[dict[str, Any]]) -> None:
    case.there("old", cpus="0-3")
    assert "CPU 3 belongs to the group old, whose CPUs this task does not give. Give the cpus of old too" in (
        case.refused(*others, {"name": "draft", "cpus": "3-7"})
    )


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


def test_a_group_that_goes_frees_its_class_of_service(case: Case) -> None:
    case.able.closids = 3
    case.there("old")
    case.gone = {"old"}
    assert "resctrl:b" in case.wanted({"name": "a"}, {"name": "b"})


# L3 amounts


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.one_of(st.none(), st.integers(1, 8)))
def test_amounts_never_overlap(small: Topology, counts: list[int], floor: int | None) -> None:
    case = Case(small)
    groups = [{"name": f"g{number}", "l3": {"all": f"{count} ways"}} for number, count in enumerate(counts)]
    default = {"l3": {"all": f"{floor} ways"}} if floor else None
    try:
        wanted = case.wanted(*groups, default=default)
    except BadRequest as refusal:
        assert sum(counts) + (floor or 0) > 16
        assert "ways, but the domain has 16 ways of 1 MiB." in str(refusal)
        return
    taken = 0
    for name in (*(f"g{number}" for number in range(len(counts))), *(["default"] if floor else [])):
        mask = int(wanted[f"resctrl:{name}/L3/2"] or "0", 16)
        assert mask & taken == 0
        taken |= mask
    assert bin(taken).count("1") == sum(counts) + (floor or 0)


def test_the_default_group_starts_at_the_lowest_way(case: Case) -> None:
    wanted = case.wanted({"name": "draft", "l3": {"all": "12MiB"}}, default={"l3": {"all": "25%"}})
    assert (masks(wanted, "draft"), masks(wanted, "default")) == (["fff0"] * 4, ["f"] * 4)
    assert case.remarks == []


def test_exact_masks_may_overlap(case: Case) -> None:
    wanted = case.wanted({"name": "a", "l3": {"all": "ff0"}}, {"name": "b", "l3": {"all": "0ff"}})
    assert (masks(wanted, "a")[0], masks(wanted, "b")[0]) == ("ff0", "ff")


def test_sums_are_made_per_domain(case: Case) -> None:
    groups = [{"name": "a", "l3": {"0": "12 ways"}}, {"name": "b", "l3": {"1": "12 ways"}}]
    assert masks(case.wanted(*groups), "b") == ["ffff", "fff0", "ffff", "ffff"]


def test_rounding_is_told_once(case: Case) -> None:
    case.wanted({"name": "draft", "l3": {"all": "1.5MiB"}}, default={"l3": {"all": "4 ways"}})
    assert case.remarks == ["1.5MiB of L3 is no whole way of 1 MiB: rounded up to 2 ways, 2 MiB."]


def test_ids_this_host_does_not_have(case: Case) -> None:
    assert "group draft: l3: there is no L3 domain 8 on this host, only 0-3" in (
        case.refused({"name": "draft", "l3": {"8": "1 way"}})
    )


def test_ids_that_the_kernel_does_not_give(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    assert "The kernel gives no L3 domain ids" in Case(host.topology()).refused({"name": "a", "l3": {"all": "1 way"}})


def test_bytes_of_a_cache_of_unknown_size(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/size")
    case = Case(host.topology())
    assert "12MiB of L3 cannot be turned into ways" in case.refused({"name": "a", "l3": {"all": "12MiB"}})
    assert masks(case.wanted({"name": "a", "l3": {"all": "75%"}}), "a") == ["fff0"] * 4


def test_a_cpu_without_l3_allocation(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/cpuinfo", host.fs.read("/proc/cpuinfo").replace("cat_l3 ", ""))
    case = Case(host.topology())
    assert "This CPU has no L3 allocation" in case.refused(default={"l3": {"all": "1 way"}})
    assert masks(case.wanted({"name": "batch", "mb": {"all": 2}}), "batch") == [None] * 4


def test_a_kernel_without_l3_allocation(case: Case) -> None:
    case.hide("L3")
    assert "This kernel offers no L3 allocation (no L3 in schemata)" in case.refused(default={"l3": {"all": "1 way"}})


def test_before_the_mount_amounts_stand_for_masks_of_unknown_width(case: Case) -> None:
    case.able.mount_point = case.able.cbm_mask = None
    case.found = {}
    wanted = case.wanted({"name": "draft", "l3": {"0": "12MiB"}}, default={"l3": {"all": "f"}})
    assert masks(wanted, "draft") == ["12MiB", None, None, None]
    assert masks(wanted, "default") == ["f"] * 4


# Code and data apart


def with_cdp(case: Case) -> Case:
    case.able.mount_options = ("cdp",)
    for name in [name for name in case.found if "/L3/" in name]:
        mask = case.found.pop(name)
        for resource in ("L3CODE", "L3DATA"):
            case.found[name.replace("/L3/", f"/{resource}/")] = mask
    return case


def test_with_cdp_l3_stands_for_code_and_data(case: Case) -> None:
    wanted = with_cdp(case).wanted({"name": "draft", "l3": {"all": "ff"}, "l3_code": {"0": "f"}})
    assert masks(wanted, "draft", "L3CODE") == ["f", "ff", "ff", "ff"]
    assert masks(wanted, "draft", "L3DATA") == ["ff"] * 4
    assert masks(wanted, "draft") == [None] * 4


def test_with_cdp_what_is_not_asked_is_named_for_a_new_group(case: Case) -> None:
    wanted = with_cdp(case).wanted({"name": "draft", "l3_data": {"all": "ff"}})
    assert masks(wanted, "draft", "L3CODE") == ["ffff"] * 4


@pytest.mark.parametrize("option", ["l3_code", "l3_data"])
def test_code_and_data_need_cdp(case: Case, option: str) -> None:
    assert f"Group draft: {option} needs resctrl mounted with the option cdp; use l3." in (
        case.refused({"name": "draft", option: {"all": "f"}})
    )


# Bandwidth


def test_max_is_what_the_processor_calls_no_limit(case: Case) -> None:
    wanted = case.wanted(default={"mb": {"all": "max", "1": 256, "2": 0.2}})
    assert masks(wanted, "default", "MB") == ["2048", "2048", "2", "2048"]


def test_more_than_the_scale_has_is_refused(case: Case) -> None:
    assert "Group default: mb: 300 GB/s is more than this host can express, 256 GB/s, which already means no limit" in (
        case.refused(default={"mb": {"all": 300}})
    )


def test_without_cpuid_an_untouched_default_group_tells_what_max_is(case: Case) -> None:
    case.able.throttle_max = {}
    case.there("default", limit="4096")
    assert masks(case.wanted(default={"mb": {"0": "max"}}), "default", "MB")[0] == "4096"


@pytest.mark.parametrize("limits", [("2048", "16"), ("100", "100"), ("128", "128")])
def test_without_cpuid_a_limited_default_group_tells_nothing(case: Case, limits: tuple[str, str]) -> None:
    case.able.throttle_max = {}
    case.there("default", limit=limits[0])
    case.found["resctrl:default/MB/3"] = limits[1]
    assert "what 'max' stands for cannot be read here; load the cpuid driver" in (
        case.refused(default={"mb": {"all": "max"}})
    )
    assert masks(case.wanted(default={"mb": {"0": 300}}), "default", "MB")[0] == "2400"


def test_before_the_mount_max_may_stay_a_word(case: Case) -> None:
    case.able.mount_point = None
    case.able.throttle_max = {}
    case.found = {}
    assert masks(case.wanted(default={"mb": {"all": "max"}}), "default", "MB") == ["max"] * 4


def test_limits_the_kernel_does_not_offer(case: Case) -> None:
    assert "Group draft: smba: this host has no SMBA allocation (no SMBA in schemata)." in (
        case.refused({"name": "draft", "smba": {"all": 2}})
    )


def test_gigabytes_are_amds_unit(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/cpuinfo", host.fs.read("/proc/cpuinfo").replace("AuthenticAMD", "GenuineIntel"))
    assert "mb in GB/s is AMD's; this CPU is GenuineIntel." in (
        Case(host.topology()).refused(default={"mb": {"all": 2}})
    )


# Shares that protect nothing


def test_a_default_group_that_may_fill_a_share_is_told(case: Case) -> None:
    case.wanted({"name": "draft", "cpus": "4-11", "l3": {"all": "4 ways"}})
    assert case.remarks == [
        "The default group may fill ways of draft in the L3 domains 1-2, so nothing is reserved for draft there; give "
        "the default group an l3 of its own."
    ]


@pytest.mark.parametrize("there", [True, False])
def test_another_group_that_may_fill_a_share_is_told(case: Case, there: bool) -> None:
    if there:
        case.there("batch")
    groups = [{"name": "draft", "l3": {"all": "4 ways"}}, *([] if there else [{"name": "batch"}])]
    case.wanted(*groups, default={"l3": {"all": "4 ways"}})
    assert [remark.split(",")[0] for remark in case.remarks] == [
        "The group batch may fill ways of draft in the L3 domains 0-3"
    ]


def test_with_cdp_overlaps_are_told_too(case: Case) -> None:
    with_cdp(case).wanted({"name": "draft", "l3_data": {"0": "f000"}}, default={"l3_code": {"all": "f"}})
    assert "The default group may fill ways of draft in the L3 domains 0-3" in case.remarks[0]


def test_masks_that_somebody_chose_to_overlap_are_not_told(case: Case) -> None:
    case.wanted({"name": "a", "l3": {"all": "ff0"}}, {"name": "b", "l3": {"all": "ff0"}}, default={"l3": {"all": "f"}})
    assert case.remarks == []


def test_groups_that_go_protect_and_disturb_nothing(case: Case) -> None:
    case.there("old")
    case.gone = {"old"}
    case.wanted({"name": "draft", "l3": {"all": "4 ways"}}, default={"l3": {"all": "4 ways"}})
    assert case.remarks == []


# From the plan


def test_a_plan_is_carried_out_to_the_mask(case: Case) -> None:
    intent = Intent.parse({"draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "10 ways"}})
    options = plan(intent, case.top).resctrl()
    wanted = case.wanted(*options["groups"], default=options["default"])
    assert masks(wanted, "draft") == ["fff0", "fff0", "3f", "3f"]
    assert masks(wanted, "verify") == ["f", "f", "ffc0", "ffc0"]
    assert masks(wanted, "default") == ["f", "f", "3f", "3f"]
    assert case.remarks == []
