#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_restore
short_description: Put back everything that this collection ever changed on a host
version_added: 0.1.0
description:
  - Puts every setting back to what it was before the collection first wrote to it, and drops what was stored for the
    boot service.
  - Settings of an earlier boot need no restoring; the reboot did that. Boot parameters are put back in the
    configuration, and are in force again after the next reboot.
  - Each layer is put back whole or not at all, whatever becomes of the others. What cannot be reached now, as a setting
    of an offline CPU, stays remembered. The module fails then, when all else is put back, and names what is left.
    Running it again goes on with that.
  - A host on which nothing is left to put back keeps no file of the record.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
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
"""

RETURN = r"""
diff:
  description: What was put back, by address.
  returned: always
  type: dict
  sample:
    before: {"resctrl:mount": "no options"}
    after: {"resctrl:mount": null}
remarks:
  description: What meant nothing any more and was forgotten, and what cannot be known.
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
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.undo import undo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def write(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Restore, and return the module's result; raise Unrestored, with that result, when something is left."""
    host, ledger = host_and_ledger(store, check, without_originals=params["without_originals"])
    done = undo(host, ledger, check)
    result = dict(changed=bool(done.changes), diff=done.diff(), remarks=done.remarks)
    if done.left:
        raise Unrestored(done.sentence(), left=done.left, **result)
    return result


def main() -> None:
    run_writer(dict(without_originals=dict(type="bool", default=False)), write)


if __name__ == "__main__":
    main()
