#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: msr_bits
short_description: Switch hardware prefetchers and other bits of model-specific registers per CPU
version_added: 1.0.0
description:
  - Sets single bits of model-specific registers (MSRs) on sets of CPUs, so that the CPUs of a draft model and those of
    the model that verifies it can differ.
  - All other bits of a register stay as they are. Every bit is read back, and a write that the hardware ignored fails,
    naming register, bit and CPU.
  - Bits that AMD documents for the CPU's family have names. Other bits need O(allow_undocumented). Registers that the
    kernel itself depends on, such as DE_CFG, EFER, the MTRRs and those of the machine check, are never written.
  - Refuses, before the first write, if the kernel module is not loaded, if the kernel is locked down (Secure Boot), if
    C(msr.allow_writes) is off, if the CPU lacks the register, and if the two threads of a core, which share the known
    registers, are to have different values.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - the kernel module msr
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  settings:
    description:
      - The bits of each set of CPUs. An entry names CPUs, and at least one of O(settings[].prefetch_control),
        O(settings[].hwcr), O(settings[].dc_cfg), or O(settings[].register) with O(settings[].bits) and
        O(settings[].value).
      - Entries may name the same CPUs, unless they set a bit to two values.
    type: list
    elements: dict
    default: []
    suboptions:
      cpus:
        description: The CPUs, see the notes.
        type: str
        required: true
      prefetch_control:
        description:
          - The hardware prefetchers of Zen 3 and later, in register C(0xC0000108). A bit that is set disables its
            prefetcher.
          - Refused on a CPU whose CPUID leaf C(0x80000021) does not show this register. The leaf is read through the
            kernel module cpuid, which O(load_module) loads too.
          - On later CPUs than those of Zen 5 it needs O(allow_undocumented), because nobody has published the bits.
        type: dict
        suboptions:
          l1_stream:
            description: The L1 stream prefetcher, bit 0. It fetches the lines that follow an access.
            type: str
            choices: [enabled, disabled]
          l1_stride:
            description: The L1 stride prefetcher, bit 1. It follows the steps of a single instruction.
            type: str
            choices: [enabled, disabled]
          l1_region:
            description: The L1 region prefetcher, bit 2. It fetches the lines of a region that earlier accesses needed.
            type: str
            choices: [enabled, disabled]
          l2_stream:
            description: The L2 stream prefetcher, bit 3.
            type: str
            choices: [enabled, disabled]
          up_down:
            description: The L2 up/down prefetcher, bit 5. It decides for each access whether the next or the line
              before is fetched.
            type: str
            choices: [enabled, disabled]
      hwcr:
        description:
          - The hardware configuration register C(0xC0010015). Only its bit 25 is ever written.
        type: dict
        suboptions:
          boost:
            description:
              - Core performance boost. V(disabled) sets bit 25, CpbDis.
              - A cpufreq driver writes the same bit and silently overwrites this setting. On a host with such a driver,
                prefer the boost of M(sovereign.epyc.cpufreq_per_ccd).
            type: str
            choices: [enabled, disabled]
      dc_cfg:
        description:
          - The data cache configuration, register C(0xC0011022), which AMD documents for families 12h to 16h, before
            Zen.
          - On family 17h (Zen) and later it needs O(allow_undocumented). Guides for EPYC take the meaning of bits 13
            and 15 from the older families, and tools disagree about it. Use O(settings[].prefetch_control) instead.
        type: dict
        suboptions:
          hardware_prefetch:
            description: The hardware prefetcher, which bit 13 disables.
            type: str
            choices: [enabled, disabled]
          software_prefetch_assist:
            description: Hardware prefetches after software prefetches, which bit 15 disables.
            type: str
            choices: [enabled, disabled]
      register:
        description: The number of any other register, such as V(0xc0011022).
        type: str
      bits:
        description: The bit of O(settings[].register), such as V(13), or a range with the higher bit first, such as
          V(15:13). Quote a range, because YAML reads it as a number.
        type: str
      value:
        description: The value of O(settings[].bits), such as V(1) or V(0x5).
        type: str
  allow_undocumented:
    description:
      - Allow bits that AMD does not document for the CPU's family. A wrong bit can hang the machine or silently spoil
        its results, so measure, and keep the console at hand.
      - Registers that the kernel depends on are still refused.
    type: bool
    default: false
  load_module:
    description:
      - Load the kernel module msr with C(modprobe) if it is not loaded, and cpuid for a register that exists only on
        CPUs with a bit of CPUID. O(state=original) unloads these modules again.
    type: bool
    default: false
