# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How to find each setting in the registry of a machine: the vendors' names as patterns, and values by their meaning.

No name or value is sent that the registry of the machine does not have. The table only knows what to look for there,
because the same vendor spells one name in three ways and one value in two.
Source: dumps of Dell R6515, R6615 and R7615, HPE DL325 Gen10 Plus and Gen11 with the lists of HPE's documentation,
Lenovo SR635 V3, Supermicro H13, and tokens of AMI's CBS from four vendors.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Word in the name of a manufacturer -> the vendor; all others have AMI's names.
VENDORS = {"dell": "Dell", "hpe": "HPE", "hewlett": "HPE", "lenovo": "Lenovo", "supermicro": "Supermicro"}
AMI = "AMI"
#: Meanings of switches. Values are compared in lower case, without what is no letter or digit.
ON, OFF = "on", "off"
_ON, _OFF = r"enabled?|on|1|yes|true|forceenabled", r"disabled?|off|0|no|false|forcedisabled"
SWITCH = {ON: (_ON,), OFF: (_OFF,)}
#: AMI's setup has only Disabled and Auto for some, and Auto is on.
AUTO_IS_ON = {ON: (_ON, "auto"), OFF: (_OFF,)}


class Part:
    """One attribute that has to be set: its name as a pattern, and the value by meaning, in order of preference.

    One that is not ``needed`` is passed over where the machine does not have it.
    """

    def __init__(self, name: str, values: Mapping[str, Sequence[str]] | None = None, needed: bool = True) -> None:
        self.name = name
        self.values = values
        self.needed = needed


class Knob:
    """One setting: its title, its values by meaning, and by vendor the ways to set it, of which the first fits.

    The first part of a way is the setting itself, the others go with it. ``locked`` says that profiles of the vendors
    lock it. ``words`` are those by which a person may find it on a machine of an unknown maker.
    """

    def __init__(
        self,
        title: str,
        values: Mapping[str, Sequence[str]],
        ways: Mapping[str, Sequence[Sequence[Part]]],
        words: str,
        locked: bool = True,
    ) -> None:
        self.title = title
        self.values = values
        self.ways = ways
        self.words = words
        self.locked = locked


def vendor_of(manufacturer: str) -> str:
    """Return the vendor by the name of the manufacturer."""
    return next((name for word, name in VENDORS.items() if word in manufacturer.lower()), AMI)


def one(name: str, values: Mapping[str, Sequence[str]] | None = None) -> list[list[Part]]:
    """Return the only way, with one attribute."""
    return [[Part(name, values)]]


