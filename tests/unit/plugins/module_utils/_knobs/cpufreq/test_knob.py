# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cpufreq knob on trees of machines that are not here: SMT, every mode of amd-pstate, older kernels."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import (
    DYNAMIC_EPP,
    HOME,
    PSTATE_STATUS,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.cpufreq_drivers import DRIVERS, knob, machine, refusal


@pytest.mark.parametrize(
    ("driver", "here", "there", "wanted_here", "wanted_there"),
    [
        (
            "acpi-cpufreq",
            {"governor": "performance", "boost": True},
            {"governor": "performance", "boost": False},
            {"scaling_governor": "performance", "boost": "1"},
            {"scaling_governor": "performance", "boost": "0"},
        ),
        (
            "active",
            {"governor": "performance", "min": "3.1GHz", "max": "3.1GHz"},
            {"max": "base"},
            {
                "scaling_governor": "performance",
                "energy_performance_preference": "performance",
                "scaling_min_freq": "3100000",
                "scaling_max_freq": "3100000",
            },
            {"scaling_max_freq": "2250000"},
        ),
        *(
            (
                mode,
                {"speed": "3.1GHz"},
                {"max": "base"},
                {"scaling_governor": "userspace", "scaling_setspeed": "3100000"},
                {"scaling_max_freq": "2250000"},
            )
            for mode in ("passive", "guided")
        ),
    ],
)
def test_the_recipe_on_each_driver(
    tmp_path: Path,
    driver: str,
    here: dict[str, Any],
    there: dict[str, Any],
    wanted_here: dict[str, str],
    wanted_there: dict[str, str],
) -> None:
    made = knob(machine(tmp_path, driver), {"cpus": "l3:0", **here}, {"cpus": "4-15", **there})
    wanted = {f"cpufreq:policy{cpu}/{file}": text for cpu in range(4) for file, text in wanted_here.items()}
    wanted.update({f"cpufreq:policy{cpu}/{file}": text for cpu in range(4, 16) for file, text in wanted_there.items()})
    assert made.wanted_settings() == wanted
    assert made.module_facts()["amd_pstate"] == DRIVERS[driver][1]


def test_check_mode_sees_that_amd_pstate_chooses_the_preference_by_itself(tmp_path: Path) -> None:
    tree = machine(tmp_path, "active")
    tree.put(DYNAMIC_EPP, "enabled")
    assert "refuses every epp (EBUSY)" in refusal(tree, {"cpus": "all", "epp": "power"})
    tree.put(DYNAMIC_EPP, "disabled")
    assert knob(tree, {"cpus": "0", "epp": "power"}).wanted_settings() == {
        "cpufreq:policy0/energy_performance_preference": "power"
    }


def test_a_dynamic_preference_is_read_as_the_kernel_takes_it(tmp_path: Path) -> None:
    tree = machine(tmp_path, "active", energy_performance_preference="dynamic(profile:balance_performance)")
    address = "cpufreq:policy0/energy_performance_preference"
    assert knob(tree).read_settings([address]) == {address: "dynamic"}


def test_floors_of_a_part_of_the_cpus(tmp_path: Path) -> None:
    tree = machine(tmp_path, "active", amd_pstate_floor_freq=1500000, amd_pstate_floor_count=2)
    wanted = knob(tree, {"cpus": "l3:0", "floor": "base"}).wanted_settings()
    assert wanted == {f"cpufreq:policy{cpu}/amd_pstate_floor_freq": "2250000" for cpu in range(4)}
    told = refusal(tree, {"cpus": "l3:0", "floor": "base"}, {"cpus": "l3:1", "floor": "3GHz"})
    assert "3 different floors, 1500 MHz, 2250 MHz, 3000 MHz, and the hardware knows 2" in told


def test_policies_are_walked_and_not_cpus(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", smt=True)
    wanted = knob(tree, {"cpus": "0-3,16-19", "governor": "performance"}).wanted_settings()
    assert sorted(wanted) == [f"cpufreq:policy{number}/scaling_governor" for number in range(4)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            [{"cpus": "0-15", "governor": "performance"}, {"cpus": "16-31", "governor": "powersave"}],
            "CPUs 0,16 change their frequency together (policy0), but CPU 16 is asked for another governor",
        ),
        ([{"cpus": "0-3", "boost": False}], "boost=False for 0-3 against nothing"),
    ],
)
def test_a_policy_cannot_be_split(tmp_path: Path, settings: list[dict[str, Any]], words: str) -> None:
    assert words in refusal(machine(tmp_path, "acpi-cpufreq", smt=True), *settings)


