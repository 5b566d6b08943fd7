#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_verify
short_description: Go through the checklist of a tuned host
version_added: 0.1.0
description:
  - Compares the settings that are stored on the host with what the kernel shows now, as
    M(sovereign.epyc.epyc_drift_info) does, and sums them up in one item for each kind of setting.
  - Adds items that no single setting shows. Does the kernel have the expected nodes and threads, are the CPUs of the
    plan online, did the kernel isolate the CPUs of its parameters, did the boot service succeed, are the threads of a
    service on their CPUs?
  - Requests 64 tokens of every instance of M(sovereign.epyc.llama_server), and observes it meanwhile. Does it serve,
    does it speculate, are its threads and its memory where they were planned? Its speed is reported and not judged.
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
  layers:
    description:
      - Knobs that must have a stored request on the host, by the name that their addresses begin with, such as
        V(resctrl) or V(cmdline). Otherwise nobody notices a layer that never ran.
      - An unknown layer is refused.
    type: list
    elements: str
    default: []
  tuned:
    description:
      - Whether the host must be tuned. Every finding of M(sovereign.epyc.epyc_drift_info) is an item then. A host on
        which nothing is stored is not as configured, and neither is one on which a run of C(sovereign.epyc.site) did
        not end, or which lacks something of O(asked).
      - Without it, only what is stored on the host is judged, which may be nothing.
    type: bool
    default: false
  units:
    description:
      - Running services whose threads to check. A key is the name of a systemd unit, a value the CPUs that its
        threads must keep to, such as V(verify), V(draft,housekeeping) or V(8-15). An empty value allows any.
      - On CPUs that C(isolcpus) takes out of load balancing, the threads must be spread too.
    type: dict
    default: {}
  services:
    description:
      - Whether to check the instances of M(sovereign.epyc.llama_server). The plan in the unit of each says what is
        expected of it.
      - The request takes a slot, for 60 seconds at most, and what that slot has cached of a conversation is lost. It
        waits when all slots are busy. A key is read on the host, from the file that the instance was given.
      - With V(false) and O(tuned), only the units of the instances are judged, and the item C(services) says that the
        instances were not checked.
    type: bool
    default: true
  allow_pending_reboot:
    description: Whether boot parameters that wait for a reboot are fine.
    type: bool
    default: false
  before:
    description:
      - RV(boot) of a run before a reboot of the host. RV(failed_reboot) then says whether that reboot had an effect.
    type: dict
"""

EXAMPLES = r"""
- name: Go through the checklist
  sovereign.epyc.epyc_verify:
    nps: 4
    smt: false
    units:
      llama-server.service: verify
  register: verified

- name: Fail when something is not as configured
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
        What it is about, such as C(resctrl), C(boot_service) or C(threads/llama-server.service); C(run), C(stored) and
        C(units) are findings on a run that did not end, on what is stored, and on units; of an instance called
        chat C(service/chat), C(speculation/chat), C(placement/chat), C(placement/chat-rpc) for the process that drafts
        on a CCD of its own, C(jitter/chat) and C(speed/chat); of M(sovereign.epyc.llama_rpc_worker)
        C(service/rpc-worker) and C(placement/rpc-worker).
      type: str
    title:
      description: Its name for people.
      type: str
    verdict:
      description: >-
        V(ok), V(wrong), V(unknown), V(unsupported) where this host cannot have what is asked, V(unasked), or V(pending)
        with O(allow_pending_reboot), or V(not looked at) with O(services=false).
      type: str
    expected:
      description: What is expected, where that is one value.
      type: str
    found:
      description: What was found, where that is one value.
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
  description: What was measured of each instance, by its name. What was not is null.
  returned: always
  type: dict
  contains:
    drafts:
      description: How many drafts were verified.
      type: int
    drafted:
      description: How many tokens were in them.
      type: int
    accepted:
      description: How many of these were right.
      type: int
    acceptance:
      description: The share of them that was right.
      type: float
    tokens_per_second:
      description: The speed with this text, which repeats itself. Others are guessed less well.
      type: float
    locality:
      description: >-
        By node, the share of the mapped weights that lies there; where none are mapped, of the anonymous memory.
      type: dict
      sample: {"0": 0.5, "1": 0.5}
    jitter:
      description: What came between its threads meanwhile, as RV(sovereign.epyc.service_placement_info#module:noise).
      type: dict
pending_reboot:
  description: >-
    The boot parameters that are configured and wait for a reboot, and those that M(sovereign.epyc.epyc_restore) put
    back and the running kernel still has, as sentences.
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
  description: With O(before), why the reboot after it had no effect, as sentences.
  returned: always
  type: list
  elements: str
boot_service:
  description: >-
    How the boot service is. V(done), V(idle) when it did not have to run yet, V(starting), V(failed), V(missed) when it
    did not run at this boot, V(missing) when it is not installed or not enabled, or null where systemd does not answer.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
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
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.check import expected_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def check_host(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the module's result."""
    boot_run = boot_service.read_boot_service_state(fs)
    survey = _survey_host(params, fs)
    expected = checklist.Checklist(
        bios=expected_values(params),
        layers=params["layers"],
        units={unit: str(cpus or "") for unit, cpus in params["units"].items()},
        allow_pending_reboot=params["allow_pending_reboot"],
        tuned=params["tuned"],
        services=params["services"],
    )
    items = expected.check_host(survey, boot_run)
    more, services = instance_items.check_instances(survey.host) if params["services"] else ([], {})
    items += more
    boot = pending_reboot.read_boot(fs, survey.verdicts)
    counted = [words.settings_checked_message(survey.count_by_status())] if params["tuned"] else []
    return {
        "clean": all(item.is_clean for item in items),
        "checklist": [item.to_dict() for item in items],
        "complaints": checklist_items.complaint_messages(items),
        "text": "\n".join([checklist_items.render_checklist(items), *counted]),
        "services": services,
        "pending_reboot": pending_reboot.pending_messages(fs, survey.verdicts),
        "boot": boot,
        "boot_id": boot["id"],
        "failed_reboot": pending_reboot.failed_reboot_reasons(params["before"], boot) if params["before"] else [],
        "boot_service": next(item.found for item in items if item.name == "boot_service"),
    }


def _survey_host(params: dict[str, Any], fs: KernelFS) -> Survey:
    """Compare settings with the kernel; without ``tuned`` only the stored ones, even while a trial runs."""
    if params["tuned"]:
        return drift.check_host(fs, **requested.parse_requested_option(params))
    store = Store(read_only=True)
    intent, requests = load_stored_requests(store)
    host = Host(fs, intent, stored=True)
    return Survey(
        host,
        [*judge.judge_requests(host, store, requests), *judge.judge_offline_roles(host)],
        judge.not_applied_at_boot_reason(host),
    )


def main() -> None:
    spec = dict(
        nps=dict(type="int", choices=[0, 1, 2, 4]),
        smt=dict(type="bool"),
        cores=dict(type="str", choices=["all"]),
        memory_channels=dict(type="str", choices=["all"]),
        memory_speed=dict(type="str", choices=["rated"]),
        layers=dict(type="list", elements="str", default=[]),
        units=dict(type="dict", default={}),
        services=dict(type="bool", default=True),
        allow_pending_reboot=dict(type="bool", default=False),
        tuned=dict(type="bool", default=False),
        asked=requested.REQUESTED_OPTION,
        before=dict(type="dict"),
    )
    run_reader(spec, check_host)


if __name__ == "__main__":
    main()
