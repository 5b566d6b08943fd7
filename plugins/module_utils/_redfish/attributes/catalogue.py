# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of BIOS options: patterns of the attribute names of each vendor, and of the values for each meaning.

Patterns are needed because a vendor spells the same name in up to three ways and the same value in two. They only find
attributes in the registry of a machine; only names and values of that registry are sent to the BMC.
Source: dumps of Dell R6515, R6615 and R7615, HPE DL325 Gen10 Plus and Gen11 with the lists of HPE's documentation,
Lenovo SR635 V3, Supermicro H13, and tokens of AMI's CBS from four vendors.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Word in the name of a manufacturer -> the vendor. Machines of all other manufacturers have AMI's names.
VENDORS = {"dell": "Dell", "hpe": "HPE", "hewlett": "HPE", "lenovo": "Lenovo", "supermicro": "Supermicro"}
AMI = "AMI"
#: The meanings of a switch, and their patterns. Only letters and digits of a value are compared, in lower case.
ON, OFF = "on", "off"
_ON, _OFF = r"enabled?|on|1|yes|true|forceenabled", r"disabled?|off|0|no|false|forcedisabled"
SWITCH_VALUES = {ON: (_ON,), OFF: (_OFF,)}
#: For some settings AMI's setup has only Disabled and Auto, and Auto means on.
AUTO_IS_ON_VALUES = {ON: (_ON, "auto"), OFF: (_OFF,)}


class AttributePattern:
    """A pattern that finds an attribute by its name; ``values`` maps a meaning to patterns of values, the best first.

    On a machine without the attribute, a ``required`` attribute makes the whole way to set the option impossible.
    """

    def __init__(
        self, name_pattern: str, values: Mapping[str, Sequence[str]] | None = None, required: bool = True
    ) -> None:
        self.name_pattern = name_pattern
        self.values = values
        self.required = required


class BiosOption:
    """A BIOS option: its title, patterns of its values by meaning, and by vendor the ways to set it, the best first.

    The first attribute of a way is the setting itself; further attributes are set together with it.
    ``profiles_lock_it`` is true where profiles of the vendors lock the setting. ``title_words`` are in the title of the
    attribute on most machines.
    """

    def __init__(
        self,
        title: str,
        values: Mapping[str, Sequence[str]],
        ways: Mapping[str, Sequence[Sequence[AttributePattern]]],
        title_words: str,
        profiles_lock_it: bool = True,
    ) -> None:
        self.title = title
        self.values = values
        self.ways = ways
        self.title_words = title_words
        self.profiles_lock_it = profiles_lock_it


def detect_vendor(manufacturer: str) -> str:
    """Return the vendor for the name of a manufacturer, AMI for an unknown one."""
    return next((name for word, name in VENDORS.items() if word in manufacturer.lower()), AMI)


def ways_with_single_attribute(
    name: str, values: Mapping[str, Sequence[str]] | None = None
) -> list[list[AttributePattern]]:
    """Return the ways of an option that is set by a single attribute."""
    return [[AttributePattern(name, values)]]


def ways_with_determinism_control(name: str, control_attribute: str) -> list[list[AttributePattern]]:
    """Return the ways to set determinism by an attribute that counts only while a second attribute is manual."""
    return [[AttributePattern(name), AttributePattern(control_attribute, _MANUAL, required=False)]]


#: Vendor -> the profile that locks other attributes, and the value with which the profile locks no attribute.
LOCKING_PROFILES = {
    "Dell": AttributePattern("SysProfile", {"custom": ("custom",)}),
    "HPE": AttributePattern("WorkloadProfile", {"custom": ("custom",)}),
    "Lenovo": AttributePattern("OperatingModes_ChooseOperatingMode", {"custom": ("custommode", "custom")}),
}

_NPS = {
    "0": ("(nps)?0",),
    "1": ("(nps)?1|onememorydomainpersocket",),
    "2": ("(nps)?2|twomemorydomainspersocket",),
    "4": ("(nps)?4|fourmemorydomainspersocket",),
}
_DETERMINISM = {
    "power": ("power(determinism|deterministic)?",),
    "performance": ("perf(ormance)?(determinism|deterministic)?",),
}
_MANUAL = {"power": (".*manual",), "performance": (".*manual",)}
_PROFILE = {
    "high_performance": ("highperformance(mode)?",),
    "max_io": ("max(imum)?io(performance)?(mode)?",),
    "efficiency": ("efficiency(mode)?",),
}
_WIDTH = {"auto": ("auto",), "x4": ("x?4",), "x8": ("x?8",), "x16": ("x?16",)}
_SPEED = {
    "auto": ("auto",),
    **{speed: (f"(maximum)?{speed}(0)*(gbps|gts|gigabits)?",) for speed in ("16", "18", "25", "32")},
}
_FABRIC_P0 = {ON: ("p0",), OFF: ("auto",)}

