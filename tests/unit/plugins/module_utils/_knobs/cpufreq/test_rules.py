# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each driver can express. acpi-cpufreq is asked on a real kernel too; the others no machine here has."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq import policy as cpufreq_policy
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq import rules
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import Policy, parse_frequency

GENERIC = ("userspace", "powersave", "ondemand", "conservative", "performance", "schedutil")


def policy(driver: str, **changes: Any) -> Policy:
    """A policy of a 9754 under a driver."""
    made = Policy("policy0", (0, 128))
    made.driver = driver
    made.governors, made.governor = GENERIC, "schedutil"
    made.lowest, made.highest, made.base = 1500000, 3107909, 2250000
    made.min, made.max = 1500000, 3107909
    made.own_boost, made.boost = True, "1"
    if driver == "acpi-cpufreq":
        made.states, made.max, made.firmware_limit = (2250000, 1900000, 1500000), 2250000, 2250000
    if driver == "amd-pstate-epp":
        made.governors, made.governor = ("performance", "powersave"), "powersave"
        made.preference = "balance_performance"
        made.preferences = ("default", "performance", "balance_performance", "balance_power", "power")
    for name, value in changes.items():
        assert hasattr(made, name)
        setattr(made, name, value)
    return made


DRIVERS = {name: policy(name) for name in ("acpi-cpufreq", "amd-pstate-epp", "amd-pstate", "another")}
ACPI, ACTIVE, PASSIVE, OTHER = DRIVERS.values()


def plan(on: Policy, **ask: Any) -> dict[str, str | None]:
    return rules.plan_policy_files(on, ask, [])


# Frequencies


@given(st.integers(100_000, 99_999_999))
def test_a_frequency_is_the_same_in_every_unit(khz: int) -> None:
    texts = [khz, str(khz), f"{khz}kHz", f"{khz / 1000:.3f} MHz", f"{khz / 1_000_000:.6f}ghz"]
    assert {parse_frequency(text, "max") for text in texts} == {khz}


@given(st.text(max_size=12) | st.floats() | st.integers())
def test_any_text_is_a_frequency_or_refused_with_a_sentence(raw: object) -> None:
    try:
        khz = parse_frequency(raw, "max")
    except BadRequest as error:
        assert "say it with a unit" in str(error)
    else:
        assert khz in ("lowest", "base", "highest") or 100_000 <= int(khz) < 10**8


@pytest.mark.parametrize(
    "raw", ["2250", "2.25", "2250Hz", "2.2.5GHz", "2.2500001MHz", "-3GHz", "GHz", "100GHz", "1e6", ""]
)
def test_what_is_no_frequency_is_refused(raw: str) -> None:
    with pytest.raises(BadRequest, match=f"min: '{raw}' is no frequency"):
        parse_frequency(raw, "min")


def test_a_frequency_is_shown_in_mhz() -> None:
    assert (cpufreq_policy.format_frequency(2250000), cpufreq_policy.format_frequency(3107909)) == (
        "2250 MHz",
        "3107.909 MHz",
    )


# The recipe: 3.1 GHz here, 2.25 GHz there


def test_acpi_cpufreq_refuses_a_speed_above_the_base_and_names_boost() -> None:
    with pytest.raises(BadRequest, match=r"make it 2250 MHz silently.*set boost to true here.*to false where 2250 MHz"):
        plan(ACPI, speed=3100000)


def test_acpi_cpufreq_takes_its_p_states_with_the_governor_they_need() -> None:
    assert plan(ACPI, speed=1900000) == {"scaling_governor": "userspace", "scaling_setspeed": "1900000"}


def test_passive_amd_pstate_takes_any_speed() -> None:
    assert plan(PASSIVE, speed=3100000) == {"scaling_governor": "userspace", "scaling_setspeed": "3100000"}


def test_active_amd_pstate_has_no_speed_but_limits() -> None:
    with pytest.raises(BadRequest, match=r"has no fixed speed. Set min and max to the same"):
        plan(ACTIVE, speed=3100000)
    assert plan(ACTIVE, min=3100000, max=3100000) == {"scaling_min_freq": "3100000", "scaling_max_freq": "3100000"}


