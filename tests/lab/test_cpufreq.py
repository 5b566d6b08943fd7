# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cpufreq_per_ccd with the real acpi-cpufreq: values that it accepts, changes silently or refuses, and back."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

POLICIES = "/sys/devices/system/cpu/cpufreq"
# The CPUs whose hardware may boost, as bit 25 of HWCR says it.
BOOSTS = (
    "import glob, os\n"
    "for name in sorted(glob.glob('/dev/cpu/*/msr')):\n"
    "    if not os.pread(os.open(name, 0), 8, 0xC0010015)[3] & 2: print(name.split('/')[3])"
)
FILES = f"""
cd {POLICIES} && grep -s '' boost policy*/scaling_governor policy*/scaling_m*_freq policy*/scaling_setspeed
grep -s '' policy*/boost; true
"""
RECIPE = [
    {"cpus": "all", "governor": "performance"},
    {"cpus": "draft", "boost": True},
    {"cpus": "verify,housekeeping", "boost": False},
]
INTENT = {"draft": {"ccds": 1}}

REFUSED = {
    "the recipe's speed": (
        [{"cpus": "all", "speed": "3.1GHz"}],
        ["policy0", "3100 MHz cannot be had", "2250 MHz, 1900 MHz, 1500 MHz", "silently", "boost to true here"],
    ),
    "between two P-states": ([{"cpus": "3", "max": "2GHz"}], ["policy3", "no P-state", "The nearest is 1900 MHz"]),
    "no unit": ([{"cpus": "all", "max": "2250"}], ["'2250' is no frequency", "2250MHz"]),
    "an unknown governor": ([{"cpus": "all", "governor": "turbo"}], ["no governor turbo", "userspace", "schedutil"]),
    "speed under another governor": (
        [{"cpus": "all", "governor": "performance", "speed": "1900MHz"}],
        ["needs the governor userspace", "performance"],
    ),
    "epp": ([{"cpus": "all", "epp": "power"}], ["no energy performance preference", "amd_pstate=active"]),
    "two values": (
        [{"cpus": "all", "boost": True}, {"cpus": "ccd1", "boost": False}],
        ["CPU 8 is asked for two values", "boost=True for all", "boost=False for ccd1"],
    ),
    "min above max": (
        [{"cpus": "all", "min": "2250MHz", "max": "1900MHz"}],
        ["min is 2250 MHz", "max is 1900 MHz", "Give both"],
    ),
    "a CPU that is offline": ([{"cpus": "4-6", "boost": False}], ["CPU 5 is offline"]),
    "the last entry is wrong": (
        [{"cpus": "0-3", "governor": "performance"}, {"cpus": "15", "speed": "3GHz"}],
        ["policy15", "3000 MHz cannot be had"],
    ),
}


def read(guest, *files):
    return guest.run(f"cd {POLICIES} && cat {' '.join(files)}").split()


def boosts(guest):
    return sorted(int(cpu) for cpu in guest.python(BOOSTS).split())


def state(guest):
    """What the kernel shows of every policy, and the hardware of every CPU's boost."""
    return guest.run(FILES), boosts(guest)


@pytest.fixture
def freq(bare_guest):
    """A guest with the kernel module msr, whose policies are as found after every test."""
    bare_guest.run("modprobe msr")
    before = state(bare_guest)

    def apply(*settings, **options):
        return bare_guest.module("cpufreq_per_ccd", settings=list(settings), **options)

    yield apply
    bare_guest.module("cpufreq_per_ccd", state="original")
    after = state(bare_guest)
    bare_guest.run("rmmod msr; true")
    assert after == before


def test_draft_boosts_and_the_rest_does_not(bare_guest, freq):
    check = freq(*RECIPE, intent=INTENT, _ansible_check_mode=True)
    assert check["changed"] and boosts(bare_guest) == list(range(16)), check
    first = freq(*RECIPE, intent=INTENT)
    assert first["diff"] == check["diff"]
    assert set(read(bare_guest, "policy*/scaling_governor")) == {"performance"}
    draft = [int(name[14:].split("/")[0]) for name, value in first["diff"]["before"].items() if name.endswith("boost")]
    assert sorted({*range(16)} - {*draft}) == boosts(bare_guest) and boosts(bare_guest)
    again = freq(*RECIPE, intent=INTENT)
    assert not again["changed"], again["diff"]
    assert (first["driver"], first["remarks"]) == ("acpi-cpufreq", [])


def test_a_fixed_speed_and_back(bare_guest, freq):
    freq({"cpus": "ccd0", "speed": "1900MHz"})
    assert read(bare_guest, "policy0/scaling_setspeed", "policy0/scaling_governor") == ["1900000", "userspace"]
    freq({"cpus": "ccd0", "speed": "lowest"})
    assert read(bare_guest, "policy7/scaling_setspeed") == ["1500000"]
    leave = freq({"cpus": "0", "governor": "ondemand"})
    assert leave["diff"]["before"]["cpufreq:policy0/scaling_setspeed"] == "1500000"


