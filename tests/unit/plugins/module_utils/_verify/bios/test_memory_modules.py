# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist_items import Item
from ansible_collections.sovereign.epyc.tests.unit.fakes import firmware, hosts

TWO_MILAN = [(f"DIMM_P{number // 8}_{letter}0", "BANK 0") for number, letter in enumerate("ABCDEFGHIJKLMNOP")]
TWO_DELL = [(f"{socket}{number}", "") for socket in "AB" for number in range(1, 17)]
SIXTEEN = [(f"DIMM_P0_{letter}0", "BANK 0") for letter in "ABCDEFGHIJKLMNOP"]
SAME_NAMES = [("DIMM 0", f"CHANNEL {letter}") for letter in "ABCDEFGH" * 2]


def memory(tmp_path: Path, shape: str, slots: Any, missing: Any = (), **fields: int) -> dict[str, Item]:
    host = hosts.shape(tmp_path, shape)
    host.put("/proc/cmdline", "ro")
    firmware.give(host, firmware.filled(slots, missing, **fields))
    asked = {"memory_channels": "all", "memory_speed": "rated", "memory_sizes": "equal"}
    return firmware.judged(host, **asked)


@pytest.mark.parametrize(
    ("shape", "slots", "missing", "found"),
    [
        ("9754", firmware.GIGABYTE, [], "all"),
        ("9754", firmware.GIGABYTE, ["DIMM_P0_L0"], "11 of 12"),
        ("9654", firmware.SUPERMICRO, ["P1-DIMMC1", "P1-DIMMD1"], "10 of 12"),
        ("9754", firmware.AMI, [], "all"),
        ("9754", firmware.DELL, ["A7"], "11 of 12"),
        ("9754", firmware.HPE, ["PROC 1 DIMM 12"], "11 of 12"),
        # Two slots on a channel: one of them is enough.
        ("9754", firmware.GIGABYTE_24, [f"DIMM_P0_{letter}0" for letter in firmware.LETTERS], "all"),
        ("9754", firmware.GIGABYTE_24, [f"DIMM_P0_{letter}0" for letter in "ABCDEF"], "all"),
        ("9754", firmware.GIGABYTE_24, ["DIMM_P0_A0", "DIMM_P0_A1"], "11 of 12"),
        ("9655", firmware.DELL_24, [f"A{number}" for number in range(13, 25)], "all"),
        ("9655", firmware.DELL_24, [f"A{number}" for number in range(12, 25)], "11 of 12"),
        ("9655", firmware.DELL_24, ["A3", "A15"], "11 of 12"),
        # Names that do not tell: too few are too few, enough may be on the wrong ones.
        ("9754", firmware.NAMELESS_24, [f"PROC 1 DIMM {number}" for number in range(1, 14)], "11 of 12"),
        ("9754", firmware.NAMELESS_24, [f"PROC 1 DIMM {number}" for number in range(1, 13)], None),
        ("9754", firmware.NAMELESS_24, [], "all"),
        # A board with fewer channels than its CPU.
        ("9754", firmware.GIGABYTE[:8], [], "8 of 12"),
        ("two 7543", TWO_MILAN, [], "all"),
        ("two 7543", TWO_MILAN, ["DIMM_P1_I0"], "15 of 16"),
        ("two 7543", TWO_DELL, [f"B{number}" for number in range(9, 17)], "all"),
        ("two 7543", TWO_DELL, ["B2", "B10"], "15 of 16"),
        ("two 7543", SAME_NAMES, [], "all"),
        ("9686F", SIXTEEN, [], "all"),
        ("9686F", SIXTEEN, ["DIMM_P0_P0"], "15 of 16"),
        # One name for all slots is not the name of a channel.
        ("9754", [(f"DIMM {number}", "CHANNEL 0") for number in range(12)], [], "all"),
    ],
)
def test_a_channel_without_a_module_is_missed(
    tmp_path: Path, shape: str, slots: Any, missing: list[str], found: str | None
) -> None:
    item = memory(tmp_path, shape, slots, missing)["memory_channels"]
    assert item.found == found, item.sentence
    assert item.verdict == ("ok" if found == "all" else "wrong" if found else "unknown")


def test_a_missing_module_costs_a_twelfth(tmp_path: Path) -> None:
    item = memory(tmp_path, "9754", firmware.GIGABYTE, ["DIMM_P0_L0"])["memory_channels"]
    assert item.sentence == (
        "It is 11 of 12 (no module on 1 of 12 channels, each of which is a twelfth of the bandwidth of its socket: "
        "422.4 of 460.8 GB/s are left at 4800 MT/s; empty slots: DIMM_P0_L0) and should be all. Tokens per second fall "
        "with the bandwidth. The memory controller cannot interleave evenly over some numbers of channels, which costs "
        "further bandwidth. No BIOS setting mends it: put a module into each empty slot, or replace a module that was "
        "not found."
    )


def test_on_an_older_socket_it_costs_an_eighth(tmp_path: Path) -> None:
    missing = [name for name, dummy in TWO_MILAN[10:]]
    item = memory(tmp_path, "two 7543", TWO_MILAN, missing, rated=3200, configured=2933)["memory_channels"]
    assert "no module on 6 of 16 channels, each of which is an eighth of the bandwidth" in item.sentence
    assert "234.6 of 375.4 GB/s are left at 2933 MT/s" in item.sentence
    assert "empty slots: DIMM_P1_K0, DIMM_P1_L0, DIMM_P1_M0, DIMM_P1_N0 and 2 more)" in item.sentence


