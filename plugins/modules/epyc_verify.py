#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_verify
short_description: Check a tuned host against its checklist
version_added: 1.0.0
description:
  - Compares the stored requests of the host with the running kernel, as M(sovereign.epyc.epyc_drift_info) does, and
    returns an item for each kind of setting.
  - Further items check whether the kernel has the expected nodes and threads, whether the CPUs of the plan are online,
    whether the kernel isolated the CPUs in its boot parameters, whether the boot service succeeded, and whether the
    threads of a service are on their CPUs.
  - Requests 64 tokens of every instance of M(sovereign.epyc.llama_server), and checks whether the instance serves and
    speculates, and whether its threads and its memory are where the plan has them. Its speed is only reported.
  - An item whose values could not be read is V(unknown) with the reason, which is not clean.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: [sovereign.epyc.attributes.reader, sovereign.epyc.asked]
options:
  nps:
    description: The NUMA nodes per socket to expect, as in M(sovereign.epyc.epyc_bios_check_info).
    type: int
    choices: [0, 1, 2, 4]
  smt:
    description: Whether to expect two threads on each core.
    type: bool
  cores:
    description: V(all) expects every core that the CPU's name promises, as in M(sovereign.epyc.epyc_bios_check_info).
    type: str
    choices: [all]
  memory_channels:
    description: V(all) expects a memory module on every channel of the CPU, as in
      M(sovereign.epyc.epyc_bios_check_info).
    type: str
    choices: [all]
  memory_speed:
    description: V(rated) expects modules to run at their rated speed, as in M(sovereign.epyc.epyc_bios_check_info).
    type: str
    choices: [rated]
  memory_bandwidth:
    description:
      - Whether a host is wrong that reads less than 0.6 of what its memory modules and CCDs allow, or whose modules
        allow less than 0.6 of what its CPU could read. With V(false) that is reported only.
      - M(sovereign.epyc.epyc_memory_speed) measures the bandwidth. One that was not measured is not judged.
    type: bool
    default: true
  layers:
    description:
      - Knobs that must have a stored request on the host, by the beginning of their addresses, such as V(resctrl) or
        V(cmdline). Without this option, a knob without a request counts as clean.
      - An unknown knob is refused.
    type: list
    elements: str
    default: []
  tuned:
    description:
      - Whether the host must be tuned. Then every finding of M(sovereign.epyc.epyc_drift_info) is an item. A host is
        not as configured if it has no stored requests, if a run of C(sovereign.epyc.site) did not end there, or if it
        lacks a layer or an instance of O(asked).
      - Without this option, only the stored requests of the host are judged, of which there may be none.
    type: bool
    default: false
  units:
    description:
      - Running services whose threads to check. A key is the name of a systemd unit, a value the CPUs on which its
        threads may run, such as V(verify), V(draft,housekeeping) or V(8-15). An empty value allows all CPUs.
      - On CPUs that C(isolcpus) takes out of load balancing, the threads must also be spread over the CPUs.
    type: dict
    default: {}
  services:
    description:
      - Whether to check the instances of M(sovereign.epyc.llama_server) against the plans in their units.
      - The request takes a slot, for 60 seconds at most, and the slot loses its cache of a conversation. The request
        waits while all slots are busy. An API key is read on the host, from the key file of the instance.
      - With V(false) and O(tuned), only the units of the instances are judged, and the item C(services) says that the
        instances were not checked.
    type: bool
    default: true
  allow_pending_reboot:
    description: Whether boot parameters may wait for a reboot.
    type: bool
    default: false
  before:
    description:
      - RV(boot) of a run before a reboot of the host. Then RV(failed_reboot) says whether the reboot had an effect.
    type: dict
"""

EXAMPLES = r"""
- name: Check the host against its checklist
  sovereign.epyc.epyc_verify:
    nps: 4
    smt: false
    units:
      llama-server.service: verify
  register: verified

- name: Fail if the host is not as configured
  ansible.builtin.assert:
    that: verified.clean
    fail_msg: "{{ verified.complaints | join(' ') }}"
"""

RETURN = r"""
clean:
  description: Whether no item is wrong, unknown or unsupported.
  returned: always
  type: bool
checklist:
  description: The checklist.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: >-
        The subject of the item, such as C(resctrl), C(boot_service) or C(threads/llama-server.service). C(run),
        C(stored) and C(units) are findings on a run that did not end, on stored documents, and on units. An instance
        chat has the items C(service/chat), C(speculation/chat), C(placement/chat), C(placement/chat-rpc) for the
        process that drafts on a CCD of its own, C(jitter/chat) and C(speed/chat), and C(scheduling/chat) where the
        kernel has cache-aware scheduling switched on. M(sovereign.epyc.llama_rpc_worker)
        has C(service/rpc-worker) and C(placement/rpc-worker).
      type: str
    title:
      description: The name of the item for people.
      type: str
    verdict:
      description: >-
        V(ok), V(wrong), V(unknown), V(unsupported) where this host cannot have the requested setting, V(not asked for),
        V(pending) with O(allow_pending_reboot), or V(not looked at) with O(services=false).
      type: str
    expected:
      description: The expected value, if the item has a single value.
      type: str
    found:
      description: The found value, if the item has a single value.
      type: str
    sentence:
      description: The present state, and what to do if it is not as configured.
      type: str
