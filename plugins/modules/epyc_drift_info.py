#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_drift_info
short_description: Compare every setting of a host with what is configured
version_added: 1.0.0
description:
  - Checks all settings of a host in a single run. Returns for each setting whether it is in force now, whether it will
    be in force after a boot, and whether it waits for a reboot.
  - Checks the units of llama.cpp too, as the layer V(llama). Each has to be as M(sovereign.epyc.llama_server) wrote it,
    without drop-ins. It has to run now and after a boot, with the program and the model that are on the host now.
  - A layer or an instance of O(asked) that is missing on the host is drift. A run of C(sovereign.epyc.site) that began
    and did not end is drift, too, and the first finding.
  - A setting that could not be read is V(unknown), with the reason. A host without stored requests is V(unknown), too.
  - The module needs no inventory. P(sovereign.epyc.drift#callback) makes a report of a fleet from the results.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: [sovereign.epyc.attributes.reader, sovereign.epyc.asked]
options:
  requests:
    description:
      - The requests to check. A key is the short name of a knob and a label, as C(resctrl/resctrl); a value holds
        the options of the knob's module.
      - Without this option, the stored requests of the host are checked.
    type: dict
  intent:
    description:
      - The intent of the plan. Without this option, the stored intent of the host is used.
      - An intent that differs from the stored one is drift too, because the boot service plans with the stored one.
    type: dict
  detail:
    description:
      - V(settings) returns RV(settings) too, which has hundreds of entries on a large host; V(findings) leaves it out.
    type: str
    choices: [settings, findings]
    default: settings
"""

EXAMPLES = r"""
- name: Check all stored requests of the host
  sovereign.epyc.epyc_drift_info:
  register: drift

- name: Check against the intent of the inventory, and fail on drift
  sovereign.epyc.epyc_drift_info:
    intent: {draft: "{{ epyc_plan_draft }}", verify: "{{ epyc_plan_verify }}"}
    detail: findings
  register: drift
  failed_when: not drift.clean
"""

RETURN = r"""
clean:
  description: Whether every setting is as configured, now and at boot, and no setting is unknown.
  returned: always
  type: bool
findings:
  description:
    - The settings that are not as configured, in words for people. Settings that differ in the same way are one
      finding, and so is a boot service that is not enabled.
  returned: always
  type: list
  elements: dict
  contains:
    layer:
      description: >-
        The layer, such as V(resctrl); V(boot) has the boot service and the documents that are stored for it; V(run) is
        a run of C(sovereign.epyc.site) that did not end.
      type: str
    what:
      description: The name of the setting.
      type: str
      sample: L3 share of group draft
    where:
      description: The place of the setting on the host.
      type: str
      sample: L3 domains 6-7 (CCD 3)
    status:
      description: V(drift), V(unknown), or V(unsupported) where this host cannot have the requested setting.
      type: str
    wanted:
      description: The value it must have.
      type: str
    found:
      description: The value in force.
      type: str
    at_boot:
      description: The value after a boot.
      type: str
    live:
      description: As in RV(settings[].live).
      type: str
    persistent:
      description: As in RV(settings[].persistent).
      type: str
    pending_reboot:
      description: As in RV(settings[].pending_reboot).
      type: bool
    reason:
      description: As in RV(settings[].reason).
      type: str
    request:
      description: The request that sets the settings.
      type: str
    role:
      description: The role of this collection that stored the request, empty for a request of another task.
      type: str
    variables:
      description: The variables of the inventory that decide on the settings.
      type: list
      elements: str
    repair:
      description: The playbook with its options that repairs the finding, or a command for the host.
      type: str
      sample: sovereign.epyc.site --tags cat
    addresses:
      description: The addresses of the settings.
      type: list
      elements: str
coverage:
  description: >-
    By layer, the numbers of settings that are V(ok), V(drift), V(unknown), and V(unsupported). A layer without a
    request is left out.
  returned: always
  type: dict
  sample: {resctrl: {ok: 40, unsupported: 0, unknown: 0, drift: 2}}
lines:
  description: A line for each finding, with the next step, and a line that counts settings.
  returned: always
  type: list
  elements: str
  sample: ["L3 share of group draft, L3 domain 0 (CCD 0): found ffff, wanted fff0. Run site.yml --tags cat."]
site_version:
  description: >-
    The version of the collection of the newest run of C(sovereign.epyc.site) on the host. Empty without such a run,
    and after everything was put back.
  returned: always
  type: str
  sample: 1.0.0
map:
  description: >-
    The map of the host, as M(sovereign.epyc.epyc_plan) returns it, without instances. Null for a host without a plan.
  returned: when something is not as configured
  type: dict
settings:
  description: One entry per address.
  returned: when O(detail=settings)
  type: list
  elements: dict
  contains:
    address:
      description: The address of the setting.
      type: str
    wanted:
      description: The value it must have.
      type: str
    found:
      description: The value in force.
      type: str
    at_boot:
      description: The value after a boot.
      type: str
    live:
      description: V(ok), V(drift) or V(unknown), for the running kernel.
      type: str
    persistent:
      description: V(ok), V(drift) or V(unknown), for the next boot.
      type: str
    pending_reboot:
      description: Whether the setting is configured and waits for a reboot.
      type: bool
    reason:
      description: Why a verdict is not V(ok).
      type: str
    request:
      description: The request that sets the setting.
      type: str
    supported:
      description: Whether this host can have the requested setting.
      type: bool
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import requested, words
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host import map_data
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history import history_file
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import drift

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def check_drift(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Compare the settings of the host with what is requested, and return the findings as the module's result."""
    survey = drift.check_settings_and_units(
        fs, params["requests"], params["intent"], **requested.parse_asked_option(params)
    )
    findings = [finding.to_dict() for finding in survey.list_findings()]
    result = {
        "clean": survey.is_clean,
        "findings": findings,
        "coverage": survey.count_by_layer(),
        "lines": [
            *map(words.format_finding_with_step, findings),
            words.settings_checked_message(survey.count_by_status()),
        ],
        "site_version": history_file.load_newest_site_version(Store(fs.root, read_only=True)),
    }
    if not survey.is_clean:
        result["map"] = _build_map(survey.host)
    if params["detail"] == "settings":
        result["settings"] = [verdict.to_dict() for verdict in survey.verdicts]
    return result


def _build_map(host: Host) -> dict[str, Any] | None:
    try:
        return map_data.build_map_data(host.plan, host.topology)
    except TuningError:
        return None  # Where the plan is impossible, findings have the reason.


def main() -> None:
    detail = dict(type="str", choices=["settings", "findings"], default="settings")
    asked = requested.REQUESTED_OPTION
    run_read_only_module(
        dict(requests=dict(type="dict"), intent=dict(type="dict"), detail=detail, asked=asked), check_drift
    )


if __name__ == "__main__":
    main()
