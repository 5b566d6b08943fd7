# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module cpufreq_per_ccd on fake policies, which tests/lab holds against acpi-cpufreq on a real kernel."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import GLOBAL_BOOST, HOME
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr.registers import CPB_DIS, HWCR
from ansible_collections.sovereign.epyc.tests.unit.fakes.frequencies import Frequencies
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import read_files, request
from ansible_collections.sovereign.epyc.tests.unit.fakes.refused_requests import CPUFREQ
from ansible_collections.sovereign.epyc.tests.unit.fakes.registers import Registers

INTENT = {"draft": {"ccds": 1}}
RECIPE = [
    {"cpus": "all", "governor": "performance"},
    {"cpus": "draft", "boost": True},
    {"cpus": "verify,housekeeping", "boost": False},
]


class Machine:
    """The small machine with the policies of acpi-cpufreq and the driver of registers."""

    def __init__(self, root: Path) -> None:
        self.kernel = Kernel(root)
        self.fs = self.kernel.fs
        self.registers = Registers(self.kernel)
        Frequencies(self.kernel, self.registers, cpuinfo_max_freq=2250000)
        self.fs.load_module("msr")

    def ask(self, *settings: Any, **options: Any) -> dict[str, Any]:
        return request(self.fs, "cpufreq_per_ccd", settings=list(settings), **options)

    def read(self, *files: str) -> list[str]:
        return [self.fs.read(f"{HOME}/{file}") for file in files]

    def read_all(self, name: str) -> set[str]:
        return set(read_files(self.fs, [f"{HOME}/policy*/{name}"]).values())

    def boosts(self) -> list[int]:
        """The CPUs whose hardware may boost."""
        return [cpu for cpu in range(16) if not self.registers.words[cpu, HWCR] >> CPB_DIS & 1]

    def state(self) -> tuple[dict[str, str], list[int]]:
        return read_files(self.fs, [f"{HOME}/boost", f"{HOME}/policy*/*"]), self.boosts()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_draft_boosts_and_the_rest_does_not(machine: Machine) -> None:
    before = machine.state()
    checked = machine.ask(*RECIPE, intent=INTENT, check=True)
    assert checked["changed"] and machine.state() == before
    first = machine.ask(*RECIPE, intent=INTENT)
    assert (first["diff"], first["driver"], first["remarks"]) == (checked["diff"], "acpi-cpufreq", [])
    assert machine.read_all("scaling_governor") == {"performance"}
    assert machine.boosts() == [8, 9, 10, 11, 12, 13, 14, 15]
    assert not machine.ask(*RECIPE, intent=INTENT)["changed"]
    machine.ask(state="original")
    assert machine.state() == before


def test_a_fixed_speed_and_back(machine: Machine) -> None:
    before = machine.state()
    machine.ask({"cpus": "ccd0", "speed": "1900MHz"})
    assert machine.read("policy0/scaling_setspeed", "policy0/scaling_governor") == ["1900000", "userspace"]
    machine.ask({"cpus": "ccd0", "speed": "lowest"})
    assert machine.read("policy7/scaling_setspeed") == ["1500000"]
    left = machine.ask({"cpus": "0", "governor": "ondemand"})
    assert left["diff"]["changes"]["before"]["cpufreq:policy0/scaling_setspeed"] == "1500000"
    machine.ask(state="original")
    assert machine.state() == before


def test_limits_move_up_and_down_together(machine: Machine) -> None:
    for frequency, found in (("1900MHz", 1900000), ("lowest", 1500000), ("base", 2250000), ("1900000", 1900000)):
        machine.ask({"cpus": "all", "min": frequency, "max": frequency})
        assert machine.read_all("scaling_min_freq") == machine.read_all("scaling_max_freq") == {str(found)}


def test_a_limit_that_does_not_keep_from_boosting_is_told(machine: Machine) -> None:
    assert "Set boost to false" in machine.ask({"cpus": "all", "max": "2.25GHz"})["remarks"][0]
    assert machine.ask({"cpus": "all", "max": "base", "boost": False})["remarks"] == []


