#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_restore
short_description: Put back all settings that this collection changed on a host, or those of some layers
version_added: 1.0.0
description:
  - Gives every setting the value from before the collection first wrote to it, and drops the requests that are stored
    for the boot service.
  - Settings of an earlier boot need no restoring, because the reboot reset them. Boot parameters are put back in the
    configuration, and are in force again after the next reboot.
  - Each layer is put back whole or not at all, independently of other layers. The original of a setting that cannot be
    reached now, such as a setting of an offline CPU, stays stored. Then the module puts back all other settings, fails,
    and names the settings that are left. Another run puts these back.
  - When all settings are put back, no file of the collection's state stays on the host except the history, which
    M(sovereign.epyc.epyc_history) can drop.
  - With O(layers), exactly the settings of these layers are put back, and their stored requests are dropped. Other
    layers, their stored requests, the host tool and its services stay. The next run of C(site.yml) checks the whole
    host again.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  layers:
    description:
      - The layers of C(site.yml) to undo, of V(numa), V(irq), V(cat), V(cpufreq), V(cpuidle), V(prefetch) and
        V(grub_params). Without it, everything is put back. An empty list and an unknown layer are refused.
      - A setting of a task outside this collection's roles, whose stored request has a label of its own, belongs to no
        layer, and stays.
      - The module refuses to undo layers while an ablation or a tuning goes on, or where an instance of
        M(sovereign.epyc.llama_server) has its memory in pools of huge pages of such a layer.
    type: list
    elements: str
  instances_leave:
    description:
      - Whether the caller removes the instances of M(sovereign.epyc.llama_server) before the layers in O(layers), so
        that instances are no reason to refuse. This matters in check mode, in which the instances still exist.
    type: bool
    default: false
  without_originals:
    description:
      - Whether to go on if both files of the record of originals are damaged or missing, which is refused otherwise.
        Then settings with a mark of this collection are removed, such as groups of resctrl and the file with boot
        parameters. RV(remarks) names all other settings.
      - Damaged files are renamed to end with C(.damaged).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Put everything back
  sovereign.epyc.epyc_restore:

- name: Put back the settings of two layers, and keep all other settings
  sovereign.epyc.epyc_restore:
    layers: [cat, irq]
"""

RETURN = r"""
diff:
  description:
    - The settings that were put back, or would be, by address.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "mount of resctrl: no options -> nothing\n"
    changes:
      before: {"resctrl:mount": "no options"}
      after: {"resctrl:mount": null}
summary:
  description: Sentences on the settings that were put back, or would be, and on the next step.
  returned: always
  type: str
  sample: "Put back: 18 settings of L3 partition, 1 stored request dropped."
pending:
  description: The boot parameters that were put back and that the running kernel has until the next reboot.
  returned: always
  type: list
  elements: str
reboot_required:
  description: Whether RV(pending) has boot parameters.
  returned: always
  type: bool
remarks:
  description: >-
    Sentences on obsolete originals that were dropped, on settings that are unknown, and on losses of running instances
    with O(layers).
  returned: always
  type: list
  elements: str
left:
  description: The settings that could not be put back, each with the reason.
  returned: failure
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Unrestored
from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import make_host_and_ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.layers import validate_layer_names
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.undo import undo_changes
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.dependents import require_undo_possible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def restore_host(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Put settings back, and return the module's result; raises Unrestored with that result if settings are left."""
    layers = [] if params["layers"] is None else validate_layer_names(params["layers"])
    host, ledger = make_host_and_ledger(store, check, without_originals=params["without_originals"])
    instances_stay = layers and not params["instances_leave"]
    losses = require_undo_possible(layers, ledger.load_originals(), host.fs.root) if instances_stay else []
    done = undo_changes(host, ledger, check, layers)
    result = dict(
        changed=bool(done.changes),
        diff=done.to_diff(),
        summary=done.summary_message(layers, check),
        pending=done.pending,
        reboot_required=bool(done.pending),
        remarks=[*losses, *done.remarks],
    )
    if done.left:
        raise Unrestored(done.unrestored_message(), left=done.left, **result)
    return result


def main() -> None:
    spec = dict(
        layers=dict(type="list", elements="str"),
        instances_leave=dict(type="bool", default=False),
        without_originals=dict(type="bool", default=False),
    )
    run_changing_module(spec, restore_host, KNOBS)


if __name__ == "__main__":
    main()
