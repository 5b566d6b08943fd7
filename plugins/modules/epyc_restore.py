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
  - What cannot be reached now, as a setting of an offline CPU, stays remembered and is named in RV(remarks).
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
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
  description: What could not be put back, with the reason.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_plain
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import all_originals


def main() -> None:
    run_plain(
        {},
        lambda params, host, ledger: all_originals(host, ledger),
    )


if __name__ == "__main__":
    main()