def test_an_offline_sibling_does_not_matter(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", smt=True, affected_cpus=0)
    tree.put(f"{HOME}/policy1/affected_cpus", "1")
    assert len(knob(tree, {"cpus": "1", "governor": "performance"}).wanted_settings()) == 1


def test_no_policy_at_all(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path)
    assert "CPUs 0-15 have no cpufreq policy" in refusal(tree, {"cpus": "all", "governor": "performance"})
    tree.put(PSTATE_STATUS, "disable")
    assert "write 'active'" in refusal(tree, {"cpus": "all", "governor": "performance"})
    assert knob(tree).wanted_settings() == {}


def test_an_entry_that_asks_for_nothing(tmp_path: Path) -> None:
    assert "asks for nothing; say one of governor, min" in refusal(machine(tmp_path, "active"), {"cpus": "0"})


def test_active_mode_shows_what_boost_would_give_while_it_is_off(tmp_path: Path) -> None:
    tree = machine(tmp_path, "active", cpuinfo_max_freq=2250000, scaling_max_freq=2250000, boost=0)
    wanted = knob(tree, {"cpus": "0", "boost": True, "max": "highest"}).wanted_settings()
    assert wanted["cpufreq:policy0/scaling_max_freq"] == "3107909"


def test_a_machine_with_one_boost_switch(tmp_path: Path) -> None:
    tree = machine(tmp_path, "passive", boost=None)
    assert "one boost switch for the whole machine" in refusal(tree, {"cpus": "0-3", "boost": False})
    assert knob(tree, {"cpus": "all", "boost": False, "max": "highest"}).wanted_settings()["cpufreq:boost"] == "0"


def test_an_older_kernel_needs_the_register_to_let_cpus_differ(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", boost=None)
    assert "Load the kernel module msr" in refusal(tree, {"cpus": "3", "boost": False})
    tree.put("/dev/cpu/3/msr", "")
    os.truncate(tree.root / "dev/cpu/3/msr", 0xC0012000)
    made = knob(tree, {"cpus": "3", "boost": False})
    wanted = made.wanted_settings()
    assert (wanted, made.read_settings(wanted)) == ({"cpufreq:policy3/boost": "0"}, {"cpufreq:policy3/boost": "1"})
    tree.fs.patch_words("/dev/cpu/3/msr", [(0xC0010015, 1 << 25, 1 << 25)])
    assert made.read_settings(wanted) == wanted


def test_a_check_of_an_older_kernel_says_what_a_run_would_do_once_the_register_is_there(tmp_path: Path) -> None:
    """The run loads the kernel module before, by the role epyc_prerequisites; the check must not."""
    tree = machine(tmp_path, "acpi-cpufreq", boost=None)
    tree.fs.read_only = True
    made = knob(tree, {"cpus": "0-2", "boost": True}, {"cpus": "3", "boost": False})
    wanted = made.wanted_settings()
    assert wanted == {f"cpufreq:policy{number}/boost": "0" if number == 3 else "1" for number in range(4)}
    assert made.read_settings(wanted) == dict.fromkeys(wanted)
    (remark,) = [remark for remark in made.list_remarks() if "boost" in remark]
    assert "the kernel module msr is not loaded" in remark
    assert "prerequisites" in remark
    assert made.unreachable_reason("cpufreq:policy3/boost") == (
        "the kernel module msr is not loaded (modprobe msr), through which boost is read on this kernel"
    )
    assert made.unreachable_reason("cpufreq:policy3/scaling_governor") is None
    tree.put("/dev/cpu/3/msr/no_register", "")
    unread = "/dev/cpu/3/msr cannot be read, through which boost is seen on this kernel"
    assert made.unreachable_reason("cpufreq:policy3/boost") == unread
    shutil.rmtree(tree.root / "dev/cpu/3/msr")
    tree.put("/dev/cpu/3/msr", "")
    os.truncate(tree.root / "dev/cpu/3/msr", 0xC0012000)
    assert made.unreachable_reason("cpufreq:policy3/boost") is None


def test_a_check_needs_no_register_where_all_cpus_are_asked_for_the_same(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", boost=None)
    tree.fs.read_only = True
    made = knob(tree, {"cpus": "all", "boost": True})
    assert made.wanted_settings() == {"cpufreq:boost": "1"}
    assert made.list_remarks() == []


# Comparing and naming


@pytest.mark.parametrize(
    ("file", "wanted", "found", "same"),
    [
        ("scaling_max_freq", "3107909", "3107000", True),
        ("scaling_max_freq", "3107909", "3100000", False),
        ("scaling_setspeed", "1900000", None, False),
        ("scaling_setspeed", None, None, True),
        ("boost", "1", "0", False),
    ],
)
def test_frequencies_are_compared_to_a_thousandth(
    tmp_path: Path, file: str, wanted: str | None, found: str | None, same: bool
) -> None:
    assert knob(hosts.small(tmp_path)).values_equal(f"cpufreq:policy0/{file}", wanted, found) is same


def test_what_is_out_of_reach_is_named(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq")
    tree.put(f"{HOME}/policy5/affected_cpus", "")
    made = knob(tree)
    assert made.unreachable_reason("cpufreq:policy5/scaling_governor") == "the CPUs of policy5 are offline"
    assert "driver was changed" in str(made.unreachable_reason("cpufreq:policy99/scaling_governor"))
    assert made.unreachable_reason("cpufreq:policy0/scaling_governor") is None
    assert made.unreachable_reason("cpufreq:boost") is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/run/tuned/tuned.pid", "TuneD runs here too"),
        ("/sys/fs/cgroup/system.slice/power-profiles-daemon.service/cgroup.procs", "power-profiles-daemon runs"),
    ],
)
def test_other_owners_are_named(tmp_path: Path, path: str, words: str) -> None:
    tree = machine(tmp_path, "acpi-cpufreq")
    tree.put(path, 77)
    tree.put("/proc/77/comm", "x")
    made = knob(tree, {"cpus": "0", "governor": "performance"})
    made.wanted_settings()
    assert [words in remark for remark in made.list_remarks()] == [True]