BIOS_OPTIONS = {
    "nps": BiosOption(
        "NUMA nodes per socket",
        _NPS,
        {
            "Dell": ways_with_single_attribute("NumaNodesPerSocket"),
            "HPE": ways_with_single_attribute("NumaMemoryDomainsPerSocket"),
            "Lenovo": ways_with_single_attribute("Memory_NUMANodesperSocket"),
            "Supermicro": ways_with_single_attribute("NUMANodesPerSocket"),
            AMI: ways_with_single_attribute(r"CbsDfCmnDramNps\w*"),
        },
        "numa nodes per socket",
        profiles_lock_it=False,
    ),
    "l3_as_numa": BiosOption(
        "L3 as NUMA node",
        SWITCH_VALUES,
        {
            "Dell": ways_with_single_attribute("CcxAsNumaDomain"),
            "HPE": ways_with_single_attribute("LastLevelCacheAsNUMANode"),
            "Lenovo": ways_with_single_attribute("Processors_ACPISRATL3CacheasNUMADomain"),
            "Supermicro": ways_with_single_attribute("ACPISRATL3CacheAsNUMADomain"),
            AMI: ways_with_single_attribute(r"CbsDfCmnAcpiSratL3Numa\w*"),
        },
        "l3 cache as numa domain",
        profiles_lock_it=False,
    ),
    "smt": BiosOption(
        "SMT",
        AUTO_IS_ON_VALUES,
        {
            "Dell": ways_with_single_attribute("LogicalProc"),
            "HPE": ways_with_single_attribute("ProcSMT"),
            "Lenovo": ways_with_single_attribute("Processors_SMTMode"),
            "Supermicro": ways_with_single_attribute("SMTControl"),
            AMI: ways_with_single_attribute(r"CbsCpuSmtCtrl\w*"),
        },
        "smt control",
        profiles_lock_it=False,
    ),
    "boost": BiosOption(
        "core performance boost",
        AUTO_IS_ON_VALUES,
        {
            "Dell": ways_with_single_attribute("ProcTurboMode"),
            "HPE": ways_with_single_attribute("ProcAMDBoost"),
            "Lenovo": ways_with_single_attribute("Processors_CorePerformanceBoost"),
            "Supermicro": ways_with_single_attribute("CorePerformanceBoost"),
            AMI: ways_with_single_attribute(r"CbsCmnCpuCpb\w*"),
        },
        "core performance boost",
    ),
    "determinism": BiosOption(
        "determinism",
        _DETERMINISM,
        {
            "Dell": ways_with_single_attribute("DeterminismSlider"),
            "HPE": ways_with_determinism_control("PerformanceDeterminism", "DeterminismControl"),
            "Lenovo": ways_with_single_attribute("Processors_DeterminismSlider"),
            "Supermicro": ways_with_determinism_control("DeterminismEnable", "DeterminismControl"),
            AMI: [
                *ways_with_determinism_control(r"CbsCmnDeterminismEnable\w*", r"CbsCmnDeterminismC(on)?tr?l\w*"),
                *ways_with_single_attribute(r"CbsCmnDeterminismSlider\w*"),
            ],
        },
        "determinism slider",
    ),
    "power_profile": BiosOption(
        "power profile",
        _PROFILE,
        {
            "Dell": ways_with_single_attribute("PowerProfileSelect"),
            "Supermicro": ways_with_single_attribute("PowerProfileSelection"),
            AMI: ways_with_single_attribute(r"CbsCmnPowerProfileSelect\w*|CbsCmnEfficiencyModeEn\w*"),
        },
        "power profile selection",
    ),
    "c_states": BiosOption(
        "core C-states",
        SWITCH_VALUES,
        {
            "Dell": ways_with_single_attribute("ProcCStates"),
            "HPE": ways_with_single_attribute("MinProcIdlePower", {ON: ("c6(state)?",), OFF: ("nocstates",)}),
            "Lenovo": ways_with_single_attribute("Processors_GlobalC_stateControl"),
            "Supermicro": ways_with_single_attribute("GlobalC_stateControl"),
            AMI: ways_with_single_attribute(r"CbsCmnCpuGlobalCstateCtrl\w*"),
        },
        "global c-state control",
    ),
    "df_c_states": BiosOption(
        "DF C-states",
        SWITCH_VALUES,
        {
            "Dell": ways_with_single_attribute("DfCState"),
            "HPE": ways_with_single_attribute("DataFabricCStateEnable"),
            "Lenovo": ways_with_single_attribute("Processors_DFC_States"),
            "Supermicro": ways_with_single_attribute("DFCstates"),
            AMI: ways_with_single_attribute(r"CbsCmnGnbSMUDfCstates\w*"),
        },
        "df c-states",
    ),
    "iommu": BiosOption(
        "IOMMU",
        AUTO_IS_ON_VALUES,
        {
            "Dell": ways_with_single_attribute("IommuSupport"),
            "HPE": ways_with_single_attribute("ProcAmdIoVt|ProcAmdIOMMU"),
            "Lenovo": ways_with_single_attribute("DevicesandIOPorts_IOMMU"),
            "Supermicro": ways_with_single_attribute("IOMMU"),
            AMI: ways_with_single_attribute(r"CbsCmnGnbNbIOMMU\w*"),
        },
        "iommu",
        profiles_lock_it=False,
    ),
    "apbdis": BiosOption(
        "APBDIS, the data fabric at a fixed speed",
        SWITCH_VALUES,
        {
            "Dell": [[AttributePattern("ApbDis"), AttributePattern("FixedSocPstate", {ON: ("p0",)}, required=False)]],
            "HPE": ways_with_single_attribute("InfinityFabricPstate", _FABRIC_P0),
            "Lenovo": ways_with_single_attribute("Processors_SOCP_states", _FABRIC_P0),
            "Supermicro": ways_with_single_attribute("APBDIS"),
            AMI: ways_with_single_attribute(r"CbsCmnApbdis"),
        },
        "apbdis",
    ),
    "xgmi_width": BiosOption(
        "width of the xGMI links",
        _WIDTH,
        {
            "HPE": ways_with_single_attribute("XGMIMaxLinkWidth"),
            "Lenovo": ways_with_single_attribute("Processors_xGMIMaximumLinkWidth"),
            "Supermicro": ways_with_single_attribute("xGMIMaxLinkWidth"),
            AMI: ways_with_single_attribute(r"CbsDfCmnXgmiMaxLinkWidth\w*"),
        },
        "xgmi max link width",
    ),
    "xgmi_speed": BiosOption(
        "speed of the xGMI links",
        _SPEED,
        {
            "Dell": ways_with_single_attribute("AmdMaxXgmiSpeed"),
            "HPE": ways_with_single_attribute("AmdXGMILinkSpeed"),
            "Lenovo": ways_with_single_attribute("Processors_4_LinkxGMIMaxSpeed"),
            "Supermicro": ways_with_single_attribute("xGMILinkMaxSpeed"),
            AMI: ways_with_single_attribute(r"CiscoXgmiMaxSpeed|CbsDfCmn4LinkMaxXgmiSpeed\w*"),
        },
        "xgmi link speed",
    ),
    "cppc": BiosOption(
        "CPPC",
        AUTO_IS_ON_VALUES,
        {
            "Lenovo": ways_with_single_attribute("Processors_CPPC"),
            "Supermicro": ways_with_single_attribute("CPPC"),
            AMI: ways_with_single_attribute(r"CbsCmnGnbSMUCPPC(SHP|Rs|Ssp)?"),
        },
        "cppc",
    ),
    "hsmp": BiosOption(
        "HSMP",
        AUTO_IS_ON_VALUES,
        {
            "Dell": ways_with_single_attribute("Hsmp"),
            "Lenovo": ways_with_single_attribute("Processors_HSMPSupport"),
            "Supermicro": ways_with_single_attribute("HSMPSupport"),
            AMI: ways_with_single_attribute(r"CbsCmnGnbSMUHsmpSupport\w*"),
        },
        "hsmp support",
        profiles_lock_it=False,
    ),
    "memory_encryption": BiosOption(
        "transparent memory encryption",
        SWITCH_VALUES,
        {
            "Dell": ways_with_single_attribute("TransparentSme"),
            "HPE": ways_with_single_attribute("TransparentSecureMemoryEncryption"),
            "Lenovo": ways_with_single_attribute("Memory_TSME"),
            "Supermicro": ways_with_single_attribute("TSME"),
            AMI: ways_with_single_attribute(r"TSME|CbsCmnMemTsme\w*"),
        },
        "tsme",
        profiles_lock_it=False,
    ),
}