def test_without_names_it_is_said_that_more_may_be_empty(tmp_path: Path) -> None:
    missing = [name for name, dummy in firmware.NAMELESS_24[11:]]
    assert "on at least 1 of 12" in memory(tmp_path, "9754", firmware.NAMELESS_24, missing)["memory_channels"].sentence


def test_an_epyc_8004_has_half_of_the_channels(tmp_path: Path) -> None:
    host = hosts.build(tmp_path, model="AMD EPYC 8434P 48-Core Processor", l3_per_socket=8, cores_per_l3=6)
    host.put("/proc/cmdline", "ro")
    firmware.give(host, firmware.filled(firmware.SUPERMICRO[:6], ["P1-DIMMF1"]))
    item = firmware.judged(host)["memory_channels"]
    assert (item.found, item.verdict) == ("5 of 6", "not asked for")
    assert "a sixth of the bandwidth" in item.sentence


@pytest.mark.parametrize(
    ("shape", "rated", "configured", "found"),
    [
        ("9754", 4800, 4800, "rated"),
        ("9754", 5600, 4800, "rated"),  # faster modules than the CPU takes
        ("9754", 4800, 4400, "4400 of 4800 MT/s"),
        ("9754", 5600, 3600, "3600 of 4800 MT/s"),
        ("9655", 6400, 6000, "rated"),
        ("9655", 6400, 6400, "rated"),
        ("9655", 5600, 5200, "5200 of 5600 MT/s"),
        ("two 7543", 3200, 2933, "2933 of 3200 MT/s"),
        ("9754", 4800, 0, None),
        ("9754", 0, 4800, None),
    ],
)
def test_modules_should_be_as_fast_as_they_and_the_cpu_can_be(
    tmp_path: Path, shape: str, rated: int, configured: int, found: str | None
) -> None:
    slots = TWO_MILAN if shape == "two 7543" else firmware.GIGABYTE
    item = memory(tmp_path, shape, slots, rated=rated, configured=configured)["memory_speed"]
    assert item.found == found
    assert item.verdict == ("ok" if found == "rated" else "wrong" if found else "unknown")


def test_the_slowest_module_tells_what_is_lost(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9754")
    host.put("/proc/cmdline", "ro")
    slow = firmware.module("DIMM_P0_L0", configured=3600)
    firmware.give(host, [*list(firmware.filled(firmware.GIGABYTE))[:-1], slow])
    item = firmware.judged(host, memory_speed="rated")["memory_speed"]
    assert (
        "modules for 4800 MT/s run at 3600 MT/s, and the CPU takes 4800 MT/s; 25 percent of the bandwidth are lost"
        in item.sentence
    )
    assert "12 modules on 12 channels: 345.6 GB/s at 3600 MT/s" in firmware.judged(host)["memory_channels"].sentence


def test_modules_of_two_sizes(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9754")
    host.put("/proc/cmdline", "ro")
    modules = list(firmware.filled(firmware.GIGABYTE, mib=65536))
    firmware.give(host, modules)
    assert firmware.judged(host, memory_sizes="equal")["memory_sizes"].verdict == "ok"
    firmware.give(host, [*modules[:-1], firmware.module("DIMM_P0_L0", mib=32768)])
    item = firmware.judged(host, memory_sizes="equal")["memory_sizes"]
    assert (item.verdict, item.found) == ("wrong", "mixed")
    assert "1 x 32 GiB, 11 x 64 GiB" in item.sentence
    firmware.give(host, [*modules[:-1], firmware.module("DIMM_P0_L0", mib=-1)])
    assert firmware.judged(host, memory_sizes="equal")["memory_sizes"].verdict == "unknown"


def test_a_cpu_that_is_not_in_the_table_is_unknown(tmp_path: Path) -> None:
    host = hosts.build(tmp_path, model="AMD EPYC 4564P 16-Core Processor", number=0x61, l3_per_socket=2, nodes=1)
    host.put("/proc/cmdline", "ro")
    firmware.give(host, firmware.filled(firmware.AMI[:2]))
    found = firmware.judged(host, memory_channels="all", memory_speed="rated", memory_sizes="equal")
    verdicts = [found[name].verdict for name in ("memory_channels", "memory_speed", "memory_sizes")]
    assert verdicts == ["unknown", "unknown", "ok"]


def test_a_virtual_machine_has_one_module(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/cmdline", "ro")
    firmware.give(host, firmware.QEMU)
    found = firmware.judged(host)
    assert found["memory_channels"].found == "1 of 12"
    assert (found["memory_speed"].found, found["memory_sizes"].found) == (None, "equal")


@pytest.mark.parametrize(
    ("left", "verdict"),
    [(1, "wrong"), (7, "wrong"), (8, "not asked for"), (12, "not asked for")],
)
def test_most_modules_missing_is_wrong_although_nobody_asked(tmp_path: Path, left: int, verdict: str) -> None:
    host = hosts.shape(tmp_path, "9754")
    host.put("/proc/cmdline", "ro")
    firmware.give(host, firmware.filled(firmware.GIGABYTE, [name for name, _bank in firmware.GIGABYTE[left:]]))
    item = firmware.judged(host)["memory_channels"]
    assert item.verdict == verdict
    assert (f"{left} of 12" in item.sentence) == (left < 12)


def test_the_module_of_a_virtual_machine_is_not_wrong(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9754")
    host.put("/proc/cmdline", "ro")
    firmware.give(host, firmware.QEMU)
    assert firmware.judged(host)["memory_channels"].verdict == "not asked for"
