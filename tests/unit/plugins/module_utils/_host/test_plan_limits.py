# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans that a host allows in part only: L3 shares that it lacks, remarks, and requests that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.cpu_plans import (
    RECIPE,
    planned,
    refused,
)


@pytest.fixture(scope="module")
def small() -> Topology:
    return hosts.standing("small").topology()


# While the width of masks is unknown


def test_amounts_stand_for_masks_of_unknown_width(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/dev/cpu/0/cpuid")
    assert planned(host.topology(), **RECIPE, default={"l3": "2 ways"}).resctrl_options() == {
        "masks_known": False,
        "groups": [
            {"name": "draft", "cpus": "9-11,13-15", "l3": {"2-3": "12MiB"}},
            {"name": "verify", "cpus": "1-3,5-7", "l3": {"0-1": "12MiB"}},
        ],
        "default": {"l3": {"0-3": "2 ways"}},
    }


def test_a_default_without_shares_asks_nothing_of_masks_of_unknown_width(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/dev/cpu/0/cpuid")
    assert planned(host.topology(), default={"l3": "2 ways"}).resctrl_options()["default"] == {"l3": {}}


# What cannot be had is named, and the rest still planned


def test_without_resctrl_the_cpus_are_still_planned(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/filesystems", "nodev\tsysfs")
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    result = planned(host.topology(), **RECIPE)
    assert result.draft == (9, 10, 11, 13, 14, 15)
    assert result.groups == []
    assert result.cannot["cat"].startswith("resctrl is absent")


def test_without_ids_no_domain_can_be_named(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    assert "L3 domain ids" in planned(host.topology(), **RECIPE).cannot["cat"]


def test_no_masks_are_planned_where_two_domains_have_one_id(tmp_path: Path) -> None:
    top = hosts.build(tmp_path, sockets=2, l3_per_socket=1, nodes=2, ids=[0, 0]).topology()
    result = planned(top, draft={"ccds": 1, "l3": "4MiB"}, verify={"l3": "12MiB"})
    assert (result.draft, result.verify) == (tuple(range(8, 16)), tuple(range(1, 8)))
    assert result.groups == []
    assert "the id 0 to CPUs 0-7 and to CPUs 8-15" in result.cannot["cat"]


@pytest.mark.parametrize(
    "model", ["AMD Eng Sample: 100-000001045-02", "EPYC-Genoa Processor", "AMD EPYC Processor", "AMD EPYC 9754"]
)
def test_a_plan_does_not_depend_on_the_name_of_the_cpu(tmp_path: Path, model: str) -> None:
    result = planned(hosts.small(tmp_path, model=model).topology(), **RECIPE)
    assert (result.draft, result.verify) == ((9, 10, 11, 13, 14, 15), (1, 2, 3, 5, 6, 7))
    assert [group.name for group in result.groups] == ["draft", "verify"]


def test_bandwidth_without_l3_allocation_is_named(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/cpuinfo", host.fs.read("/proc/cpuinfo").replace("cat_l3 ", ""))
    assert planned(host.topology(), **RECIPE).cannot["cat"] == "resctrl: the CPU flags lack cat_l3."
    assert planned(host.topology()).cannot == {}


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (
            "/sys/kernel/security/lockdown",
            "none [integrity] confidentiality",
            "can be read but not written: the kernel is",
        ),
        ("/sys/module/msr/parameters/allow_writes", "off", "can be read but not written: /sys/module/msr"),
    ],
)
def test_registers_that_nobody_can_write(tmp_path: Path, file: str, text: str, words: str) -> None:
    host = hosts.small(tmp_path)
    assert "prefetch" not in planned(host.topology()).cannot
    host.put(file, text)
    assert words in planned(host.topology()).cannot["prefetch"]


def test_a_cpu_whose_prefetchers_have_no_register(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.cpuid(0x80000021, 0, 0)
    assert "Zen 3 and later have it." in planned(host.topology()).cannot["prefetch"]
    host.drop("/dev/cpu/0/cpuid")
    assert "prefetch" not in planned(host.topology()).cannot, "nobody knows yet"


def no_l3(root: Path) -> Topology:
    host = hosts.small(root)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/level")
    return host.topology()


def test_without_l3_verify_still_gets_what_is_left(tmp_path: Path) -> None:
    result = planned(no_l3(tmp_path))
    assert len(result.verify) == 15
    assert result.idle == ()


def test_without_l3_no_verify_is_still_none(tmp_path: Path) -> None:
    result = planned(no_l3(tmp_path), verify={"ccds": 0})
    assert result.verify == ()
    assert len(result.idle) == 15


def test_without_l3_nothing_can_be_placed(tmp_path: Path) -> None:
    assert "shows no L3 domains (L3 domains: " in refused(no_l3(tmp_path), draft={"ccds": 1})


# Remarks


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"housekeeping": {"cores": 0}}, "No core is kept for the operating system"),
        ({"draft": {"l3": "2MiB"}}, "draft.l3 is without effect, because draft has no L3 domain"),
        ({"verify": {"ccds": 0, "l3": "2MiB"}}, "verify.l3 is without effect"),
        ({"default": {"l3": "2MiB"}}, "default.l3 is without effect"),
        ({"verify": {"l3": "2.5MiB"}}, "rounded up to 3 ways, 3 MiB"),
        ({"verify": {"l3": "512KiB"}}, "rounded up to 1 way, 1 MiB"),
    ],
)
def test_the_plan_remarks(small: Topology, raw: dict[str, Any], words: str) -> None:
    assert [words in remark for remark in planned(small, **raw).remarks] == [True]


