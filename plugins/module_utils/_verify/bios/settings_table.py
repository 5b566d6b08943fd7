# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of BIOS settings: the function that reads a setting, the cost of a wrong value, and its place in the setup.

Attribute names are those of the vendors' Redfish services, for Supermicro without the suffix that differs by board.
Menus are those of AMI's setup, which most other boards have.
Source: dumps of servers of each vendor for the attribute names.
"""

from __future__ import annotations

from . import c_states, cores, frequency_and_power, iommu_and_encryption, memory_modules, numa_nodes, prefetchers
from .setting import OFF, ON, Setting, reading_without_kernel_file

#: Option of epyc_bios_check_info -> the setting.
SETTINGS = {
    "nps": Setting(
        "NUMA nodes per socket",
        numa_nodes.read_nodes_per_socket,
        {
            "": "With too few nodes no thread can be kept on the memory channels next to it; with too many nodes, a "
            "process that is bound to a node has only its share of the bandwidth."
        },
        "DF Common Options, NUMA nodes per socket",
        {
            "Dell": "NumaNodesPerSocket",
            "HPE": "NumaMemoryDomainsPerSocket",
            "Lenovo": "Memory_NUMANodesperSocket",
            "Supermicro": "NUMANodesPerSocket",
        },
        value_format="NPS{}",
    ),
    "l3_as_numa": Setting(
        "L3 as NUMA node",
        numa_nodes.read_l3_as_numa,
        {
            ON: "Every L3 domain then is a node without memory channels of its own, so a policy by node says nothing "
            "about bandwidth.",
            "": "A policy by node then means other CPUs than were planned for.",
        },
        "DF Common Options, ACPI SRAT L3 cache as NUMA domain",
        {
            "Dell": "CcxAsNumaDomain",
            "HPE": "LastLevelCacheAsNUMANode",
            "Lenovo": "Processors_ACPISRATL3CacheasNUMADomain",
            "Supermicro": "ACPISRATL3CacheAsNUMADomain",
        },
    ),
    "cores": Setting(
        "cores",
        cores.read_share_of_present_cores,
        {
            "": "Every core that is off lowers the speed of computing; a CCD that is off also takes away its L3 and "
            "its link to the memory."
        },
        "CPU Common Options, CCD control and core control",
        {
            "Dell": "ProcCcds CcdCores",
            "HPE": "EnabledCoresPerProc",
            "Lenovo": "Processors_NumberofEnabledCPUCoresPerSocket",
            "Supermicro": "CCDControl CoreControl",
        },
    ),
    "smt": Setting(
        "SMT",
        cores.read_smt_and_its_source,
        {
            ON: "Two threads then share the caches of one core, and the memory has no more bandwidth for them. The "
            "module sysfs_settings can turn it off without the BIOS, with smt: 'off'.",
            "": "Half of the threads that were planned for are not there.",
        },
        "CPU Common Options, SMT control",
        {"Dell": "LogicalProc", "HPE": "ProcSMT", "Lenovo": "Processors_SMTMode", "Supermicro": "SMTControl"},
    ),
    "memory_channels": Setting(
        "memory channels",
        memory_modules.read_filled_memory_channels,
        {
            "": "Tokens per second fall with the bandwidth. The memory controller cannot interleave evenly over some "
            "numbers of channels, which costs further bandwidth."
        },
        remedy="No BIOS setting mends it: put a module into each empty slot, or replace a module that was not found.",
        expected_anyway=memory_modules.expected_if_most_bandwidth_is_lost,
    ),
    "memory_speed": Setting(
        "memory speed",
        memory_modules.compare_memory_speed_with_rating,
        {"": "Bandwidth and tokens per second fall with the speed. Two modules on a channel may be the reason too."},
        "UMC Common Options, memory target speed",
        {"Dell": "MemFrequency", "HPE": "MaxMemBusFreqMHz", "Lenovo": "Memory_MemorySpeed"},
    ),
    "memory_sizes": Setting(
        "sizes of memory modules",
        memory_modules.compare_module_sizes,
        {"": "Memory that only the larger modules have lies on fewer channels, and is slower than the other memory."},
        remedy="No BIOS setting mends it: use modules of one size.",
    ),
    "memory_encryption": Setting(
        "memory encryption",
        iommu_and_encryption.read_memory_encryption,
        {
            OFF: "The contents of memory can then be read from the modules.",
            "": "Every access to memory then passes through the encryption, which adds to its latency.",
        },
        "UMC Common Options, DDR Security, TSME",
        {
            "Dell": "TransparentSme Sme",
            "HPE": "TransparentSecureMemoryEncryption AmdSecureMemoryEncryption",
            "Lenovo": "Memory_TSME Memory_SMEE",
            "Supermicro": "TSME SMEE",
        },
    ),
    "prefetchers": Setting(
        "prefetchers at boot",
        prefetchers.read_prefetchers,
        {
            ON: "The prefetchers then compete with one another for the memory channels.",
            "": "Weights that are streamed from memory are fetched late then. The role epyc_prefetch sets them without "
            "the BIOS, for single CCDs as well.",
        },
        "CPU Common Options, Prefetcher settings",
        {
            "Dell": "L1StreamHwPrefetcher L1StridePrefetcher L1RegionPrefetcher L2StreamHwPrefetcher "
            "L2UpDownPrefetcher",
            "HPE": "AmdL1Prefetcher AmdL2Prefetcher",
            "Lenovo": "Processors_L1StreamHWPrefetcher Processors_L1StridePrefetcher Processors_L1RegionPrefetcher "
            "Processors_L2StreamHWPrefetcher Processors_L2UpDownPrefetcher",
            "Supermicro": "L1StreamHWPrefetcher L2StreamHWPrefetcher",
        },
    ),
    "boost": Setting(
        "core performance boost",
        frequency_and_power.read_boost,
        {
            OFF: "No core then runs faster than its base frequency, which slows down work that runs from its caches.",
            "": "Cores then leave their base frequency as power and heat allow.",
        },
        "CPU Common Options, core performance boost",
        {
            "Dell": "ProcTurboMode",
            "HPE": "ProcAMDBoost",
            "Lenovo": "Processors_CorePerformanceBoost",
            "Supermicro": "CorePerformanceBoost",
        },
    ),
    "cppc": Setting(
        "CPPC",
        frequency_and_power.read_firmware_cppc,
        {
            OFF: "The driver amd-pstate cannot work then, and the kernel can only choose one of three P-states.",
            "": "The kernel may then choose amd-pstate, for which frequencies are planned in another way.",
        },
        "NBIO Common Options, SMU Common Options, CPPC",
        {"Lenovo": "Processors_CPPC"},
    ),
    "preferred_cores": Setting(
        "CPPC preferred cores",
        frequency_and_power.read_core_ranking,
        {"": "The scheduler then prefers some cores, which has no effect on pinned threads."},
        "NBIO Common Options, SMU Common Options, CPPC preferred cores",
    ),
    "power_limit": Setting(
        "power limit of a socket",
        frequency_and_power.read_lowest_power_limit,
        {"": "Cores that are all busy run as fast as the power of their socket allows."},
        "NBIO Common Options, SMU Common Options, package power limit",
        {
            "Dell": "ProcConfigTdp",
            "HPE": "PackagePowerLimitControlMode PackagePowerLimitValue",
            "Lenovo": "Processors_PackagePowerLimit",
            "Supermicro": "PackagePowerLimitControl",
        },
        value_format="{} W",
    ),
    "determinism": Setting(
        "determinism",
        reading_without_kernel_file,
        {
            "": "Performance determinism holds every CPU of a SKU to the same speed, power determinism lets each CPU "
            "use all its allowed power."
        },
        "NBIO Common Options, SMU Common Options, determinism control",
        {
            "Dell": "DeterminismSlider",
            "HPE": "DeterminismControl PerformanceDeterminism",
            "Lenovo": "Processors_DeterminismSlider",
            "Supermicro": "DeterminismControl DeterminismEnable",
        },
    ),
    "c_states": Setting(
        "core C-states",
        c_states.read_firmware_c_states,
        {
            ON: "A core that is idle for a moment may sleep so deeply that it wakes up late.",
            "": "Idle cores then take power that busy cores could use for boost.",
        },
        "CPU Common Options, global C-state control",
        {
            "Dell": "ProcCStates",
            "HPE": "MinProcIdlePower",
            "Lenovo": "Processors_GlobalC_stateControl",
            "Supermicro": "GlobalC_stateControl",
        },
    ),
    "df_cstates": Setting(
        "DF C-states",
        reading_without_kernel_file,
        {"": "With DF C-states, an idle data fabric goes to sleep, and the next accesses to memory wait for it."},
        "NBIO Common Options, SMU Common Options, DF C-states",
        {
            "Dell": "DfCState",
            "HPE": "DataFabricCStateEnable",
            "Lenovo": "Processors_DFC_States",
            "Supermicro": "DFCstates",
        },
    ),
    "iommu": Setting(
        "IOMMU",
        iommu_and_encryption.read_iommu,
        {
            ON: "Every transfer of a device then has its address translated, unless the kernel has iommu=pt.",
            "": "No device can then be given to a guest, and interrupts of devices reach the first 255 threads only.",
        },
        "NBIO Common Options, IOMMU",
        {"Dell": "IommuSupport", "HPE": "ProcAmdIoVt", "Lenovo": "DevicesandIOPorts_IOMMU", "Supermicro": "IOMMU"},
    ),
    "hsmp": Setting(
        "HSMP",
        frequency_and_power.read_hsmp_availability,
        {"": "Without it only root can read the memory bandwidth of a socket."},
        "NBIO Common Options, SMU Common Options, HSMP support",
        {"Dell": "Hsmp", "Lenovo": "Processors_HSMPSupport"},
    ),
}
