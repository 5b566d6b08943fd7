# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What limits of the memory bandwidth come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.expansions import Case, masks


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(hosts.small(tmp_path).topology())


def test_max_is_what_the_processor_calls_no_limit(case: Case) -> None:
    wanted = case.wanted(default={"mb": {"all": "max", "1": 256, "2": 0.2}})
    assert masks(wanted, "default", "MB") == ["2048", "2048", "2", "2048"]


@pytest.mark.parametrize(("shown", "largest"), [("2048", "2048"), ("16", "2048"), ("4096", "4096")])
def test_max_is_what_the_kernel_takes_where_that_is_less(case: Case, shown: str, largest: str) -> None:
    """Zen 5 with a kernel that has 2048 built in. One that shows more asks CPUID."""
    case.able.throttle_max = {"MB": 4096}
    case.there("default", limit="16")
    case.there("theirs", limit=shown)
    assert set(masks(case.wanted({"name": "draft", "mb": {"all": "max"}}), "draft", "MB")) == {largest}


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
