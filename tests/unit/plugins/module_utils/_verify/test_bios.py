# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._verify import bios
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.items import Item
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

CPU = "/sys/devices/system/cpu"


def look(host: hosts.Host, **expected: str) -> dict[str, Item]:
    return {item.name: item for item in bios.check(host.fs, host.topology(), expected)}


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.build(tmp_path)
    host.put("/proc/cmdline", "root=/dev/sda1 ro")
    return host


@pytest.mark.parametrize(
    ("shape", "changes", "nps", "l3"),
    [
        ("9754", {}, "NPS4", "off"),
        ("9754", {"nodes": 1}, "NPS1", "off"),
        ("9754", {"nodes": 16}, None, "on"),
        ("9654", {"nodes": 2}, "NPS2", "off"),
        ("9354", {"nodes": 8}, None, "on"),
        ("two 7543", {}, "NPS1", "off"),
        ("two 7543", {"nodes": 1}, "NPS0", "off"),
        ("two 7543", {"nodes": 8}, "NPS4", "off"),
        ("two 7543", {"nodes": 16}, None, "on"),
        ("small", {}, "NPS4", None),
    ],
)
def test_nodes_tell_nps(tmp_path: Path, shape: str, changes: dict[str, int], nps: str | None, l3: str | None) -> None:
    host = hosts.shape(tmp_path, shape, **changes)
    host.put("/proc/cmdline", "ro")
    found = look(host)
    assert (found["nps"].found, found["l3_as_numa"].found) == (nps, l3)
    assert found["nps"].verdict == "unasked"


@pytest.mark.parametrize("word", ["numa=off", "numa=fake=4"])
def test_a_kernel_that_hides_the_nodes_knows_nothing_of_nps(host: hosts.Host, word: str) -> None:
    host.put("/proc/cmdline", f"ro {word}")
    item = look(host, nps="NPS4")["nps"]
    assert (item.verdict, item.found) == ("unknown", None)
    assert f"the kernel was started with {word}" in item.sentence


def test_a_wrong_setting_says_what_it_costs_and_where_to_change_it(host: hosts.Host) -> None:
    item = look(host, nps="NPS1")["nps"]
    assert item.verdict == "wrong"
    assert item.sentence == (
        "It is NPS4 (4 NUMA nodes with CPUs, 1 socket, 16 L3 domains) and should be NPS1. With too few nodes no thread "
        "can be kept on the memory channels next to it; with too many, a process that is bound to one has only its "
        "share of the bandwidth. In the BIOS it is usually under AMD CBS, DF Common Options, NUMA nodes per socket."
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
    assert look(host, nps="NPS1")["nps"].sentence.endswith(words)


@pytest.mark.parametrize(
    ("active", "control", "found"),
    [("1", "on", "on"), ("0", "off", "off"), ("0", "forceoff", "off"), ("0", "notsupported", "off")],
)
def test_smt(host: hosts.Host, active: str, control: str, found: str) -> None:
    host.put(f"{CPU}/smt/active", active)
    host.put(f"{CPU}/smt/control", control)
    assert look(host, smt="off")["smt"].found == found
    assert look(host, smt="off")["smt"].verdict == ("ok" if found == "off" else "wrong")


def test_smt_that_the_kernel_turned_off_is_told_from_the_bios(host: hosts.Host) -> None:
    host.put(f"{CPU}/smt/control", "off")
    assert "the BIOS has it on" in look(host, smt="off")["smt"].sentence


@pytest.mark.parametrize(
    ("active", "expected", "soon", "verdict"),
    [("1", "off", "off", "pending"), ("1", "off", "on", "wrong"), ("1", "on", "off", "ok"), ("0", "off", "off", "ok")],
)
def test_smt_that_the_same_run_turns_off_is_no_complaint(
    host: hosts.Host, active: str, expected: str, soon: str, verdict: str
) -> None:
    host.put(f"{CPU}/smt/active", active)
    host.put(f"{CPU}/smt/control", "on")
    items = bios.check(host.fs, host.topology(), {"smt": expected, "boost": "on"}, {"smt": soon})
    (smt,) = [item for item in items if item.name == "smt"]
    assert (smt.verdict, smt.clean) == (verdict, verdict != "wrong")
    if verdict == "pending":
        assert smt.sentence.endswith("smt/active is 1). Later in this run the kernel makes it off, as it should be.")


def test_an_old_kernel_tells_nothing_of_smt(host: hosts.Host) -> None:
    host.drop(f"{CPU}/smt/*")
    assert look(host, smt="off")["smt"].verdict == "unknown"


def test_boost(host: hosts.Host) -> None:
    assert look(host, boost="on")["boost"].found == "off"  # without the flag
    text = (host.root / "proc/cpuinfo").read_text()
    host.put("/proc/cpuinfo", text.replace("fpu msr", "fpu msr cpb"))
    assert look(host, boost="on")["boost"].verdict == "unknown"
    for value, verdict in (("1", "ok"), ("0", "wrong")):
        host.put(f"{CPU}/cpufreq/boost", value)
        assert look(host, boost="on")["boost"].verdict == verdict


def test_cppc(host: hosts.Host) -> None:
    assert look(host, cppc="on")["cppc"].verdict == "unknown"
    host.put("/sys/firmware/acpi/tables/DSDT", "")
    assert look(host, cppc="on")["cppc"].verdict == "wrong"
    host.put(f"{CPU}/cpu0/acpi_cppc/highest_perf", 255)
    assert look(host, cppc="on")["cppc"].verdict == "ok"


def test_preferred_cores(host: hosts.Host) -> None:
    item = look(host, preferred_cores="off")["preferred_cores"]
    assert item.verdict == "unknown"
    assert "only the driver amd-pstate shows it, and the driver here is acpi-cpufreq" in item.sentence
    host.put(f"{CPU}/cpufreq/policy0/amd_pstate_hw_prefcore", "disabled")
    assert look(host, preferred_cores="off")["preferred_cores"].verdict == "ok"


def test_hsmp(host: hosts.Host) -> None:
    assert look(host, hsmp="on")["hsmp"].verdict == "unknown"
    host.put("/sys/module/hsmp_acpi/refcnt", 0)
    assert look(host, hsmp="on")["hsmp"].verdict == "wrong"
    host.put("/dev/hsmp", "")
    assert look(host, hsmp="on")["hsmp"].verdict == "ok"


@pytest.mark.parametrize(("name", "value"), [("determinism", "power"), ("df_cstates", "off")])
def test_what_no_kernel_shows_is_unknown_once_it_is_expected(host: hosts.Host, name: str, value: str) -> None:
    assert look(host)[name].verdict == "unasked"
    item = look(host, **{name: value})[name]
    assert (item.verdict, item.clean) == ("unknown", False)
    assert "its value is unknown: no kernel file shows it." in item.sentence
