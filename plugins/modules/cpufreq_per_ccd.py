#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cpufreq_per_ccd
short_description: Set governor, frequency limits, speed, boost and energy preference per CCD or any set of CPUs
version_added: 1.0.0
description:
  - Sets the files of the kernel's cpufreq policies, on sets of CPUs by role, by CCD, by node or by number.
  - Refuses values that a driver cannot express, and names the nearest value that works. The kernel itself accepts many
    of them and silently does something else. The drivers are C(acpi-cpufreq), and C(amd-pstate) in its active, passive
    and guided mode.
  - Writes in an order that the kernel accepts, and reads everything back.
  - A policy may hold several CPUs, such as the two threads of a core. These CPUs change together, so different
    values for them are refused.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  settings:
    description:
      - The settings of each set of CPUs. Entries may name the same CPUs, unless they set two values of one setting.
      - A frequency is a text with a unit such as V(2250MHz) or V(2.25GHz), a whole number of kHz, V(lowest),
        V(highest), or V(base) for the base frequency of the data sheet.
      - C(acpi-cpufreq) offers only P-states. An EPYC has three, of which V(base) is the highest. A frequency between
        two P-states is refused, because the kernel would silently round it. A frequency above V(base) is refused,
        because the hardware boosts by itself. With this driver, only O(settings[].boost) makes CCDs differ above
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
          - C(amd-pstate) in active mode has V(performance) and V(powersave) only. V(powersave) follows
            O(settings[].epp), and is not slow.
        type: str
      min:
        description: The lowest frequency that the governor may choose, at most O(settings[].max).
        type: str
      max:
        description:
          - The highest frequency that the governor may choose.
          - With C(acpi-cpufreq), V(base) and V(highest) are equal, and the hardware still boosts above them. A remark
            says so if boost is on.
        type: str
      speed:
        description:
          - A fixed frequency, which needs the governor C(userspace), the default of O(settings[].governor) then.
          - C(amd-pstate) in active mode has no fixed frequency. Set O(settings[].min) and O(settings[].max) to the same
            frequency instead.
          - The kernel silently replaces a speed that it does not have by the nearest one. This module refuses it.
        type: str
      boost:
        description:
          - Whether the hardware may go above V(base) while power and temperature allow it.
          - If the kernel has only one switch for the whole machine, CPUs cannot differ.
          - If the kernel has no switch, as with C(amd-pstate) in active mode on older kernels, V(true) is met if the
            driver shows a frequency above the base, because the hardware then always boosts, and V(false) is refused.
          - The files of C(acpi-cpufreq) do not reliably show the boost of a policy, so the register is read through the
            kernel module msr. On kernels older than about 6.7, CPUs can differ only with this module loaded, because
            nothing else proves the setting.
          - If the switch of the whole machine is off, a policy with boost switches it on. Policies that no setting
            names are switched off again.
        type: bool
      epp:
        description:
          - The energy performance preference, a hint to the hardware. Only C(amd-pstate) in active mode has it.
          - Under the governor V(performance) the kernel allows V(performance) only.
          - Linux 7.1 and 7.2 have a switch with which C(amd-pstate) chooses the preference by itself. While it is on,
            the kernel refuses every preference, and so does this module, in check mode too.
        type: str
        choices: [performance, balance_performance, balance_power, power]
      floor:
        description:
          - The frequency down to which the hardware throttles these CPUs only after all others are at their floors.
            It decides who stays fast while power or temperature is short.
          - It needs C(amd-pstate), a CPU with CPPC performance priority, and a kernel that shows
            C(amd_pstate_floor_freq). It is at most O(settings[].max).
          - The hardware knows a small number of different floors. More than that are refused.
        type: str
notes:
  - Needs root.
  - Settings do not outlive a reboot, unless O(persistent) is set.
  - Under C(acpi-cpufreq) the frequency that C(scaling_cur_freq) shows is an estimate. Frequencies above V(base) are
    never promised; C(turbostat) measures what the hardware reached.
  - TuneD and power-profiles-daemon change the same settings. A remark names these programs if they run.
  - The kernel resets tunables of a governor, such as those of C(ondemand), when its last policy leaves it.
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

- name: Do the same by limits, with amd-pstate in active mode
  sovereign.epyc.cpufreq_per_ccd:
    intent: {draft: {ccds: 1}}
    settings:
      - {cpus: draft, governor: performance, min: base, max: highest}
      - {cpus: verify, governor: performance, max: base}

- name: Hold one CCD at a fixed P-state
  sovereign.epyc.cpufreq_per_ccd:
    settings:
      - {cpus: ccd0, speed: 1900MHz}

- name: Set the performance governor everywhere, now and at every boot
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
    - The settings that differed, by address.
    - An address is C(cpufreq:boost) for the switch of the whole machine, or C(cpufreq:POLICY/FILE) with the kernel's
      name of the file, such as C(cpufreq:policy0/scaling_governor). Frequencies are in kHz.
    - C(cpufreq:POLICY/boost) stands for the file C(boost) or C(cpb), of which a kernel has one.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "governor, policy 0: schedutil -> performance\n"
    changes:
      before: {"cpufreq:policy0/scaling_governor": "schedutil"}
      after: {"cpufreq:policy0/scaling_governor": "performance"}
remarks:
  description: Limits above which the hardware boosts, and other programs that change the same settings.
  returned: always
  type: list
  elements: str
driver:
  description: The cpufreq driver, null without a driver.
  returned: success
  type: str
  sample: acpi-cpufreq
amd_pstate:
  description: The kernel's word for the mode of amd-pstate, such as V(active), V(passive), V(guided) or V(disable).
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
            floor=dict(type="str"),
        ),
        required_one_of=[("governor", "min", "max", "speed", "boost", "epp", "floor")],
    )
)


def main() -> None:
    run_knob_module("cpufreq", SPEC, knob)


if __name__ == "__main__":
    main()
