#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_restore
short_description: Put back everything that this collection changed on a host, or what some layers changed
version_added: 0.1.0
description:
  - Puts every setting back to what it was before the collection first wrote to it, and drops what was stored for the
    boot service.
  - Settings of an earlier boot need no restoring; the reboot did that. Boot parameters are put back in the
    configuration, and are in force again after the next reboot.
  - Each layer is put back whole or not at all, whatever becomes of the others. What cannot be reached now, as a setting
    of an offline CPU, stays remembered. The module fails then, when all else is put back, and names what is left.
    Running it again goes on with that.
  - A host on which nothing is left to put back keeps no file of the record but the history of what was done there,
    which M(sovereign.epyc.epyc_history) can drop.
  - With O(layers), exactly the settings of these layers are put back, and what they stored for the boot service is
    dropped. Other layers, their stored requests, the host tool and its services stay. Afterwards C(site.yml) looks at
    the whole host again.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  layers:
    description:
      - The layers of C(site.yml) to undo, of V(numa), V(irq), V(cat), V(cpufreq), V(cpuidle), V(prefetch) and
        V(grub_params). Without it, everything is put back. An empty list and an unknown layer are refused.
      - A setting that the stored request of somebody's own task asks for, with another label than those of our roles,
        is of no layer, and stays.
      - Refused where an instance of M(sovereign.epyc.llama_server) has its memory in pools of huge pages that such a
        layer made, and while an ablation or a tuning goes on.
    type: list
    elements: str
  instances_leave:
    description:
      - With O(layers), whether instances of M(sovereign.epyc.llama_server) are removed beforehand, so that what they
        were planned with is no reason to refuse. For looks in check mode, where they are still there.
    type: bool
    default: false
  without_originals:
    description:
      - Go on where both files of the record of originals are damaged or gone, which is refused otherwise. What bears
        our mark is taken back, such as groups of resctrl and boot parameters in our file; RV(remarks) names the rest.
      - Damaged files are kept beside, with C(.damaged) at the end of their names.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Put everything back
  sovereign.epyc.epyc_restore:

- name: Put back what two layers changed, and keep all else
  sovereign.epyc.epyc_restore:
    layers: [cat, irq]
"""

RETURN = r"""
diff:
  description:
    - What was put back, by address.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "mount of resctrl: no options -> nothing\n"
    changes:
      before: {"resctrl:mount": "no options"}
      after: {"resctrl:mount": null}
summary:
  description: What was put back, or would be, and what to do next, in sentences.
  returned: always
  type: str
  sample: "Put back: 18 settings of L3 partition, 1 stored request dropped."
pending:
  description: The boot parameters that were put back and that the running kernel has until the next reboot.
  returned: always
  type: list
  elements: str
reboot_required:
  description: Whether there are such.
  returned: always
  type: bool
remarks:
  description: >-
    What meant nothing any more and was forgotten, what cannot be known, and what running instances lose with O(layers).
  returned: always
  type: list
  elements: str
left:
  description: What could not be put back, with the reason.
  returned: failure
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Unrestored
from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import host_and_ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.layers import require_layers
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.undo import undo_changes
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.dependents import require_undo_possible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def write(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Restore, and return the module's result; raise Unrestored, with that result, when something is left."""
    layers = [] if params["layers"] is None else require_layers(params["layers"])
    host, ledger = host_and_ledger(store, check, without_originals=params["without_originals"])
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
        raise Unrestored(done.left_message(), left=done.left, **result)
    return result


def main() -> None:
    spec = dict(
        layers=dict(type="list", elements="str"),
        instances_leave=dict(type="bool", default=False),
        without_originals=dict(type="bool", default=False),
    )
    run_writer(spec, write, KNOBS)


if __name__ == "__main__":
    main()
