# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cpufreq knob on trees of machines that are not here: SMT, every mode of amd-pstate, older kernels."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.converge import differences
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq import knob as cpufreq_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.knob import CpuFreq
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import HOME, PSTATE_STATUS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.knob import Change
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.frequencies import ACPI, GENERIC, UNSUPPORTED

COMMON = {"cpuinfo_min_freq": 1500000, "scaling_min_freq": 1500000, "scaling_setspeed": UNSUPPORTED}
PASSIVE = {
    **COMMON,
    "scaling_driver": "amd-pstate",
    "scaling_available_governors": GENERIC,
    "scaling_governor": "schedutil",
    "cpuinfo_max_freq": 3107909,
    "amd_pstate_max_freq": 3107909,
    "scaling_max_freq": 3107909,
    "boost": 1,
}
ACTIVE = {
    **PASSIVE,
    "scaling_driver": "amd-pstate-epp",
    "scaling_available_governors": "performance powersave",
    "scaling_governor": "powersave",
    "energy_performance_preference": "balance_performance",
    "energy_performance_available_preferences": "default performance balance_performance balance_power power",
}
DRIVERS = {
    "acpi-cpufreq": (ACPI, None),
    "active": (ACTIVE, "active"),
    "passive": (PASSIVE, "passive"),
    "guided": (PASSIVE, "guided"),
}


def machine(root: Path, driver: str, smt: bool = False, **changes: Any) -> hosts.Host:
    """Sixteen cores, a policy for each; files that a change sets to None are not there."""
    files, status = DRIVERS[driver]
    tree = hosts.small(root, smt=smt)
    for core in range(16):
        cpus = f"{core} {core + 16}" if smt else f"{core}"
        for name, text in {**files, "affected_cpus": cpus, "related_cpus": cpus, **changes}.items():
            if text is not None:
                tree.put(f"{HOME}/policy{core}/{name}", text)
        tree.put(f"/sys/devices/system/cpu/cpu{core}/acpi_cppc/nominal_freq", 2250)
    tree.put(f"{HOME}/boost", 1)
    if status:
        tree.put(PSTATE_STATUS, status)
    return tree


def knob(tree: hosts.Host, *settings: dict[str, Any], **intent: Any) -> CpuFreq:
    return CpuFreq(Host(tree.fs, intent), settings)


def refusal(tree: hosts.Host, *settings: dict[str, Any]) -> str:
    with pytest.raises(BadRequest) as caught:
        knob(tree, *settings).wanted()
    return str(caught.value)


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
    assert made.wanted() == wanted
    assert made.facts()["amd_pstate"] == DRIVERS[driver][1]


