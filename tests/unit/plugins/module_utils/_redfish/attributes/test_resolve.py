# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.catalogue import (
    BIOS_OPTIONS,
    detect_vendor,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.locks import (
    find_lock_under_future_values,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.redaction import (
    PLACEHOLDER,
    redact_secret_values,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.registry import Attribute, Registry
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.resolve import (
    MissingOption,
    attribute_value_to_option_value,
    find_attribute_of_option,
    find_target_that_unlocks_attributes,
    resolve_targets_and_missing_options,
    subject_never_set_over_redfish,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import enumeration, locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def registry(*attributes: dict[str, Any], dependencies: Any = ()) -> Registry:
    return Registry({"RegistryEntries": {"Attributes": list(attributes), "Dependencies": list(dependencies)}})


def found(vendor: str, told: Registry, knob: str, meaning: str, **active: str) -> dict[str, Any] | str:
    targets, absent = resolve_targets_and_missing_options(told, vendor, active, {knob: meaning}, {})
    return absent[0].sentence if absent else {name: target.value for name, target in targets.items()}


@pytest.mark.parametrize(
    ("manufacturer", "vendor"),
    [
        ("Dell Inc.", "Dell"),
        ("HPE", "HPE"),
        ("Hewlett Packard Enterprise", "HPE"),
        ("Lenovo", "Lenovo"),
        ("Supermicro", "Supermicro"),
        ("GIGABYTE", "AMI"),
        ("", "AMI"),
    ],
)
def test_vendors(manufacturer: str, vendor: str) -> None:
    assert detect_vendor(manufacturer) == vendor


@pytest.mark.parametrize(
    ("vendor", "attribute", "value"),
    [
        ("Dell", enumeration("NumaNodesPerSocket", "1", "2", "4"), "4"),
        (
            "HPE",
            enumeration("NumaMemoryDomainsPerSocket", "Auto", "FourMemoryDomainsPerSocket"),
            "FourMemoryDomainsPerSocket",
        ),
        ("Lenovo", enumeration("Memory_NUMANodesperSocket", "Auto", "NPS1", "NPS4"), "NPS4"),
        ("Supermicro", enumeration("NUMANodesPerSocket_703E", "Auto", "NPS4"), "NPS4"),
        ("Supermicro", enumeration("NUMANodesPerSocket#703E", "Auto", "NPS4"), "NPS4"),
        ("Supermicro", enumeration("NUMANodesPerSocket", "Auto", "NPS4"), "NPS4"),
        (
            "AMI",
            enumeration("CbsDfCmnDramNpsSHP", "CbsDfCmnDramNpsSHPNPS1", "CbsDfCmnDramNpsSHPNPS4"),
            "CbsDfCmnDramNpsSHPNPS4",
        ),
        ("AMI", enumeration("CbsDfCmnDramNps", "0=NPS0", "1=NPS1", "2=NPS4"), "2"),
        # HPE Cray has the names of AMI.
        ("HPE", enumeration("CbsDfCmnDramNps", "CbsDfCmnDramNpsNPS4"), "CbsDfCmnDramNpsNPS4"),
    ],
)
def test_one_setting_in_the_spellings_of_the_vendors(vendor: str, attribute: dict[str, Any], value: str) -> None:
    assert found(vendor, registry(attribute), "nps", "4") == {attribute["AttributeName"]: value}


@pytest.mark.parametrize("spelling", ["PerfDeterminism", "PerformanceDeterminism"])
def test_only_the_registry_decides_how_a_value_is_spelt(spelling: str) -> None:
    told = registry(enumeration("DeterminismSlider", "PowerDeterminism", spelling))
    assert found("Dell", told, "determinism", "performance") == {"DeterminismSlider": spelling}


def test_a_setting_may_take_two_attributes() -> None:
    told = registry(
        enumeration("DeterminismControl_00F4", "Auto", "Manual"),
        enumeration("DeterminismEnable_00F5", "Power", "Performance"),
    )
    assert found("Supermicro", told, "determinism", "power") == {
        "DeterminismEnable_00F5": "Power",
        "DeterminismControl_00F4": "Manual",
    }
    alone = registry(enumeration("ApbDis", "Enabled", "Disabled"), enumeration("FixedSocPstate", "P0", "P1"))
    assert found("Dell", alone, "apbdis", "on") == {"ApbDis": "Enabled", "FixedSocPstate": "P0"}
    assert found("Dell", alone, "apbdis", "off") == {"ApbDis": "Disabled"}


def test_auto_is_on_where_there_is_nothing_else_or_it_is_active() -> None:
    told = registry(enumeration("CorePerformanceBoost_00CC", "Auto", "Disabled"))
    assert found("Supermicro", told, "boost", "on") == {"CorePerformanceBoost_00CC": "Auto"}
    told = registry(enumeration("SMTControl", "Auto", "Enabled", "Disabled"))
    assert found("Supermicro", told, "smt", "on") == {"SMTControl": "Enabled"}
    assert found("Supermicro", told, "smt", "on", SMTControl="Auto") == {"SMTControl": "Auto"}
    assert found("Supermicro", told, "smt", "off", SMTControl="Auto") == {"SMTControl": "Disabled"}


def test_what_a_machine_does_not_have_or_offer_is_said() -> None:
    said = found("HPE", registry(enumeration("ProcSMT", "Enabled", "Disabled")), "nps", "4")
    assert said == "NUMA nodes per socket: this machine has no such attribute."
    said = found("Dell", registry(enumeration("NumaNodesPerSocket", "1")), "nps", "4")
    assert said == "NUMA nodes per socket: this machine has NumaNodesPerSocket, but not as 4. It offers 1."


def test_opaque_names_are_suggested_by_their_titles_and_never_set() -> None:
    told = registry(enumeration("CPU005", "Auto", "Disabled", DisplayName="SMT Control"))
    said = found("AMI", told, "smt", "off")
    assert isinstance(said, str)
    assert "CPU005 (SMT Control)" in said


def test_two_attributes_of_a_name_are_refused() -> None:
    told = registry(enumeration("SMTControl_0037", "Auto"), enumeration("SMTControl_00CB", "Auto"))
    with pytest.raises(BadRequest, match="SMTControl_0037, SMTControl_00CB"):
        found("Supermicro", told, "smt", "on")
    assert find_attribute_of_option(told, "Supermicro", "smt") is None


def test_values_have_a_meaning_in_the_words_of_the_option() -> None:
    for text, meaning in (("CbsDfCmnDramNpsNPS4", "4"), ("CbsDfCmnDramNpsAuto", None)):
        one = Attribute(enumeration("CbsDfCmnDramNps", text))
        assert attribute_value_to_option_value("nps", one, text, "AMI") == meaning
    one = Attribute(enumeration("MinProcIdlePower", "C6=C6 State", "NoCStates=No C-states"))
    assert attribute_value_to_option_value("c_states", one, "NoCStates", "HPE") == "off"
    switch = Attribute({"AttributeName": "Hsmp", "Type": "Boolean"})
    assert (
        resolve_targets_and_missing_options(
            Registry({"RegistryEntries": {"Attributes": [{"AttributeName": "Hsmp", "Type": "Boolean"}]}}),
            "Dell",
            {},
            {"hsmp": "on"},
            {},
        )[0]["Hsmp"].value
        is True
    )
    assert attribute_value_to_option_value("hsmp", switch, False, "Dell") == "off"


def test_the_profile_that_locks_others() -> None:
    told = registry(enumeration("OperatingModes_ChooseOperatingMode", "MaximumEfficiency", "CustomMode"))
    profile = find_target_that_unlocks_attributes(told, "Lenovo")
    assert profile is not None
    assert profile.value == "CustomMode"
    assert find_target_that_unlocks_attributes(told, "AMI") is find_target_that_unlocks_attributes(told, "Dell") is None


@pytest.mark.parametrize(
    ("told", "wanted", "value"),
    [
        (enumeration("A", "1", "1x"), 1, "1"),
        (enumeration("A", "NPS4=Four"), "four", "NPS4"),
        ({"AttributeName": "A", "Type": "Boolean"}, True, True),
        ({"AttributeName": "A", "Type": "Integer", "LowerBound": 0, "UpperBound": 400, "ScalarIncrement": 5}, "35", 35),
        ({"AttributeName": "A", "Type": "String", "MinLength": 1, "MaxLength": 3}, 7, "7"),
    ],
)
def test_values_in_the_type_of_the_registry(told: dict[str, Any], wanted: Any, value: Any) -> None:
    assert Attribute(told).convert_to_attribute_type(wanted) == value


@pytest.mark.parametrize(
    ("told", "wanted", "words"),
    [
        (enumeration("A", "On", "Off"), True, "in quotes, as one of On, Off"),
        (enumeration("A", "NPS1", "NPS4"), "NPS3", "It takes NPS1, NPS4"),
        ({"AttributeName": "A", "Type": "Boolean"}, "yes", "true, false"),
        ({"AttributeName": "A", "Type": "Integer", "LowerBound": 0, "UpperBound": 400}, 500, "a number from 0 to 400"),
        (
            {"AttributeName": "A", "Type": "Integer", "LowerBound": 0, "UpperBound": 9, "ScalarIncrement": 3},
            4,
            "steps of 3",
        ),
        ({"AttributeName": "A", "Type": "Integer"}, "many", "does not take 'many'"),
        ({"AttributeName": "A", "Type": "String", "MinLength": 2}, "x", "a text"),
        ({"AttributeName": "A", "Type": "String", "MaxLength": 2}, "xyz", "a text"),
    ],
)
def test_values_that_the_bmc_would_refuse(told: dict[str, Any], wanted: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        Attribute(told).convert_to_attribute_type(wanted)


def test_attributes_by_name() -> None:
    told = registry(enumeration("ProcSMT", "Enabled", "Disabled"), enumeration("WorkloadProfile", "Custom"))
    targets, dummy = resolve_targets_and_missing_options(
        told, "HPE", {}, {"smt": "off"}, {"WorkloadProfile": "Custom", "ProcSMT": "Disabled"}
    )
    assert {name: target.option for name, target in targets.items()} == {
        "ProcSMT": "smt",
        "WorkloadProfile": "attributes",
    }
    with pytest.raises(BadRequest, match="wanted as Disabled by smt and as Enabled by attributes"):
        resolve_targets_and_missing_options(told, "HPE", {}, {"smt": "off"}, {"ProcSMT": "Enabled"})
    with pytest.raises(BadRequest, match="Did you mean ProcSMT"):
        resolve_targets_and_missing_options(told, "HPE", {}, {}, {"ProcSmt": "Enabled"})
    with pytest.raises(BadRequest, match=r"has no Qqq\. The module epyc_bmc_bios_info"):
        resolve_targets_and_missing_options(told, "HPE", {}, {}, {"Qqq": "Enabled"})


@pytest.mark.parametrize(
    "name",
    [
        "SetupPassword", "AdminPwd", "TpmSecurity", "SecureBoot", "BootMode", "UefiBootSeq", "BootOrderPolicy",
        "PxeDev1EnDis", "HttpDev1EnDis", "IscsiDev1", "Slot3", "PciSlot1", "PasswordStatus", "AcPwrRcvry",
        "SystemSecurity_AdminPassword", "OneTimeBootMode", "IntegratedRaid",
    ],
)  # fmt: skip
def test_what_can_lock_out_is_never_set(name: str) -> None:
    with pytest.raises(BadRequest, match="never"):
        resolve_targets_and_missing_options(registry(enumeration(name, "a", "b")), "Dell", {}, {}, {name: "a"})


def test_what_the_options_set_is_not_denied() -> None:
    names = [
        "NumaNodesPerSocket", "LogicalProc", "ProcTurboMode", "SysProfile", "BoostFMax", "ProcSMT", "ProcAMDBoost",
        "WorkloadProfile", "MinProcIdlePower", "InfinityFabricPstate", "DynamicLinkWidthManagement", "CbsCmnApbdis",
        "Processors_SMTMode", "DevicesandIOPorts_IOMMU", "SMTControl_00CB", "TransparentSme", "Hsmp", "MemFrequency",
        "ProcConfigTdp", "AmdL1Prefetcher", "CcdCores",
    ]  # fmt: skip
    assert [name for name in names if subject_never_set_over_redfish(Attribute(enumeration(name, "a")))] == []


def test_secrets_are_removed_from_what_is_shown() -> None:
    told = registry({"AttributeName": "Hidden1", "Type": "Password"})
    shown = redact_secret_values(
        {
            "NewSetupPassword": "hunter2",
            "Hidden1": "x",
            "AdminName": "Ann",
            "SetupPassword": "",
            "PwdSet": True,
            "A": 1,
        },
        told,
    )
    hidden = dict.fromkeys(("NewSetupPassword", "Hidden1", "AdminName"), PLACEHOLDER)
    assert shown == {**hidden, "SetupPassword": "", "PwdSet": True, "A": 1}


PROFILE = enumeration("Profile", "Fast", "Custom")
SLIDER = enumeration("Slider", "Power", "Perf")


def test_a_lock_is_asked_of_what_will_hold() -> None:
    told = registry(PROFILE, {**SLIDER, "Readonly": True}, dependencies=[locked("Slider", "Profile", "Custom")])
    now = {"Profile": "Fast", "Slider": "Power"}
    lock = find_lock_under_future_values(told, "Slider", now, {**now, "Slider": "Perf"})
    assert str(lock) == "it is read-only, because Profile is Fast"
    assert find_lock_under_future_values(told, "Slider", now, {"Slider": "Perf", "Profile": "Custom"}) is None


def test_a_flag_without_a_reason_is_believed() -> None:
    told = registry({**SLIDER, "Immutable": True})
    assert (
        str(find_lock_under_future_values(told, "Slider", {}, {}))
        == "it is fixed by the maker, and the registry does not say why"
    )


def test_a_value_may_be_forced() -> None:
    forced = locked("Slider", "Profile", "Fast", "CurrentValue", "Power", "EQU")
    told = registry(PROFILE, SLIDER, dependencies=[forced])
    assert str(find_lock_under_future_values(told, "Slider", {}, {"Profile": "Fast", "Slider": "Perf"})) == (
        "it is forced to Power, because Profile is Fast"
    )
    assert find_lock_under_future_values(told, "Slider", {}, {"Profile": "Fast", "Slider": "Power"}) is None


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [("GTR", 3, True), ("GEQ", 4, True), ("LSS", 4, False), ("LEQ", 4, True), ("GTR", "x", False), ("ODD", 1, False)],
)
def test_conditions_of_numbers(condition: str, value: Any, holds: bool) -> None:
    told = registry(SLIDER, dependencies=[locked("Slider", "Watts", value, condition=condition)])
    assert (find_lock_under_future_values(told, "Slider", {}, {"Watts": 4}) is not None) is holds


def test_terms_are_joined_and_may_ask_for_flags() -> None:
    rule = locked("Slider", "Profile", "Custom")
    term = {"MapFromAttribute": "Other", "MapFromProperty": "ReadOnly", "MapFromCondition": "EQU", "MapFromValue": True}
    rule["Dependency"]["MapFrom"].append({**term, "MapTerms": "AND"})
    other = enumeration("Other", "a", ReadOnly=True)
    values = {"Profile": "Fast"}
    assert (
        find_lock_under_future_values(registry(SLIDER, PROFILE, other, dependencies=[rule]), "Slider", {}, values)
        is not None
    )
    assert find_lock_under_future_values(registry(SLIDER, PROFILE, dependencies=[rule]), "Slider", {}, values) is None
    rule["Dependency"]["MapFrom"][1]["MapTerms"] = "OR"
    assert (
        find_lock_under_future_values(registry(SLIDER, PROFILE, dependencies=[rule]), "Slider", {}, values) is not None
    )


def test_every_option_can_be_found_somewhere() -> None:
    assert all(knob.ways and knob.title_words and knob.title for knob in BIOS_OPTIONS.values())
    told = registry(enumeration("X", "a"))
    dummy, absent = resolve_targets_and_missing_options(
        told, "Dell", {}, {name: next(iter(knob.values)) for name, knob in BIOS_OPTIONS.items()}, {}
    )
    assert [type(one) for one in absent] == [MissingOption] * len(BIOS_OPTIONS)
