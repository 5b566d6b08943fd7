#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cpuidle_states
short_description: Set the deepest idle state (C-state) that CPUs may enter
version_added: 1.0.0
description:
  - Sets the cpuidle states that CPUs may enter while they are idle, by role, by CCD, by node or by number. States
    deeper than the requested one are forbidden and all others are allowed.
  - A CPU wakes faster from a shallow state, and draws more power in it. Other CPUs lack this power for their boost.
  - An EPYC usually has C(POLL), C(C1) and C(C2). The firmware reports the exit latency of C(C2). It is 800 µs on many
    boards, and the BIOS of some can set it to 18 µs.
  - Remarks name limits of other programs, which are PM QoS and TuneD.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  settings:
    description: The deepest state of each set of CPUs. A CPU must not be in two sets with different states.
    type: list
    elements: dict
    default: []
    suboptions:
      cpus:
        description: The CPUs, see the notes.
        type: str
        required: true
      deepest:
        description:
          - The name of the deepest allowed state, such as V(C1), as in C(cpuidle/state*/name) of a CPU.
          - A CPU without a state of this name is refused, and the message lists its states.
        type: str
      max_latency:
        description:
          - Allow states with at most this exit latency in microseconds, as in C(cpuidle/state*/latency) of a CPU.
          - A limit below the latency of all states of a CPU is refused, because a CPU needs at least one state.
        type: int
notes:
  - Needs root.
  - Settings do not outlive a reboot, unless O(persistent) is set. They stay when a CPU goes offline and comes back.
  - A CPU whose deepest state is C(POLL) never sleeps. It draws power as if it computed, so that other CPUs have less
    power for their boost, and it slows the other thread of its core. A remark says so.
  - A core enters the shallower one of the states of its two threads.
  - A kernel that was started with C(idle=poll), C(idle=halt) or C(cpuidle.off=1) has no states, and is refused.
    C(processor.max_cstate) removes deep states of all CPUs until the next boot. C(intel_idle.max_cstate) has no
    meaning on an EPYC, whose driver is C(acpi_idle).
  - PM QoS limits idle states by latency, too. A program that holds C(/dev/cpu_dma_latency), as C(force_latency) of
    TuneD does, limits all CPUs, and C(power/pm_qos_resume_latency_us) limits one CPU. The strictest limit counts. A
    remark names limits of PM QoS that are stricter than the requested ones.
seealso:
  - module: sovereign.epyc.cpufreq_per_ccd
"""

EXAMPLES = r"""
- name: Keep the CPUs that compute out of deep sleep, and allow it for housekeeping
  sovereign.epyc.cpuidle_states:
    intent: {housekeeping: {cores: 1, per: node}}
    settings:
      - {cpus: verify, deepest: C1}
      - {cpus: housekeeping, deepest: C2}

- name: Forbid states with an exit latency above 100 µs, now and at every boot
  sovereign.epyc.cpuidle_states:
    settings:
      - {cpus: all, max_latency: 100}
    persistent: true

- name: Put everything back that this module changed since the boot
  sovereign.epyc.cpuidle_states:
    state: original
"""

RETURN = r"""
diff:
  description:
    - The settings that differed, by address, which is C(cpuidle:CPU/STATE). The value V(1) is a forbidden state.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "idle state C2, CPU 3: allowed -> forbidden\n"
    changes:
      before: {"cpuidle:cpu3/C2": "0"}
      after: {"cpuidle:cpu3/C2": "1"}
remarks:
  description: CPUs that poll, and other programs that limit idle states.
  returned: always
  type: list
  elements: str
driver:
  description: The cpuidle driver, null without a driver.
  returned: success
  type: str
  sample: acpi_idle
governor:
  description: The cpuidle governor, which chooses among the allowed states.
  returned: success
  type: str
  sample: menu
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import cpuidle

SPEC = dict(
    settings=dict(
        type="list",
        elements="dict",
        default=[],
        options=dict(cpus=dict(type="str", required=True), deepest=dict(type="str"), max_latency=dict(type="int")),
        required_one_of=[("deepest", "max_latency")],
        mutually_exclusive=[("deepest", "max_latency")],
    )
)


def main() -> None:
    run_knob_module("cpuidle", SPEC, cpuidle)


if __name__ == "__main__":
    main()
