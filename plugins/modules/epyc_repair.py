#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_repair
short_description: Repair drift on a host, and give up settings that somebody else changes again and again
version_added: 1.0.0
description:
  - Compares all stored requests of the host with the running kernel, as M(sovereign.epyc.epyc_drift_info) does, and
    applies the stored requests of the layers of O(roles) again where settings are not in force. The module needs no
    inventory, and neither reboots the host nor restarts a service.
  - Settings that wait for a reboot are not repaired, nor are layers whose settings take effect at a boot or at a start.
  - The time of each repair is stored on the host. A setting that was repaired O(most) times within a day is given up
    until the day is over, together with all settings of the same request. Then the module does not fail, but returns
    RV(clean=false), and the metrics of the host's own check have C(sovereign_epyc_repair_given_up).
  - All other drift is named in RV(left_alone) and not repaired, such as an instance that is stopped.
  - While an ablation or a tuning goes on, nothing is repaired.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: [sovereign.epyc.attributes, sovereign.epyc.asked]
options:
  roles:
    description: The roles whose settings may be repaired.
    type: list
    elements: str
    choices: [cat, cpufreq, cpuidle, irq, numa, prefetch]
    default: [cat, cpufreq, cpuidle, irq, numa, prefetch]
  most:
    description: The largest number of repairs of a setting within a day.
    type: int
    default: 2
seealso:
  - module: sovereign.epyc.epyc_drift_info
"""

EXAMPLES = r"""
- name: Repair drift of L3 partition and interrupts
  sovereign.epyc.epyc_repair:
    roles: [cat, irq]
  register: repaired

- name: Show the outcome of each finding
  ansible.builtin.debug:
    msg: "{{ repaired.lines }}"
"""

RETURN = r"""
clean:
  description: >-
    Whether the host is as configured now. Where O(roles) names some roles only, their layers alone count. In check
    mode, settings that would be repaired count as wrong.
  returned: always
  type: bool
repaired:
  description: The repaired findings, as RV(sovereign.epyc.epyc_drift_info#module:findings) before the repair.
  returned: always
  type: list
  elements: dict
given_up:
  description: The findings that were repaired too often, and are not repaired any more.
  returned: always
  type: list
  elements: dict
left:
  description: The findings whose repair failed, or that have their request in common with a finding in RV(given_up).
  returned: always
  type: list
  elements: dict
left_alone:
  description: The findings that this module does not repair, each with the command that repairs it.
  returned: always
  type: list
  elements: dict
coverage:
  description: As RV(sovereign.epyc.epyc_drift_info#module:coverage), before the repair.
  returned: always
  type: dict
lines:
  description: A line for people for each finding, and the remarks.
  returned: always
  type: list
  elements: str
  sample: ["L3 share of group draft (L3 domain 0 (CCD 0)): was repaired, ffff -> fff0"]
diff:
  description:
    - The settings that were repaired, or would be, by address.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "L3 share of group draft, L3 domain 2: ffff -> fff0\n"
    changes:
      before: {"resctrl:draft/L3/2": "ffff"}
      after: {"resctrl:draft/L3/2": "fff0"}
"""

from functools import partial

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import requested
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.repair import MOST, ROLES, repair_drift
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import drift

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def repair_drift_of_host(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Repair the drift of the host, and return the module's result."""
    if params["most"] < 1:
        raise BadRequest(f"most: {params['most']} repairs of a setting are none: say at least 1.")
    check_host = partial(drift.check_settings_and_units, **requested.parse_asked_option(params))
    outcome = repair_drift(
        KernelFS(read_only=check), store, params["roles"], params["most"], check, check_host=check_host
    )
    return {
        "changed": bool(outcome.changes or (check and outcome.repaired)),
        "clean": outcome.is_clean,
        **outcome.to_dict(),
        "lines": outcome.format_outcome_lines(),
        "coverage": outcome.coverage,
        "diff": {
            "before": {change.address: change.before for change in outcome.changes},
            "after": {change.address: change.after for change in outcome.changes},
        },
    }


def main() -> None:
    spec = dict(
        roles=dict(type="list", elements="str", choices=list(ROLES), default=list(ROLES)),
        most=dict(type="int", default=MOST),
        asked=requested.REQUESTED_OPTION,
    )
    run_changing_module(spec, repair_drift_of_host, KNOBS)


if __name__ == "__main__":
    main()
