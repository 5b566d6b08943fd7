#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_history
short_description: Read or write the history of a host, a line for each run that changed settings
version_added: 1.0.0
description:
  - Reads the runs of this collection that changed a host, each with its time, user, controller, and the number of
    changed settings by layer.
  - The playbook C(sovereign.epyc.site) writes its beginning before its first change, and its end. A run that failed or
    was killed has no end. Modules count the settings that they change in the line of the run.
  - An undo, a repair, and a boot that had to put settings in force have lines too. A run without changes has no line.
  - The newest 500 runs are kept, of boots and of repairs 100 each, and at most 256 KiB. An undo removes no line.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
attributes:
  diff_mode:
    support: none
    details: Only the file of the history differs on the host.
options:
  state:
    description:
      - V(read) returns the history, and changes nothing.
      - V(begun) writes the beginning of a run, and V(ended) its end. Neither counts as a change.
      - V(absent) removes all runs except the newest run of C(sovereign.epyc.site) and runs that did not end. These runs
        have the requested layers, so they stay until all settings are put back.
    type: str
    choices: [read, begun, ended, absent]
    default: read
  layers:
    description: The layers that the run applies. Only with O(state=begun).
    type: list
    elements: str
    default: []
  requested:
    description: The layers that the inventory requests, including layers that tags leave out. Only with O(state=begun).
    type: list
    elements: str
    default: []
  run:
    description: The RV(run) that ends. Required with O(state=ended).
    type: str
notes:
  - Needs root.
  - Only the controller knows the user who runs a playbook. E(SOVEREIGN_EPYC_ORIGIN) passes this user to the host; its
    value is the result of P(sovereign.epyc.run_origin#lookup).
  - Modules count their changes in the run that E(SOVEREIGN_EPYC_RUN) of their environment names.
seealso:
  - plugin: sovereign.epyc.run_origin
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Read the history of the host
  sovereign.epyc.epyc_history:
  become: true

- name: Show a line for each run
  ansible.builtin.debug:
    msg: "{{ ansible_facts.epyc_history | map(attribute='playbook') }}"

- name: Remove the runs of a host that gets a new owner
  sovereign.epyc.epyc_history:
    state: absent
  become: true
"""

RETURN = r"""
ansible_facts:
  description: The fact C(epyc_history).
  returned: with O(state=read)
  type: dict
  contains:
    epyc_history:
      description:
        - The runs, the oldest first. Times are in UTC. A run without C(ended) did not end, and C(left) has the layers
          that neither this run nor a later run has applied.
        - C(kind) is V(site), V(restore), V(repair) or V(boot). C(user) and C(controller) are empty for a command that
          was started on the host itself. C(host_user) is the user on the host.
        - C(changed) has the number of changed settings by layer.
      type: list
      elements: dict
      sample:
        - id: 2026-11-29T09:10:03Z-5f0c2a91
          kind: site
          began: "2026-11-29T09:10:03Z"
          ended: "2026-11-29T09:11:40Z"
          user: ops
          host_user: deploy
          controller: ctl
          version: 1.0.0
          playbook: site.yml
          outcome: done
          tags: []
          skip_tags: []
          layers: [base, numa, cat]
          requested: [base, numa, cat]
          left: []
          changed: {base: 12, numa: 3, cat: 9}
lines:
  description: The history as text, a line for each run.
  returned: with O(state=read)
  type: list
  elements: str
unfinished:
  description: A sentence on the newest run that did not end, empty where all have ended.
  returned: with O(state=read)
  type: str
  sample: ""
remarks:
  description: Sentences on damage in the file, and on runs that could not be written. Each is a warning too.
  returned: always
  type: list
  elements: str
run:
  description: The id of the run that has begun.
  returned: with O(state=begun), and not in check mode
  type: str
  sample: 2026-11-29T09:10:03Z-5f0c2a91
changes:
  description: The number of settings that the run has changed, by layer.
  returned: with O(state=ended), and not in check mode
  type: dict
  sample: {base: 12, numa: 3, cat: 9}
forgotten:
  description: The number of runs that were removed, or would be.
  returned: with O(state=absent)
  type: int
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history import history_file, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


SPEC = dict(
    state=dict(type="str", choices=["read", "begun", "ended", "absent"], default="read"),
    layers=dict(type="list", elements="str", default=[]),
    requested=dict(type="list", elements="str", default=[]),
    run=dict(type="str"),
)


def read_or_write_history(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Read or write the history, and return the module's result."""
    state = params["state"]
    if state == "read":
        return _read_history(store)
    if state == "absent":
        forgotten = history_file.remove_needless_runs(store, check)
        return dict(changed=forgotten > 0, forgotten=forgotten, remarks=[])
    if check:
        return dict(changed=False, remarks=[])
    if state == "begun":
        run = history_file.begin_run(store, params["layers"], params["requested"])
        return dict(changed=False, remarks=[], run=run.id)
    changes, remark = history_file.end_run(store, params["run"])
    return dict(changed=False, changes=changes, remarks=[remark] if remark else [])


def _read_history(store: Store) -> dict[str, Any]:
    """Return the history as the result of the module."""
    history = history_file.History(store)
    unfinished = history.newest_unfinished_run()
    return dict(
        changed=False,
        ansible_facts=dict(epyc_history=[run.to_dict() for run in history.notable_runs()]),
        lines=table.render_table(history.notable_runs()),
        unfinished=unfinished.unfinished_message() if unfinished else "",
        remarks=history.damage,
    )


def main() -> None:
    run_changing_module(SPEC, read_or_write_history, required_if=[("state", "ended", ("run",))])


if __name__ == "__main__":
    main()