# Refusals


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"housekeeping": {"per": "core"}}, "housekeeping.per is 'core'; say one of node, socket, host."),
        ({"housekeeping": {"cores": -1}}, "housekeeping.cores must be a whole number from 0 up, not '-1'."),
        ({"housekeeping": {"cores": True}}, "not 'True'."),
        ({"draft": {"ccds": 1.5}}, "draft.ccds must be a whole number"),
        ({"draft": "one"}, "draft must be a dictionary of ccds, l3_domains, l3, not 'one'."),
        ({"draft": {"ccd": 1}}, "draft has no 'ccd'; it takes ccds, l3_domains, l3."),
        ({"draft": {"ccds": 1, "l3_domains": 1}}, "draft has both ccds and l3_domains; give one of them."),
        ({"verify": {"l3": "fff0"}}, "verify.l3 is 'fff0': say ways, bytes or a share"),
        ({"verify": {"l3": "12MB"}}, "'12MB' is no amount of L3; say '12 ways', '12MiB' or '75%'."),
        ({"default": {"l3": 12}}, "put it in quotes"),
        ({"housekeeping": {"cores": 4}}, "housekeeping takes 4 cores of node 0, which has only 4"),
        ({"draft": {"ccds": 3}}, "draft asks for 3 ccds, but only 2 of 2 are left on this host."),
        ({"draft": {"l3_domains": 1}, "verify": {"ccds": 2}}, "verify asks for 2 ccds, but only 1 of 2 are left"),
        ({"verify": {"l3_domains": 5}}, "verify asks for 5 l3_domains, but only 4 of 4 are left"),
        ({"draft": {"ccds": 2}}, "verify: no CPU is left for it; housekeeping and the other role take all 16."),
        ({"verify": {"l3": "16 ways"}}, "L3 domain 0: verify takes all 16 ways and leaves none to the default group"),
        ({"verify": {"l3": "20MiB"}}, "verify asks for 20 MiB in each of its L3 domains, but L3 domain 0 has only 16"),
        ({"verify": {"l3": "12 ways"}, "default": {"l3": "6 ways"}}, "verify 12 + default 6 = 18 ways"),
    ],
)
def test_what_does_not_fit_is_refused(small: Topology, raw: dict[str, Any], words: str) -> None:
    assert words in refused(small, **raw)


def test_too_few_classes_of_service(tmp_path: Path) -> None:
    top = hosts.small(tmp_path, closids=2).topology()
    assert "needs 3 resctrl groups with the default one, but this host has 2 classes of service." in refused(
        top, **RECIPE
    )
    assert top.resctrl is not None
    top.resctrl.mount_options = ("cdp",)
    assert "2 classes of service (cdp halves them)." in refused(top, **RECIPE)