#: By vendor, the profile that locks others, and the value that frees them.
PROFILES = {
    "Dell": Part("SysProfile", {"custom": ("custom",)}),
    "HPE": Part("WorkloadProfile", {"custom": ("custom",)}),
    "Lenovo": Part("OperatingModes_ChooseOperatingMode", {"custom": ("custommode", "custom")}),
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

KNOBS = {
    "nps": Knob(
        "NUMA nodes per socket",
        _NPS,
        {
            "Dell": one("NumaNodesPerSocket"),
            "HPE": one("NumaMemoryDomainsPerSocket"),
            "Lenovo": one("Memory_NUMANodesperSocket"),
            "Supermicro": one("NUMANodesPerSocket"),
            AMI: one(r"CbsDfCmnDramNps\w*"),
        },
        "numa nodes per socket",
        locked=False,
    ),
    "l3_as_numa": Knob(
        "L3 as NUMA node",
        SWITCH,
        {
            "Dell": one("CcxAsNumaDomain"),
            "HPE": one("LastLevelCacheAsNUMANode"),
            "Lenovo": one("Processors_ACPISRATL3CacheasNUMADomain"),
            "Supermicro": one("ACPISRATL3CacheAsNUMADomain"),
            AMI: one(r"CbsDfCmnAcpiSratL3Numa\w*"),
        },
        "l3 cache as numa domain",
        locked=False,
    ),
    "smt": Knob(
        "SMT",
        AUTO_IS_ON,
        {
            "Dell": one("LogicalProc"),
            "HPE": one("ProcSMT"),
            "Lenovo": one("Processors_SMTMode"),
            "Supermicro": one("SMTControl"),
            AMI: one(r"CbsCpuSmtCtrl\w*"),
        },
        "smt control",
        locked=False,
    ),
    "boost": Knob(
        "core performance boost",
        AUTO_IS_ON,
        {
            "Dell": one("ProcTurboMode"),
            "HPE": one("ProcAMDBoost"),
            "Lenovo": one("Processors_CorePerformanceBoost"),
            "Supermicro": one("CorePerformanceBoost"),
            AMI: one(r"CbsCmnCpuCpb\w*"),
        },
        "core performance boost",
    ),
    "determinism": Knob(
        "determinism",
        _DETERMINISM,
        {
            "Dell": one("DeterminismSlider"),
            "HPE": [[Part("PerformanceDeterminism"), Part("DeterminismControl", _MANUAL, needed=False)]],
            "Lenovo": one("Processors_DeterminismSlider"),
            "Supermicro": [[Part("DeterminismEnable"), Part("DeterminismControl", _MANUAL, needed=False)]],
            AMI: [
                [Part(r"CbsCmnDeterminismEnable\w*"), Part(r"CbsCmnDeterminismC(on)?tr?l\w*", _MANUAL, needed=False)],
                [Part(r"CbsCmnDeterminismSlider\w*")],
            ],
        },
        "determinism slider",
    ),
    "power_profile": Knob(
        "power profile",
        _PROFILE,
        {
            "Dell": one("PowerProfileSelect"),
            "Supermicro": one("PowerProfileSelection"),
            AMI: one(r"CbsCmnPowerProfileSelect\w*|CbsCmnEfficiencyModeEn\w*"),
        },
        "power profile selection",
    ),
    "c_states": Knob(
        "core C-states",
        SWITCH,
        {
            "Dell": one("ProcCStates"),
            "HPE": one("MinProcIdlePower", {ON: ("c6(state)?",), OFF: ("nocstates",)}),
            "Lenovo": one("Processors_GlobalC_stateControl"),
            "Supermicro": one("GlobalC_stateControl"),
            AMI: one(r"CbsCmnCpuGlobalCstateCtrl\w*"),
        },
        "global c-state control",
    ),
    "df_c_states": Knob(
        "DF C-states",
        SWITCH,
        {
            "Dell": one("DfCState"),
            "HPE": one("DataFabricCStateEnable"),
            "Lenovo": one("Processors_DFC_States"),
            "Supermicro": one("DFCstates"),
            AMI: one(r"CbsCmnGnbSMUDfCstates\w*"),
        },
        "df c-states",
    ),
    "iommu": Knob(
        "IOMMU",
        AUTO_IS_ON,
        {
            "Dell": one("IommuSupport"),
            "HPE": one("ProcAmdIoVt|ProcAmdIOMMU"),
            "Lenovo": one("DevicesandIOPorts_IOMMU"),
            "Supermicro": one("IOMMU"),
            AMI: one(r"CbsCmnGnbNbIOMMU\w*"),
        },
        "iommu",
        locked=False,
    ),
    "apbdis": Knob(
        "APBDIS, the data fabric at a fixed speed",
        SWITCH,
        {
            "Dell": [[Part("ApbDis"), Part("FixedSocPstate", {ON: ("p0",)}, needed=False)]],
            "HPE": one("InfinityFabricPstate", _FABRIC_P0),
            "Lenovo": one("Processors_SOCP_states", _FABRIC_P0),
            "Supermicro": one("APBDIS"),
            AMI: one(r"CbsCmnApbdis"),
        },
        "apbdis",
    ),
    "xgmi_width": Knob(
        "width of the xGMI links",
        _WIDTH,
        {
            "HPE": one("XGMIMaxLinkWidth"),
            "Lenovo": one("Processors_xGMIMaximumLinkWidth"),
            "Supermicro": one("xGMIMaxLinkWidth"),
            AMI: one(r"CbsDfCmnXgmiMaxLinkWidth\w*"),
        },
        "xgmi max link width",
    ),
    "xgmi_speed": Knob(
        "speed of the xGMI links",
        _SPEED,
        {
            "Dell": one("AmdMaxXgmiSpeed"),
            "HPE": one("AmdXGMILinkSpeed"),
            "Lenovo": one("Processors_4_LinkxGMIMaxSpeed"),
            "Supermicro": one("xGMILinkMaxSpeed"),
            AMI: one(r"CiscoXgmiMaxSpeed|CbsDfCmn4LinkMaxXgmiSpeed\w*"),
        },
        "xgmi link speed",
    ),
    "cppc": Knob(
        "CPPC",
        AUTO_IS_ON,
        {"Lenovo": one("Processors_CPPC"), "Supermicro": one("CPPC"), AMI: one(r"CbsCmnGnbSMUCPPC(SHP|Rs|Ssp)?")},
        "cppc",
    ),
    "hsmp": Knob(
        "HSMP",
        AUTO_IS_ON,
        {
            "Dell": one("Hsmp"),
            "Lenovo": one("Processors_HSMPSupport"),
            "Supermicro": one("HSMPSupport"),
            AMI: one(r"CbsCmnGnbSMUHsmpSupport\w*"),
        },
        "hsmp support",
        locked=False,
    ),
    "memory_encryption": Knob(
        "transparent memory encryption",
        SWITCH,
        {
            "Dell": one("TransparentSme"),
            "HPE": one("TransparentSecureMemoryEncryption"),
            "Lenovo": one("Memory_TSME"),
            "Supermicro": one("TSME"),
            AMI: one(r"TSME|CbsCmnMemTsme\w*"),
        },
        "tsme",
        locked=False,
    ),
}
