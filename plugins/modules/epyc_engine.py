#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_engine
short_description: Install the engine of this collection on a host
version_added: 0.1.0
description:
  - Installs the files that the modules work with, and the command C(sovereign-epyc), so that a host can check, apply
    and restore its settings on its own and at every boot.
  - The role P(sovereign.epyc.base#role) uses this module and adds the boot service.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  state:
    description: Whether the engine shall be on the host. A newer or older one is replaced.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Install the engine
  sovereign.epyc.epyc_engine:
"""

RETURN = r"""
diff:
  description: What differed, by file, as digests.
  returned: always
  type: dict
  sample:
    before: {"engine:/usr/sbin/sovereign-epyc": null}
    after: {"engine:/usr/sbin/sovereign-epyc": "9f86d081884c7d65"}
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_plain
from ansible_collections.sovereign.epyc.plugins.module_utils._engine import EngineFiles


def main() -> None:
    run_plain(
        dict(state=dict(type="str", choices=["present", "absent"], default="present")),
        lambda params, host, ledger: [EngineFiles(params["state"] == "present")],
    )


if __name__ == "__main__":
    main()
