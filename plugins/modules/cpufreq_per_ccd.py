#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cpufreq_per_ccd
short_description: Set governor, frequency limits, speed, boost and energy preference per CCD or any set of CPUs
version_added: 0.1.0
description:
  - Sets what the kernel's cpufreq policies offer, on sets of CPUs by role, by CCD, by node or by number.
  - Knows what each driver can express, C(acpi-cpufreq) and C(amd-pstate) in its active, passive and guided mode, and
    refuses what it cannot, with the nearest thing that works. The kernel itself accepts much of that and does something
    else silently.
  - Writes in an order that the kernel accepts, and reads everything back.
  - A policy may hold several CPUs, such as the two threads of a core. They change together, so asking for different
    values is refused.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  settings:
    description:
      - What to set where. Entries may name the same CPUs, as long as they do not ask for two values of one setting.
      - A frequency is a text with a unit such as V(2250MHz) or V(2.25GHz), a whole number of kHz, V(lowest),
        V(highest), or V(base) for the frequency that the CPU is sold with.
      - With C(acpi-cpufreq) only P-states can be had, of which an EPYC has three and V(base) is the highest. A
        frequency between two of them is refused, because the kernel would round it silently, and so is one above
        V(base), because the hardware boosts by itself. There O(settings[].boost) is what makes CCDs differ above
        V(base).
    type: list
    elements: dict
    default: []
    suboptions:
      cpus:
        description: The CPUs, see the notes.
        type: str
        required: true
      governor:
        description:
          - The governor, one of those that the kernel offers for the driver.
          - C(amd-pstate) in active mode has V(performance) and V(powersave) only, of which the latter is not slow; it
            follows O(settings[].epp).
        type: str
      min:
        description: The lowest frequency that the governor may choose. It must not be above the upper limit.
        type: str
      max:
        description:
          - The highest frequency that the governor may choose.
          - With C(acpi-cpufreq) V(base) and V(highest) are the same and do not keep the hardware from boosting. A
            remark says so when boost is on.
        type: str
      speed:
        description:
          - One fixed frequency, through the governor C(userspace), which is chosen when O(settings[].governor) is left
            out.
          - C(amd-pstate) in active mode has none. Set O(settings[].min) and O(settings[].max) to the same there.
          - The kernel accepts speeds that it does not have, and takes the nearest silently; this module refuses them.
        type: str
      boost:
        description:
          - Whether the hardware may go above V(base) while power and temperature allow it.
          - Where the kernel has only one switch for the whole machine, CPUs cannot differ.
          - Where it has none, as with C(amd-pstate) in active mode on older kernels, V(true) is met when the driver
            shows a frequency above the base, because the hardware then boosts anyway, and V(false) is refused.
          - With C(acpi-cpufreq) the kernel's files do not show the state of a policy reliably, so the register is read
            where the kernel module msr is loaded. Kernels older than 6.7 or so need it to let CPUs differ, because they
            show nothing else that could prove it.
          - When the switch of the whole machine is off, it is switched on for a policy that asks for boost, and off
            again in each policy that no setting names.
        type: bool
      epp:
        description:
          - The energy performance preference, a hint to the hardware. Only C(amd-pstate) in active mode has it.
          - Under the governor V(performance) the kernel allows V(performance) only.
        type: str
        choices: [performance, balance_performance, balance_power, power]
notes:
  - Needs root.
  - Settings do not outlive a reboot, unless O(persistent) is set.
  - Under C(acpi-cpufreq) the frequency that C(scaling_cur_freq) shows is an estimate. Frequencies above V(base) are
    never promised; C(turbostat) measures what the hardware reached.
  - TuneD and power-profiles-daemon set the same things; a remark names them when they run.
  - Tunables of a governor, such as those of C(ondemand), are the kernel's to reset when its last policy leaves it.
seealso:
  - module: sovereign.epyc.msr_bits
"""

EXAMPLES = r"""
- name: Let the draft model's CCD boost and hold the others at the base frequency, with acpi-cpufreq
  sovereign.epyc.cpufreq_per_ccd:
    intent: {draft: {ccds: 1}}
    settings:
      - {cpus: "draft,verify,housekeeping", governor: performance}
      - {cpus: draft, boost: true}
      - {cpus: "verify,housekeeping", boost: false}

- name: The same with amd-pstate in active mode, where a limit does it
  sovereign.epyc.cpufreq_per_ccd:
    intent: {draft: {ccds: 1}}
    settings:
      - {cpus: draft, governor: performance, min: base, max: highest}
      - {cpus: verify, governor: performance, max: base}

- name: Hold one CCD at a fixed P-state
  sovereign.epyc.cpufreq_per_ccd:
    settings:
      - {cpus: ccd0, speed: 1900MHz}

- name: The performance governor everywhere, now and at every boot
  sovereign.epyc.cpufreq_per_ccd:
    settings:
      - {cpus: all, governor: performance}
    persistent: true

- name: Put everything back that this module changed since the boot
  sovereign.epyc.cpufreq_per_ccd:
    state: original
"""

RETURN = r"""
diff:
  description:
    - What differed, by address.
    - An address is C(cpufreq:boost) for the switch of the whole machine, or C(cpufreq:POLICY/FILE) with the kernel's
      name of the file, such as C(cpufreq:policy0/scaling_governor). Frequencies are in kHz.
    - C(cpufreq:POLICY/boost) stands for the file C(boost) or C(cpb), whichever there is.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "governor, policy 0: schedutil -> performance\n"
    changes:
      before: {"cpufreq:policy0/scaling_governor": "schedutil"}
      after: {"cpufreq:policy0/scaling_governor": "performance"}
remarks:
  description: Where a limit does not hold because of boost, and which other programs set the same.
  returned: always
  type: list
  elements: str
driver:
  description: The cpufreq driver, nothing where there is none.
  returned: success
  type: str
  sample: acpi-cpufreq
amd_pstate:
  description: What the kernel says of amd-pstate, such as V(active), V(passive), V(guided) or V(disable).
  returned: success
  type: str
  sample: disable
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq import knob

SPEC = dict(
    settings=dict(
        type="list",
        elements="dict",
        default=[],
        options=dict(
            cpus=dict(type="str", required=True),
            governor=dict(type="str"),
            min=dict(type="str"),
            max=dict(type="str"),
            speed=dict(type="str"),
            boost=dict(type="bool"),
            epp=dict(type="str", choices=["performance", "balance_performance", "balance_power", "power"]),
        ),
        required_one_of=[("governor", "min", "max", "speed", "boost", "epp")],
    ),
)


def main() -> None:
    run_knob_module("cpufreq", SPEC, knob)


if __name__ == "__main__":
    main()