complaints:
  description: A line for each item that is wrong, unknown or unsupported.
  returned: always
  type: list
  elements: str
text:
  description: The checklist as a page.
  returned: always
  type: str
services:
  description: The measurements of each instance, by its name. A value that was not measured is null.
  returned: always
  type: dict
  contains:
    drafts:
      description: The number of verified drafts.
      type: int
    drafted:
      description: The number of tokens in the drafts.
      type: int
    accepted:
      description: The number of tokens in the drafts that were accepted.
      type: int
    acceptance:
      description: The share of the tokens in the drafts that was accepted.
      type: float
    tokens_per_second:
      description: The speed with a text that repeats itself. Other texts have a lower acceptance.
      type: float
    locality:
      description: >-
        By node, the share of the mapped weights on the node; without mapped weights, the share of anonymous memory.
      type: dict
      sample: {"0": 0.5, "1": 0.5}
    jitter:
      description: >-
        Interruptions of its threads during the request, as RV(sovereign.epyc.service_placement_info#module:noise).
      type: dict
pending_reboot:
  description: >-
    Sentences on the boot parameters that wait for a reboot, and on those that M(sovereign.epyc.epyc_restore) put back
    and the running kernel still has.
  returned: always
  type: list
  elements: str
boot:
  description: The running boot, as O(before) of a later run takes it.
  returned: always
  type: dict
boot_id:
  description: The id of the running boot.
  returned: always
  type: str
failed_reboot:
  description: With O(before), sentences on why the reboot had no effect.
  returned: always
  type: list
  elements: str
boot_service:
  description: >-
    The state of the boot service. V(done), V(idle) if it did not have to run yet, V(starting), V(failed), V(missed) if
    it did not run at this boot, V(missing) if it is not installed or not enabled, or null if systemd does not answer.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import judge, requested, words
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.survey import Survey
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import drift
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import instance_items
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import (
    boot_service,
    checklist,
    checklist_items,
    pending_reboot,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.check import expected_values_from_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def verify_host(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Check settings, instances and reboots of the host, and return the checklist as the module's result."""
    boot_run = boot_service.read_boot_service_state(fs)
    survey = _check_drift(params, fs)
    expected = checklist.Checklist(
        bios=expected_values_from_options(params),
        layers=params["layers"],
        units={unit: str(cpus or "") for unit, cpus in params["units"].items()},
        allow_pending_reboot=params["allow_pending_reboot"],
        tuned=params["tuned"],
        services=params["services"],
        memory_bandwidth=params["memory_bandwidth"],
    )
    items = expected.check_host(survey, boot_run)
    more, services = instance_items.check_all_instances(survey.host) if params["services"] else ([], {})
    items += more
    boot = pending_reboot.read_boot_id_and_parameters(fs, survey.verdicts)
    counted = [words.settings_checked_message(survey.count_by_status())] if params["tuned"] else []
    return {
        "clean": all(item.is_clean for item in items),
        "checklist": [item.to_dict() for item in items],
        "complaints": checklist_items.messages_of_unclean_items(items),
        "text": "\n".join([checklist_items.render_checklist(items), *counted]),
        "services": services,
        "pending_reboot": pending_reboot.waits_for_reboot_messages(fs, survey.verdicts),
        "boot": boot,
        "boot_id": boot["id"],
        "failed_reboot": pending_reboot.ineffective_reboot_reasons(params["before"], boot) if params["before"] else [],
        "boot_service": next(item.found for item in items if item.name == "boot_service"),
    }


def _check_drift(params: dict[str, Any], fs: KernelFS) -> Survey:
    """Return the drift check of the host. Without ``tuned`` it covers the stored requests only, even during a trial."""
    if params["tuned"]:
        return drift.check_settings_and_units(fs, **requested.parse_asked_option(params))
    store = Store(read_only=True)
    intent, requests = load_stored_requests(store)
    host = Host(fs, intent, stored=True)
    return Survey(
        host,
        [*judge.judge_requests(host, store, requests), *judge.judge_roles_with_offline_cpus(host)],
        judge.boot_service_ineffective_reason(host),
    )


def main() -> None:
    spec = dict(
        nps=dict(type="int", choices=[0, 1, 2, 4]),
        smt=dict(type="bool"),
        cores=dict(type="str", choices=["all"]),
        memory_channels=dict(type="str", choices=["all"]),
        memory_speed=dict(type="str", choices=["rated"]),
        memory_bandwidth=dict(type="bool", default=True),
        layers=dict(type="list", elements="str", default=[]),
        units=dict(type="dict", default={}),
        services=dict(type="bool", default=True),
        allow_pending_reboot=dict(type="bool", default=False),
        tuned=dict(type="bool", default=False),
        asked=requested.REQUESTED_OPTION,
        before=dict(type="dict"),
    )
    run_read_only_module(spec, verify_host)


if __name__ == "__main__":
    main()