def test_policies_are_walked_and_not_cpus(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", smt=True)
    wanted = knob(tree, {"cpus": "0-3,16-19", "governor": "performance"}).wanted()
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
    assert len(knob(tree, {"cpus": "1", "governor": "performance"}).wanted()) == 1


def test_no_policy_at_all(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path)
    assert "CPUs 0-15 have no cpufreq policy" in refusal(tree, {"cpus": "all", "governor": "performance"})
    tree.put(PSTATE_STATUS, "disable")
    assert "write 'active'" in refusal(tree, {"cpus": "all", "governor": "performance"})
    assert knob(tree).wanted() == {}


def test_an_entry_that_asks_for_nothing(tmp_path: Path) -> None:
    assert "asks for nothing; say one of governor, min" in refusal(machine(tmp_path, "active"), {"cpus": "0"})


def test_active_mode_shows_what_boost_would_give_while_it_is_off(tmp_path: Path) -> None:
    tree = machine(tmp_path, "active", cpuinfo_max_freq=2250000, scaling_max_freq=2250000, boost=0)
    wanted = knob(tree, {"cpus": "0", "boost": True, "max": "highest"}).wanted()
    assert wanted["cpufreq:policy0/scaling_max_freq"] == "3107909"


def test_a_machine_with_one_boost_switch(tmp_path: Path) -> None:
    tree = machine(tmp_path, "passive", boost=None)
    assert "one boost switch for the whole machine" in refusal(tree, {"cpus": "0-3", "boost": False})
    assert knob(tree, {"cpus": "all", "boost": False, "max": "highest"}).wanted()["cpufreq:boost"] == "0"


def test_an_older_kernel_needs_the_register_to_let_cpus_differ(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", boost=None)
    assert "Load the kernel module msr" in refusal(tree, {"cpus": "3", "boost": False})
    tree.put("/dev/cpu/3/msr", "")
    os.truncate(tree.root / "dev/cpu/3/msr", 0xC0012000)
    made = knob(tree, {"cpus": "3", "boost": False})
    wanted = made.wanted()
    assert (wanted, made.read(wanted)) == ({"cpufreq:policy3/boost": "0"}, {"cpufreq:policy3/boost": "1"})
    tree.fs.patch_words("/dev/cpu/3/msr", [(0xC0010015, 1 << 25, 1 << 25)])
    assert made.read(wanted) == wanted


def test_a_check_of_an_older_kernel_says_what_a_run_would_do_once_the_register_is_there(tmp_path: Path) -> None:
    """The run loads the kernel module before, by the role prerequisites; the check must not."""
    tree = machine(tmp_path, "acpi-cpufreq", boost=None)
    tree.fs.read_only = True
    made = knob(tree, {"cpus": "0-2", "boost": True}, {"cpus": "3", "boost": False})
    wanted = made.wanted()
    assert wanted == {f"cpufreq:policy{number}/boost": "0" if number == 3 else "1" for number in range(4)}
    assert made.read(wanted) == dict.fromkeys(wanted)
    (remark,) = [remark for remark in made.remarks() if "boost" in remark]
    assert "the kernel module msr is not loaded" in remark
    assert "prerequisites" in remark
    assert made.gone("cpufreq:policy3/boost") == (
        "the kernel module msr is not loaded (modprobe msr), through which boost is read on this kernel"
    )
    assert made.gone("cpufreq:policy3/scaling_governor") is None
    tree.put("/dev/cpu/3/msr/no_register", "")
    unread = "/dev/cpu/3/msr cannot be read, through which boost is seen on this kernel"
    assert made.gone("cpufreq:policy3/boost") == unread
    shutil.rmtree(tree.root / "dev/cpu/3/msr")
    tree.put("/dev/cpu/3/msr", "")
    os.truncate(tree.root / "dev/cpu/3/msr", 0xC0012000)
    assert made.gone("cpufreq:policy3/boost") is None


def test_a_check_needs_no_register_where_all_cpus_are_asked_for_the_same(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", boost=None)
    tree.fs.read_only = True
    made = knob(tree, {"cpus": "all", "boost": True})
    assert made.wanted() == {"cpufreq:boost": "1"}
    assert made.remarks() == []


# Writing


@pytest.mark.parametrize(
    ("now", "then", "order"),
    [
        ((1500000, 1900000), (2250000, 2250000), ["scaling_max_freq", "scaling_min_freq"]),
        ((2250000, 2250000), (1500000, 1900000), ["scaling_min_freq", "scaling_max_freq"]),
        ((1500000, 2250000), (1900000, 1900000), ["scaling_min_freq", "scaling_max_freq"]),
        ((1900000, 1900000), (1500000, 2250000), ["scaling_max_freq", "scaling_min_freq"]),
    ],
)
def test_limits_never_cross_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: tuple[int, int], then: tuple[int, int], order: list[str]
) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", scaling_min_freq=now[0], scaling_max_freq=now[1])
    seen = written(tree, monkeypatch)
    made = knob(tree, {"cpus": "0", "min": str(then[0]), "max": str(then[1])})
    wanted = made.wanted()
    made.write(differences(made, wanted, made.read(wanted)))
    assert seen == [f"policy0/{file}" for file in order]
    assert made.read(wanted) == wanted


def written(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are written from now on, below the policies."""
    seen: list[str] = []
    really = tree.fs.write

    def write(path: str, text: str) -> None:
        seen.append(path[len(HOME) + 1 :])
        really(path, text)

    monkeypatch.setattr(tree.fs, "write", write)
    return seen


def test_limits_that_the_kernel_takes_over_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written shows once write returns, and also once it fails at a later policy."""
    tree = machine(tmp_path, "acpi-cpufreq")
    really = tree.fs.write
    late: list[threading.Timer] = []

    def write(path: str, text: str) -> None:
        if "policy2" in path:
            raise Refused(f"Cannot write to {path}", errno.EROFS, path)
        late.append(threading.Timer(0.1, really, (path, text)))
        late[-1].start()

    monkeypatch.setattr(tree.fs, "write", write)
    for cpus, failure in (("0", nullcontext()), ("1-2", pytest.raises(Refused))):
        made = knob(tree, {"cpus": cpus, "max": "1900MHz"})
        wanted = made.wanted()
        with failure:
            made.write(differences(made, wanted, made.read(wanted)))
        shown = made.read(wanted)
        assert shown.pop("cpufreq:policy2/scaling_max_freq", "2250000") == "2250000"
        assert list(shown.values()) == ["1900000"]
    for timer in late:
        timer.join()


def test_a_limit_that_never_shows_does_not_hold_up_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = machine(tmp_path, "acpi-cpufreq")
    monkeypatch.setattr(cpufreq_knob, "PATIENCE", 0.05)
    monkeypatch.setattr(tree.fs, "write", lambda path, text: None)
    made = knob(tree, {"cpus": "0", "max": "1900MHz"})
    wanted = made.wanted()
    made.write(differences(made, wanted, made.read(wanted)))
    assert made.read(wanted) == {"cpufreq:policy0/scaling_max_freq": "2250000"}


def test_governors_go_before_what_depends_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = machine(tmp_path, "active", scaling_governor="performance", energy_performance_preference="performance")
    seen = written(tree, monkeypatch)
    made = knob(tree, {"cpus": "0", "governor": "powersave", "epp": "power", "boost": False, "max": "base"})
    wanted = made.wanted()
    made.write(differences(made, wanted, made.read(wanted)))
    files = ["boost", "scaling_governor", "energy_performance_preference", "scaling_max_freq"]
    assert seen == [f"policy0/{file}" for file in files]


def test_a_speed_that_its_governor_takes_along_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", scaling_governor="userspace", scaling_setspeed=1900000)
    seen = written(tree, monkeypatch)
    made = knob(tree, {"cpus": "0", "governor": "performance"})
    wanted = made.wanted()
    made.write([Change(name, "", text) for name, text in wanted.items()])
    assert wanted["cpufreq:policy0/scaling_setspeed"] is None
    assert seen == ["policy0/scaling_governor"]


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
    assert knob(hosts.small(tmp_path)).same(f"cpufreq:policy0/{file}", wanted, found) is same


def test_what_is_out_of_reach_is_named(tmp_path: Path) -> None:
    tree = machine(tmp_path, "acpi-cpufreq")
    tree.put(f"{HOME}/policy5/affected_cpus", "")
    made = knob(tree)
    assert made.gone("cpufreq:policy5/scaling_governor") == "the CPUs of policy5 are offline"
    assert "driver was changed" in str(made.gone("cpufreq:policy99/scaling_governor"))
    assert made.gone("cpufreq:policy0/scaling_governor") is None
    assert made.gone("cpufreq:boost") is None


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
    made.wanted()
    assert [words in remark for remark in made.remarks()] == [True]
