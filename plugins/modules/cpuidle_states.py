#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cpuidle_states
short_description: Set the deepest idle state (C-state) that CPUs may enter
version_added: 0.1.0
description:
  - Sets which of the kernel's cpuidle states CPUs may enter while they have nothing to do, by role, by CCD, by node or
    by number. What is deeper than asked for is forbidden and all else allowed, on each CPU by its own list of states.
  - A CPU wakes faster from a shallow state, and draws more power in it. What idle CPUs draw, the others cannot boost
    with.
  - An EPYC usually has C(POLL), C(C1) and C(C2). The exit latency of C(C2), which the firmware tells, is 800 µs on many
    boards and can be set to 18 µs in the BIOS of some.
  - Names the other owners of such limits that the kernel shows, which are PM QoS and TuneD.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  settings:
    description: The deepest state of each set of CPUs. A CPU must not be asked for two.
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
          - The name of the deepest state that is allowed, such as V(C1), as C(cpuidle/state*/name) of a CPU shows it.
          - A CPU without a state of that name is refused, and the states that it has are listed.
        type: str
      max_latency:
        description:
          - Allow states that a CPU leaves within so many microseconds, as C(cpuidle/state*/latency) of it says.
          - A limit that no state of a CPU keeps is refused, because one must be left.
        type: int
notes:
  - Needs root.
  - Settings do not outlive a reboot, unless O(persistent) is set. They outlive that a CPU goes offline and comes back.
  - A CPU whose deepest state is C(POLL) never sleeps. It draws power as if it computed, which it takes from the boost
    of the others, and slows the other thread of its core; a remark says so.
  - A core sleeps as deep as the shallower one of its two threads.
  - A kernel that was started with C(idle=poll), C(idle=halt) or C(cpuidle.off=1) has no states, and is refused.
    C(processor.max_cstate) leaves out deep states for all CPUs and until the next boot; this module can only forbid
    more. C(intel_idle.max_cstate) has no meaning on an EPYC, whose driver is C(acpi_idle).
  - PM QoS limits the same by latency, for all CPUs by C(/dev/cpu_dma_latency) while a program holds it, which is what
    C(force_latency) of TuneD does, and for one by C(power/pm_qos_resume_latency_us). The stricter one wins. A remark
    tells of a limit that is stricter than what is asked for here.
seealso:
  - module: sovereign.epyc.cpufreq_per_ccd
"""

EXAMPLES = r"""
- name: Keep the CPUs that compute out of deep sleep, and let the others sleep as they like
  sovereign.epyc.cpuidle_states:
    intent: {housekeeping: {cores: 1, per: node}}
    settings:
      - {cpus: verify, deepest: C1}
      - {cpus: housekeeping, deepest: C2}

- name: No state that takes more than 100 µs to leave, now and at every boot
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
    - What differed, by address, which is C(cpuidle:CPU/STATE) with the name of the state. V(1) is forbidden.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "idle state C2, CPU 3: allowed -> forbidden\n"
    changes:
      before: {"cpuidle:cpu3/C2": "0"}
      after: {"cpuidle:cpu3/C2": "1"}
remarks:
  description: Which CPUs poll, and which other programs limit idle states.
  returned: always
  type: list
  elements: str
driver:
  description: The cpuidle driver, nothing where there is none.
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
        options=dict(
            cpus=dict(type="str", required=True),
            deepest=dict(type="str"),
            max_latency=dict(type="int"),
        ),
        required_one_of=[("deepest", "max_latency")],
        mutually_exclusive=[("deepest", "max_latency")],
    ),
)


def main() -> None:
    run_knob_module("cpuidle", SPEC, cpuidle)


if __name__ == "__main__":
    main()