def test_limits_move_up_and_down_together(bare_guest, freq):
    for frequency in ("1900MHz", "lowest", "base", "1900000"):
        freq({"cpus": "all", "min": frequency, "max": frequency})
        assert len({*read(bare_guest, "policy*/scaling_min_freq", "policy*/scaling_max_freq")}) == 1
    assert read(bare_guest, "policy9/scaling_max_freq") == ["1900000"]


def test_a_limit_that_does_not_keep_from_boosting_is_told(freq):
    assert "Set boost to false" in freq({"cpus": "all", "max": "2.25GHz"})["remarks"][0]
    assert freq({"cpus": "all", "max": "base", "boost": False})["remarks"] == []


def test_boost_where_the_switch_of_the_machine_was_off(bare_guest, freq):
    bare_guest.run(f"echo 0 >{POLICIES}/boost")
    assert boosts(bare_guest) == []
    made = freq({"cpus": "4-5", "boost": True})
    assert boosts(bare_guest) == [4, 5] and read(bare_guest, "boost") == ["1"]
    assert not freq({"cpus": "4-5", "boost": True})["changed"]
    assert made["diff"]["after"]["cpufreq:boost"] == "1"
    bare_guest.module("cpufreq_per_ccd", state="original")
    assert boosts(bare_guest) == [] and read(bare_guest, "boost") == ["0"]
    bare_guest.run(f"echo 1 >{POLICIES}/boost")


def test_the_register_is_believed_and_not_the_files(bare_guest, freq):
    """After a write to cpb, which many guides recommend, boost and cpb both show 1, but the hardware does not boost."""
    bare_guest.run(f"echo 0 >{POLICIES}/policy3/cpb")
    assert read(bare_guest, "policy3/cpb", "policy3/boost") == ["1", "1"]
    assert 3 not in boosts(bare_guest)
    made = freq({"cpus": "3", "boost": True})
    assert made["diff"]["before"] == {"cpufreq:policy3/boost": "0"}
    assert 3 in boosts(bare_guest)
    assert not freq({"cpus": "3", "boost": True})["changed"]
    bare_guest.module("cpufreq_per_ccd", state="original")
    assert 3 not in boosts(bare_guest)  # as it was, whatever the files said
    bare_guest.run(f"echo 1 >{POLICIES}/policy3/boost")


def test_without_the_register_the_policys_own_file_does(bare_guest, freq):
    bare_guest.run("rmmod msr")
    freq({"cpus": "3", "boost": False})
    assert read(bare_guest, "policy3/boost") == ["0"]
    bare_guest.run("modprobe msr")
    assert 3 not in boosts(bare_guest)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_changes_nothing(bare_guest, freq, name):
    settings, words = REFUSED[name]
    if "offline" in name:
        bare_guest.run("echo 0 >/sys/devices/system/cpu/cpu5/online")
    before = state(bare_guest)
    result = freq(*settings)
    assert result.get("failed"), result
    for word in words:
        assert word in result["msg"]
    assert state(bare_guest) == before
    bare_guest.run("echo 1 >/sys/devices/system/cpu/cpu5/online")


def test_a_write_that_fails_half_way_is_undone(bare_guest, freq):
    """One file refuses the write, after others were written."""
    file = f"{POLICIES}/policy9/scaling_max_freq"
    bare_guest.run(f"echo 2250000 >/run/held && mount --bind /run/held {file} && mount -o remount,bind,ro {file}")
    before = state(bare_guest)
    result = freq({"cpus": "all", "governor": "performance", "max": "1900MHz"})
    after = state(bare_guest)
    bare_guest.run(f"umount {file}; rm /run/held")
    assert result["failed"] and f"Cannot write '1900000' to {file}" in result["msg"], result
    assert result["msg"].endswith("What this run had changed was put back.") and after == before


def test_an_offline_policy_is_named_and_comes_back_later(bare_guest, freq):
    freq({"cpus": "5-6", "governor": "performance"})
    bare_guest.run("echo 0 >/sys/devices/system/cpu/cpu5/online")
    back = bare_guest.module("cpufreq_per_ccd", state="original")
    assert back["remarks"] == ["cpufreq:policy5/scaling_governor was not put back: the CPUs of policy5 are offline."]
    assert read(bare_guest, "policy6/scaling_governor") == ["schedutil"]
    bare_guest.run("echo 1 >/sys/devices/system/cpu/cpu5/online")
    assert read(bare_guest, "policy5/scaling_governor") == ["performance"]


def test_tuned_is_named(bare_guest, freq):
    bare_guest.run("mkdir -p /run/tuned && echo 1 >/run/tuned/tuned.pid")
    remarks = freq({"cpus": "0", "governor": "performance"})["remarks"]
    bare_guest.run("rm -r /run/tuned")
    assert "TuneD runs here too" in remarks[0]


def test_without_a_driver_it_says_so(bare_guest, freq):
    bare_guest.run("rmmod acpi_cpufreq")
    result = freq({"cpus": "all", "governor": "performance"})
    bare_guest.run("modprobe acpi_cpufreq")
    assert result["failed"] and "CPUs 0-15 have no cpufreq policy" in result["msg"] and "BIOS" in result["msg"]
