# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.check import (
    check_bios_settings,
    expected_values_from_options,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.setting import KernelView
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.settings_table import SETTINGS
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.firmware import judged

CPU = "/sys/devices/system/cpu"


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.build(tmp_path)
    host.put("/proc/cmdline", "root=/dev/sda1 ro")
    return host


def test_a_wrong_setting_says_what_it_costs_and_where_to_change_it(host: hosts.Host) -> None:
    item = judged(host, nps="NPS1")["nps"]
    assert item.verdict == "wrong"
    assert item.sentence == (
        "It is NPS4 (4 NUMA nodes with CPUs, 1 socket, 16 L3 domains) and should be NPS1. With too few nodes no thread "
        "can be kept on the memory channels next to it; with too many nodes, a process that is bound to a node has "
        "only its share of the bandwidth. In the BIOS it is usually under AMD CBS, DF Common Options, NUMA nodes per "
        "socket."
    )


@pytest.mark.parametrize(
    ("vendor", "words"),
    [
        ("Dell Inc.", "this Dell it is the attribute NumaNodesPerSocket."),
        ("HPE", "this HPE it is the attribute NumaMemoryDomainsPerSocket."),
        ("Lenovo", "this Lenovo it is the attribute Memory_NUMANodesperSocket."),
        ("Supermicro", "this Supermicro it is the attribute NUMANodesPerSocket."),
        ("ASRockRack", "under AMD CBS, DF Common Options, NUMA nodes per socket."),
    ],
)
def test_the_place_has_the_name_that_the_vendor_gave_it(host: hosts.Host, vendor: str, words: str) -> None:
    host.put("/sys/class/dmi/id/sys_vendor", vendor)
    assert judged(host, nps="NPS1")["nps"].sentence.endswith(words)


@pytest.mark.parametrize(
    ("active", "expected", "soon", "verdict"),
    [("1", "off", "off", "pending"), ("1", "off", "on", "wrong"), ("1", "on", "off", "ok"), ("0", "off", "off", "ok")],
)
def test_smt_that_the_same_run_turns_off_is_no_complaint(
    host: hosts.Host, active: str, expected: str, soon: str, verdict: str
) -> None:
    host.put(f"{CPU}/smt/active", active)
    host.put(f"{CPU}/smt/control", "on")
    items = check_bios_settings(KernelView(host.fs, host.topology()), {"smt": expected, "boost": "on"}, {"smt": soon})
    (smt,) = [item for item in items if item.name == "smt"]
    assert (smt.verdict, smt.is_clean) == (verdict, verdict != "wrong")
    if verdict == "pending":
        assert smt.sentence.endswith("smt/active is 1). Later in this run the kernel makes it off, as it should be.")


@pytest.mark.parametrize(("name", "value"), [("determinism", "power"), ("df_cstates", "off")])
def test_what_no_kernel_shows_is_unknown_once_it_is_expected(host: hosts.Host, name: str, value: str) -> None:
    assert judged(host)[name].verdict == "not asked for"
    item = judged(host, **{name: value})[name]
    assert (item.verdict, item.is_clean) == ("unknown", False)
    assert "its value is unknown: no kernel file shows it." in item.sentence


@pytest.mark.parametrize(
    ("vendor", "words"),
    [
        ("Dell Inc.", "this Dell these are the attributes ProcCcds and CcdCores."),
        ("HPE", "this HPE it is the attribute EnabledCoresPerProc."),
        ("Gigabyte", "under AMD CBS, CPU Common Options, CCD control and core control."),
    ],
)
def test_some_vendors_need_two_attributes_for_it(host: hosts.Host, vendor: str, words: str) -> None:
    host.put("/sys/class/dmi/id/sys_vendor", vendor)
    host.put("/proc/cpuinfo", (host.root / "proc/cpuinfo").read_text().replace("128-Core", "256-Core"))
    assert judged(host, cores="all")["cores"].sentence.endswith(words)


@pytest.mark.parametrize(
    ("vendor", "setting", "words"),
    [
        ("Dell Inc.", "hsmp", "it is the attribute Hsmp."),
        ("Lenovo", "hsmp", "it is the attribute Processors_HSMPSupport."),
        (
            "HPE",
            "hsmp",
            "we know no attribute for it; AMI's setup has it under NBIO Common Options, SMU Common Options, ",
        ),
        (
            "HPE",
            "cppc",
            "we know no attribute for it; AMI's setup has it under NBIO Common Options, SMU Common Options, ",
        ),
    ],
)
def test_a_vendor_is_given_no_attribute_that_is_something_else(
    host: hosts.Host, vendor: str, setting: str, words: str
) -> None:
    host.put("/sys/class/dmi/id/sys_vendor", vendor)
    item = judged(host, **{setting: "on"})[setting]
    assert words in item.sentence
    assert "PowerRegulator" not in item.sentence  # the governor's policy, not CPPC


def test_options_become_the_words_of_the_table() -> None:
    asked = {"nps": 0, "smt": False, "iommu": True, "cores": "all", "power_limit": 400, "hsmp": None, "units": {}}
    assert expected_values_from_options(asked) == {
        "nps": "NPS0",
        "smt": "off",
        "iommu": "on",
        "cores": "all",
        "power_limit": "400 W",
    }


def test_only_what_is_asked_for_is_looked_at(host: hosts.Host) -> None:
    look = KernelView(host.fs, host.topology())
    assert [item.name for item in check_bios_settings(look, {}, only=["smt", "nps"])] == ["nps", "smt"]
    assert [item.name for item in check_bios_settings(look, {})] == list(SETTINGS)


def test_each_setting_says_what_it_costs_and_where_it_is_changed() -> None:
    for name, setting in SETTINGS.items():
        assert setting.costs[""], name
        assert bool(setting.menu) != bool(setting.remedy), name
        assert all(
            part and part.isprintable() for text in setting.attribute_names.values() for part in text.split(" ")
        ), name
