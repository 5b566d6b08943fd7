# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What shares of the L3 caches come to: masks that do not overlap, and a word where they protect nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.expansions import Case, masks, with_cdp


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Topology:
    return hosts.small(tmp_path_factory.mktemp("small")).topology()


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(hosts.small(tmp_path).topology())


# Amounts


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
    assert "the kernel gives none" in Case(host.topology()).refused({"name": "a", "l3": {"all": "1 way"}})


def test_ids_that_two_domains_have(tmp_path: Path) -> None:
    """A mask for one would be a mask for both, and of two groups only one would get what it asks for."""
    top = hosts.build(tmp_path, sockets=2, l3_per_socket=1, nodes=2, ids=[0, 0]).topology()
    message = Case(top).refused({"name": "a", "l3": {"0": "1 way"}})
    assert message.startswith("No resctrl domain can be named, because this host lacks L3 domain ids: the kernel gives")
    assert "the id 0 to CPUs 0-7 and to CPUs 8-15" in message
    wanted = Case(top).wanted({"name": "a", "cpus": "0-7"}, {"name": "b", "cpus": "8-15"})
    assert not any("/L3/" in address for address in wanted)


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


def test_ways_that_io_may_fill_are_told(case: Case) -> None:
    case.able.io_alloc, case.able.io_ways = True, {0: 0xFFFF, 1: 0xF000, 2: 0xF, 3: 0xFFFF}
    case.wanted({"name": "draft", "cpus": "0-11", "l3": {"all": "f"}}, default={"l3": {"all": "ff0"}})
    assert case.remarks == [
        "I/O may fill ways of draft in the L3 domains 0,2, so not all of them are reserved for it there. Give I/O "
        "other ways in /sys/fs/resctrl/info/L3/io_alloc_cbm, or write 0 to /sys/fs/resctrl/info/L3/io_alloc."
    ]


def test_ways_that_other_hardware_may_fill_are_told(case: Case) -> None:
    case.able.shareable_ways = 0xC000
    asked = {"l3": {"0": "f000", "1": "f"}}
    case.wanted({"name": "draft", **asked}, default={"l3": {"all": "ff0"}})
    assert [remark for remark in case.remarks if remark.startswith("I/O")] == [
        "I/O may fill ways of draft in the L3 domains 0,2-3, so not all of them are reserved for it there. "
        "/sys/fs/resctrl/info/L3/shareable_bits names these ways; choose others where it matters."
    ]


def test_masks_that_somebody_chose_to_overlap_are_not_told(case: Case) -> None:
    case.wanted({"name": "a", "l3": {"all": "ff0"}}, {"name": "b", "l3": {"all": "ff0"}}, default={"l3": {"all": "f"}})
    assert case.remarks == []


def test_groups_that_go_protect_and_disturb_nothing(case: Case) -> None:
    case.there("old")
    case.gone = {"old"}
    case.wanted({"name": "draft", "l3": {"all": "4 ways"}}, default={"l3": {"all": "4 ways"}})
    assert case.remarks == []