notes:
  - Needs root with CAP_SYS_RAWIO.
  - Any write to a register sets the kernel's taint flag 4 (CPU out of specification) until the next boot. A run that
    changes nothing does not write, and does not taint.
  - Registers lose their values at a reboot and when a CPU goes offline. O(persistent) writes them again after a reboot.
  - The BIOS of most servers has switches for the same five prefetchers of the whole machine. Use these switches, which
    are supported, if sets of CPUs need not differ.
  - No prefetcher setting is known to make inference faster in general. Measure with and without.
seealso:
  - module: sovereign.epyc.cpufreq_per_ccd
"""

EXAMPLES = r"""
- name: Spare the draft model's L3 from prefetches, and let the rest stream
  sovereign.epyc.msr_bits:
    load_module: true
    intent: {draft: {ccds: 1}}
    settings:
      - cpus: draft
        prefetch_control: {l1_stream: disabled, l2_stream: disabled}
      - cpus: verify
        prefetch_control: {l1_stream: enabled, l2_stream: enabled}

- name: Switch the up/down prefetcher off everywhere, now and at every boot
  sovereign.epyc.msr_bits:
    load_module: true
    settings:
      - cpus: all
        prefetch_control: {up_down: disabled}
    persistent: true

- name: Set a bit that is not documented for this family
  sovereign.epyc.msr_bits:
    load_module: true
    allow_undocumented: true
    settings:
      - {cpus: ccd0, register: "0xc0011022", bits: "15", value: "1"}

- name: Put back every bit that this module ever changed since the boot
  sovereign.epyc.msr_bits:
    state: original
"""

RETURN = r"""
diff:
  description:
    - The settings that differed, by address. Each bit has the address C(msr:REGISTER[BIT]/cpuCPU), with the values 0
      and 1.
    - A kernel module is C(msr:module/NAME).
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "prefetcher l1_stream, CPU 16: enabled -> disabled\n"
    changes:
      before: {"msr:0xc0000108[0]/cpu16": "0"}
      after: {"msr:0xc0000108[0]/cpu16": "1"}
remarks:
  description: That a write taints the kernel, and which threads share a core with the named CPUs and change too.
  returned: always
  type: list
  elements: str
tainted:
  description: Whether the kernel is tainted by register writes after this run.
  returned: success
  type: bool
  sample: true
tainted_before:
  description: Whether the kernel was tainted by register writes before this run.
  returned: success
  type: bool
  sample: false
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr import knob

SWITCH = dict(type="str", choices=["enabled", "disabled"])
SPEC = dict(
    settings=dict(
        type="list",
        elements="dict",
        default=[],
        options=dict(
            cpus=dict(type="str", required=True),
            prefetch_control=dict(
                type="dict",
                options=dict(l1_stream=SWITCH, l1_stride=SWITCH, l1_region=SWITCH, l2_stream=SWITCH, up_down=SWITCH),
            ),
            hwcr=dict(type="dict", options=dict(boost=SWITCH)),
            dc_cfg=dict(type="dict", options=dict(hardware_prefetch=SWITCH, software_prefetch_assist=SWITCH)),
            register=dict(type="str"),
            bits=dict(type="str"),
            value=dict(type="str"),
        ),
        required_together=[("register", "bits", "value")],
        required_one_of=[("prefetch_control", "hwcr", "dc_cfg", "register")],
    ),
    allow_undocumented=dict(type="bool", default=False),
    load_module=dict(type="bool", default=False),
)


def main() -> None:
    run_knob_module("msr", SPEC, knob)


if __name__ == "__main__":
    main()