# Governors and preferences


@pytest.mark.parametrize("on", DRIVERS.values(), ids=DRIVERS)
def test_every_driver_has_performance(on: Policy) -> None:
    assert plan(on, governor="performance")["scaling_governor"] == "performance"


@pytest.mark.parametrize(
    ("on", "ask", "words"),
    [
        (
            ACPI,
            {"governor": "fast"},
            r"no governor fast; the kernel offers userspace, powersave.*modprobe cpufreq_fast",
        ),
        (ACPI, {"governor": "performance", "speed": 1900000}, "needs the governor userspace, and performance is asked"),
        (ACTIVE, {"governor": "schedutil"}, "only, not schedutil; the nearest is powersave with epp"),
        (ACTIVE, {"governor": "userspace"}, "only, not userspace; set min and max to the same"),
        (ACPI, {"epp": "power"}, "acpi-cpufreq has no energy performance preference"),
        (PASSIVE, {"epp": "power"}, "only amd-pstate-epp has"),
        (ACTIVE, {"governor": "performance", "epp": "power"}, r"EBUSY.*Set governor to powersave"),
        (policy("amd-pstate-epp", governor="performance"), {"epp": "power"}, "EBUSY"),
        (policy("amd-pstate-epp", preferences=("performance",)), {"epp": "power"}, "the kernel offers performance"),
    ],
)
def test_refusals_of_governors_and_preferences(on: Policy, ask: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        plan(on, **ask)


def test_no_preference_is_wanted_that_the_kernel_would_refuse() -> None:
    now = policy("amd-pstate-epp", preference_is_locked=True)
    with pytest.raises(BadRequest, match=r"refuses every epp \(EBUSY\)\. Write 'disabled' to .*/dynamic_epp"):
        plan(now, epp="power")
    assert plan(now, governor="performance") == {"scaling_governor": "performance"}


@pytest.mark.parametrize(
    ("changes", "ask", "words"),
    [
        ({}, {"floor": 2000000}, "there is no amd_pstate_floor_freq: .*Leave floor out"),
        ({"floor": 2250000}, {"floor": 3200000}, "floor 3200 MHz is outside of what amd-pstate-epp offers"),
        ({"floor": 1500000}, {"floor": "base", "max": 1900000}, "floor 2250 MHz is above max, 1900 MHz"),
    ],
)
def test_refusals_of_floors(changes: dict[str, int], ask: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        plan(policy("amd-pstate-epp", **changes), **ask)


def test_a_floor_is_a_frequency_of_the_policy() -> None:
    assert plan(policy("amd-pstate-epp", floor=1500000), floor="base") == {"amd_pstate_floor_freq": "2250000"}


@pytest.mark.parametrize(("count", "refused"), [(2, True), (3, False), (0, False), (None, False)])
def test_the_hardware_knows_some_floors(count: int | None, refused: bool) -> None:
    policies = [policy("amd-pstate", floor=floor, floor_count=count) for floor in (1500000, 1500000, 2250000, 2250000)]
    for number, made in enumerate(policies):
        made.name = f"policy{number}"
    with (
        pytest.raises(BadRequest, match="3 different floors, 1500 MHz, 1900 MHz, 2250 MHz, and the hardware knows 2")
        if refused
        else nullcontext()
    ):
        rules.refuse_too_many_floors(policies, {"policy1": 1900000})


def test_a_preference_that_comes_with_the_governor_is_wanted_too() -> None:
    assert plan(ACTIVE, governor="performance") == {
        "scaling_governor": "performance",
        "energy_performance_preference": "performance",
    }


def test_a_preference_is_possible_when_the_governor_leaves_performance() -> None:
    now = policy("amd-pstate-epp", governor="performance", preference="performance", preferences=("performance",))
    assert plan(now, governor="powersave", epp="balance_power") == {
        "scaling_governor": "powersave",
        "energy_performance_preference": "balance_power",
    }


def test_a_speed_that_goes_with_its_governor_is_remembered() -> None:
    fixed = policy("acpi-cpufreq", governor="userspace", speed="1900000")
    assert plan(fixed, governor="performance") == {"scaling_governor": "performance", "scaling_setspeed": None}
    assert plan(fixed, governor="userspace") == {"scaling_governor": "userspace"}


# Limits


@pytest.mark.parametrize(
    ("on", "names"),
    [
        (ACPI, {"lowest": 1500000, "base": 2250000, "highest": 2250000}),
        (ACTIVE, {"lowest": 1500000, "base": 2250000, "highest": 3107909}),
        (PASSIVE, {"lowest": 1500000, "base": 2250000, "highest": 3107909}),
        (OTHER, {"lowest": 1500000, "base": 2250000, "highest": 3107909}),
    ],
)
def test_names_mean_what_the_driver_has(on: Policy, names: dict[str, int]) -> None:
    for name, khz in names.items():
        assert plan(on, min="lowest", max=name)["scaling_max_freq"] == str(khz)


@pytest.mark.parametrize(
    ("on", "ask", "words"),
    [
        (ACPI, {"max": 2000000}, r"no P-state.*round it silently. The nearest is 1900 MHz"),
        (ACPI, {"max": 3100000}, "of which the highest is the base frequency"),
        (ACPI, {"min": 1000000}, r"no P-state.*nearest is 1500 MHz"),
        (PASSIVE, {"max": 3200000}, r"1500 MHz to 3107.909 MHz; the kernel would clamp"),
        (PASSIVE, {"min": 400000}, "clamp it silently"),
        (ACTIVE, {"max": 3000000, "boost": False}, "offers while boost is off, 1500 MHz to 2250 MHz"),
        (policy("amd-pstate", base=None), {"max": "base"}, "does not show the base frequency"),
        (ACPI, {"min": 2250000, "max": 1900000}, r"min is 2250 MHz \(asked for\) and max is 1900 MHz \(asked for\)"),
        (policy("acpi-cpufreq", min=2250000), {"max": 1900000}, r"min is 2250 MHz \(as it is now\)"),
        (policy("acpi-cpufreq", max=1500000), {"min": 1900000}, r"max is 1500 MHz \(as it is now\)"),
        (policy("acpi-cpufreq", firmware_limit=1900000), {"max": 2250000}, "the firmware limits this CPU now"),
        (policy("acpi-cpufreq", max=1900000), {"speed": 2250000}, r"outside of the limits there.*Give min and max"),
    ],
)
def test_refusals_of_frequencies(on: Policy, ask: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        plan(on, **ask)


def test_a_speed_may_come_with_the_limits_it_needs() -> None:
    low = policy("acpi-cpufreq", max=1900000)
    assert plan(low, speed=2250000, max=2250000)["scaling_setspeed"] == "2250000"


def test_the_limit_that_falls_with_the_boost_is_remembered() -> None:
    assert plan(ACTIVE, boost=False) == {"scaling_max_freq": "2250000"}
    assert plan(policy("amd-pstate-epp", max=2000000), boost=False) == {}
    assert plan(ACPI, boost=False) == {}


@pytest.mark.parametrize(
    ("on", "ask", "told"),
    [
        (ACPI, {"max": 2250000}, True),
        (ACPI, {"max": "base"}, True),
        (ACPI, {"speed": 2250000}, True),
        (ACPI, {"max": "highest"}, False),
        (ACPI, {"max": 1900000}, False),
        (ACPI, {"max": 2250000, "boost": False}, False),
        (policy("acpi-cpufreq", boost="0"), {"max": 2250000}, False),
        (policy("acpi-cpufreq", boost="0"), {"max": 2250000, "boost": True}, True),
        (PASSIVE, {"max": 2250000}, False),
    ],
)
def test_it_is_told_where_a_limit_does_not_keep_the_hardware_from_boosting(
    on: Policy, ask: dict[str, Any], told: bool
) -> None:
    remarks: list[str] = []
    rules.plan_policy_files(on, ask, remarks)
    assert bool(remarks) is told


# Boost


def machine_of(driver: str, boosts: str, **changes: Any) -> list[Policy]:
    """One policy per letter: 0, 1, or ? where nothing tells."""
    policies = []
    for number, boost in enumerate(boosts):
        made = policy(driver, boost=None if boost == "?" else boost, **changes)
        made.name, made.cpus = f"policy{number}", (number,)
        policies.append(made)
    return policies


@pytest.mark.parametrize(
    ("boosts", "machine", "asked", "wanted"),
    [
        ("11", "1", {}, {}),
        ("111", "1", {1: False}, {"policy1": "0"}),
        ("11", "1", {0: False, 1: False}, {"boost": "0", "policy0": "0", "policy1": "0"}),
        ("000", "0", {0: True, 1: False}, {"boost": "1", "policy0": "1", "policy1": "0", "policy2": "0"}),
        ("00", "0", {0: False}, {"policy0": "0"}),
        ("??", "1", {0: False, 1: False}, {"boost": "0"}),
        ("11", None, {0: True, 1: False}, {"policy0": "1", "policy1": "0"}),
    ],
)
def test_boost_per_policy(boosts: str, machine: str | None, asked: dict[int, bool], wanted: dict[str, str]) -> None:
    by_name = {f"policy{number}": value for number, value in asked.items()}
    assert rules.plan_boost(machine_of("acpi-cpufreq", boosts), by_name, machine) == wanted


@pytest.mark.parametrize(
    ("asked", "machine", "wanted"),
    [({0: True, 1: True}, "0", {"boost": "1"}), ({0: True}, "1", {"boost": "1"})],
)
def test_one_switch_for_all_does_where_all_agree_with_it(
    asked: dict[int, bool], machine: str, wanted: dict[str, str]
) -> None:
    policies = machine_of("amd-pstate", "??", own_boost=False)
    by_name = {f"policy{number}": value for number, value in asked.items()}
    assert rules.plan_boost(policies, by_name, machine) == wanted


@pytest.mark.parametrize(
    ("driver", "own", "boosts", "machine", "words"),
    [
        ("acpi-cpufreq", False, "??", "1", r"one boost switch for the whole machine \(now on\).*update the kernel"),
        ("amd-pstate", False, "??", "1", "set max to base where boost is not wanted"),
        ("acpi-cpufreq", False, "??", None, r"no boost switch here.*BIOS, or by msr_bits"),
        ("amd-pstate-epp", False, "??", None, "set max to base instead"),
        ("acpi-cpufreq", True, "??", "1", r"nothing would prove it. Load the kernel module msr"),
    ],
)
def test_refusals_of_boost(driver: str, own: bool, boosts: str, machine: str | None, words: str) -> None:
    policies = machine_of(driver, boosts, own_boost=own)
    with pytest.raises(BadRequest, match=words):
        rules.plan_boost(policies, {"policy0": False}, machine)


@pytest.mark.parametrize("driver", ["amd-pstate-epp", "amd-pstate"])
def test_boost_that_cannot_be_switched_off_is_there(driver: str) -> None:
    """amd-pstate in active mode, before the kernel gave it a switch: the hardware boosts where it can."""
    policies = machine_of(driver, "???", own_boost=False)
    assert rules.plan_boost(policies, {"policy0": True, "policy1": True}, None) == {}
    with pytest.raises(BadRequest, match=r"policy1 .*shows no boost switch here.*set max to base instead"):
        rules.plan_boost(policies, {"policy0": True, "policy1": False}, None)


@pytest.mark.parametrize(
    ("driver", "changes", "words"),
    [
        (
            "amd-pstate-epp",
            {"highest": 2250000},
            r"no frequency above the base of 2250 MHz, so boost is switched off in the BIOS",
        ),
        ("amd-pstate-epp", {"base": None}, "shows no boost switch here"),
        ("acpi-cpufreq", {}, r"shows no boost switch here.*by msr_bits"),
    ],
)
def test_boost_that_nothing_tells_of_is_refused(driver: str, changes: dict[str, Any], words: str) -> None:
    policies = machine_of(driver, "?", own_boost=False, **changes)
    with pytest.raises(BadRequest, match=words):
        rules.plan_boost(policies, {"policy0": True}, None)