def test_boost_where_the_switch_of_the_machine_was_off(machine: Machine) -> None:
    machine.fs.write(GLOBAL_BOOST, "0")
    assert machine.boosts() == []
    made = machine.ask({"cpus": "4-5", "boost": True})
    assert (machine.boosts(), machine.read("boost")) == ([4, 5], ["1"])
    assert made["diff"]["changes"]["after"]["cpufreq:boost"] == "1"
    assert not machine.ask({"cpus": "4-5", "boost": True})["changed"]
    machine.ask(state="original")
    assert (machine.boosts(), machine.read("boost")) == ([], ["0"])


def test_the_register_is_believed_and_not_the_files(machine: Machine) -> None:
    """After a write to cpb, which many guides recommend, boost and cpb both show 1, but the hardware does not boost."""
    machine.fs.write(f"{HOME}/policy3/cpb", "0")
    assert machine.read("policy3/cpb", "policy3/boost") == ["1", "1"]
    assert 3 not in machine.boosts()
    made = machine.ask({"cpus": "3", "boost": True})
    assert made["diff"]["changes"]["before"] == {"cpufreq:policy3/boost": "0"}
    assert 3 in machine.boosts()
    assert not machine.ask({"cpus": "3", "boost": True})["changed"]
    machine.ask(state="original")
    assert 3 not in machine.boosts()  # as it was, whatever the files said


def test_without_the_register_the_policys_own_file_does(machine: Machine) -> None:
    machine.fs.load_module("msr", False)
    machine.ask({"cpus": "3", "boost": False})
    assert machine.read("policy3/boost") == ["0"]
    assert 3 not in machine.boosts()


@pytest.mark.parametrize(("settings", "words"), CPUFREQ.values(), ids=list(CPUFREQ))
def test_a_refusal_changes_nothing(machine: Machine, settings: list[Any], words: list[str]) -> None:
    machine.fs.write(f"{CPUS}/cpu5/online", "0")
    before = machine.state()
    answer = machine.ask(*settings)
    assert answer["failed"]
    assert [word for word in words if word not in answer["msg"]] == []
    assert machine.state() == before


def test_a_write_that_fails_half_way_is_undone(machine: Machine) -> None:
    file = f"{HOME}/policy9/scaling_max_freq"
    machine.fs.refusals[file] = errno.EROFS
    before = machine.state()
    answer = machine.ask({"cpus": "all", "governor": "performance", "max": "1900MHz"})
    assert f"Cannot write '1900000' to {file}" in answer["msg"]
    assert answer["msg"].endswith("What this run had changed was put back.")
    assert machine.state() == before


def test_an_offline_policy_is_named_and_comes_back_later(machine: Machine) -> None:
    machine.ask({"cpus": "5-6", "governor": "performance"})
    machine.fs.write(f"{CPUS}/cpu5/online", "0")
    back = machine.ask(state="original")
    assert back["remarks"] == ["cpufreq:policy5/scaling_governor was not put back: the CPUs of policy5 are offline."]
    assert machine.read("policy6/scaling_governor") == ["schedutil"]
    machine.fs.write(f"{CPUS}/cpu5/online", "1")
    assert machine.read("policy5/scaling_governor") == ["performance"]
    machine.ask(state="original")
    assert machine.read("policy5/scaling_governor") == ["schedutil"]


def test_tuned_is_named(machine: Machine) -> None:
    machine.kernel.put("/run/tuned/tuned.pid", 1)
    machine.kernel.put("/proc/1/comm", "tuned")
    assert "TuneD runs here too" in machine.ask({"cpus": "0", "governor": "performance"})["remarks"][0]


def test_without_a_driver_it_says_so(machine: Machine) -> None:
    machine.fs.load_module("acpi_cpufreq", False)
    answer = machine.ask({"cpus": "all", "governor": "performance"})
    assert "CPUs 0-15 have no cpufreq policy" in answer["msg"] and "BIOS" in answer["msg"]
