# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module msr_bits on fake registers, which tests/lab holds against those behind the driver of a real kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.lockdown import ALLOW_WRITES
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr.registers import HWCR, PREFETCH_CONTROL
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import request
from ansible_collections.sovereign.epyc.tests.unit.fakes.refused_requests import MSR, UNDOCUMENTED
from ansible_collections.sovereign.epyc.tests.unit.fakes.registers import BORN_HWCR, Registers

DC_CFG, NO_BOOST = 0xC0011022, BORN_HWCR | 1 << 25


class Machine:
    """The small machine with the drivers of registers and of CPUID."""

    def __init__(self, root: Path) -> None:
        self.kernel = Kernel(root)
        self.fs = self.kernel.fs
        self.registers = Registers(self.kernel)
        self.kernel.put("/proc/cpuinfo", self.fs.read("/proc/cpuinfo").replace("cqm_llc", "cqm_llc cpb"))
        self.load("msr", "cpuid")

    def load(self, *names: str, load: bool = True) -> None:
        for name in names:
            self.fs.load_module(name, load)

    def ask(self, *settings: Any, **options: Any) -> dict[str, Any]:
        return request(self.fs, "msr_bits", settings=list(settings), **options)

    def words(self, cpu: int) -> tuple[int, int, int]:
        found = (self.registers.words.get((cpu, register), 0) for register in (PREFETCH_CONTROL, DC_CFG, HWCR))
        prefetch, dc_cfg, hwcr = found
        return prefetch, dc_cfg, hwcr

    def all_words(self) -> list[tuple[int, int, int]]:
        return [self.words(cpu) for cpu in range(16)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def off(cpus: str, *names: str) -> dict[str, Any]:
    return {"cpus": cpus, "prefetch_control": dict.fromkeys(names, "disabled")}


def raw(register: str, bits: str = "13", value: str = "1", cpus: str = "3") -> dict[str, Any]:
    return {"cpus": cpus, "register": register, "bits": bits, "value": value}


def lacks(message: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word not in message]


def test_draft_and_verify_differ(machine: Machine) -> None:
    settings = [
        off("draft", "l1_stream", "l2_stream", "up_down"),
        {"cpus": "verify", "prefetch_control": {"l1_stream": "enabled", "l1_stride": "disabled"}},
        {"cpus": "verify", "hwcr": {"boost": "disabled"}},
    ]
    before, intent = machine.all_words(), {"draft": {"ccds": 1}}
    checked = machine.ask(*settings, intent=intent, check=True)
    assert machine.all_words() == before
    assert (checked["changed"], checked["tainted"]) == (True, False)
    first = machine.ask(*settings, intent=intent)
    assert (first["diff"], first["remarks"]) == (checked["diff"], checked["remarks"])
    assert (first["tainted_before"], first["tainted"]) == (False, True)
    assert "acpi-cpufreq writes the boost bit too" in first["remarks"][0] and "taint flag" in first["remarks"][1]
    draft, verify, housekeeping = (0b101001, 0, BORN_HWCR), (0b10, 0, NO_BOOST), (0, 0, BORN_HWCR)
    assert set(machine.all_words()) == {draft, verify, housekeeping}
    again = machine.ask(*settings, intent=intent)
    assert (again["changed"], again["remarks"], again["tainted"]) == (False, first["remarks"][:1], True)
    machine.ask(state="original")
    assert machine.all_words() == before


def test_other_bits_stay(machine: Machine) -> None:
    machine.ask(off("7", "l1_stride"), {"cpus": "7", "hwcr": {"boost": "disabled"}})
    machine.ask(off("7", "up_down"))
    assert machine.words(7) == (0b100010, 0, NO_BOOST)
    assert machine.ask(state="original")["changed"]
    assert machine.words(7) == machine.words(6)


def test_fields_that_overlap_come_back(machine: Machine) -> None:
    machine.ask(raw("0xc0011022", "15:13", "0b101"), allow_undocumented=True)
    machine.ask(raw("0xc0011022", "14:13", "0b10"), allow_undocumented=True)
    assert machine.words(3)[1] == 0b110 << 13
    machine.ask(state="original")
    assert machine.words(3)[1] == 0


def test_a_write_that_the_hardware_ignores_is_a_failure(machine: Machine) -> None:
    before = machine.all_words()
    answer = machine.ask(off("3,4", "l1_stream"), raw("0xc0011020", cpus="3,4"), allow_undocumented=True)
    assert "msr:0xc0011020[13]/cpu3 and 1 more: the write succeeded without effect" in answer["msg"]
    assert (answer["wanted"], answer["found"], answer["address"]) == ("1", "0", "msr:0xc0011020[13]/cpu3")
    assert answer["msg"].endswith("put back.")
    assert machine.all_words() == before


@pytest.mark.parametrize(("settings", "words"), MSR.values(), ids=list(MSR))
def test_refused_whatever_is_allowed(machine: Machine, settings: list[Any], words: list[str]) -> None:
    machine.fs.write(f"{CPUS}/cpu5/online", "0")
    before = machine.all_words()
    assert lacks(machine.ask(*settings, allow_undocumented=True)["msg"], words) == []
    assert machine.all_words() == before


@pytest.mark.parametrize(("settings", "words"), UNDOCUMENTED.values(), ids=list(UNDOCUMENTED))
def test_the_undocumented_is_refused_until_allowed(machine: Machine, settings: list[Any], words: list[str]) -> None:
    assert lacks(machine.ask(*settings)["msg"], words) == []


def test_writes_that_somebody_switched_off(machine: Machine) -> None:
    before = machine.all_words()
    machine.fs.write(ALLOW_WRITES, "off")
    checked = machine.ask(off("3", "l1_stream"), check=True)
    refused = machine.ask(off("3", "l1_stream"))
    assert "allow_writes is off" in refused["msg"] and checked["msg"] == refused["msg"]
    met = machine.ask({"cpus": "3", "prefetch_control": {"l1_stream": "enabled"}})
    assert not met.get("failed") and not met["changed"]
    assert machine.all_words() == before


def test_modules_are_loaded_only_when_asked_and_unloaded_again(machine: Machine) -> None:
    machine.load("msr", "cpuid", load=False)
    plain = machine.ask(off("3", "l1_stream"))
    assert "modules msr and cpuid are not loaded" in plain["msg"] and "Set load_module" in plain["msg"]
    checked = machine.ask(off("3", "l1_stream"), load_module=True, check=True)
    assert checked["changed"] and checked["diff"]["changes"]["after"]["msr:module/msr"] == "loaded"
    assert machine.fs.list_names("/dev/cpu") == []
    made = machine.ask(off("3", "l1_stream"), load_module=True)
    assert made["diff"]["changes"]["before"] == {
        "msr:module/cpuid": None,
        "msr:module/msr": None,
        "msr:0xc0000108[0]/cpu3": "0",
    }
    assert not machine.ask(off("3", "l1_stream"), load_module=True)["changed"]
    machine.load("msr", load=False)
    away = machine.ask(state="original")
    assert "was not put back: the kernel module msr is not loaded (modprobe msr)" in away["remarks"][0]
    machine.load("msr")
    machine.ask(load_module=True)
    assert machine.ask(state="original")["remarks"] == []
    assert {words[0] for words in machine.all_words()} == {0}


def test_a_cpu_that_is_offline_at_the_undo_keeps_its_original(machine: Machine) -> None:
    assert machine.ask(off("8-11", "l1_stream"))["changed"]
    machine.fs.write(f"{CPUS}/cpu9/online", "0")
    assert machine.ask(state="original")["remarks"] == ["msr:0xc0000108[0]/cpu9 was not put back: CPU 9 is offline."]
    machine.fs.write(f"{CPUS}/cpu9/online", "1")
    assert [machine.words(cpu)[0] for cpu in range(8, 12)] == [0, 1, 0, 0]
    machine.ask(state="original")
    assert machine.words(9)[0] == 0
