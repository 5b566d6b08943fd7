#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_drift
short_description: Hold every setting of a host against what it shall be
version_added: 0.1.0
description:
  - Checks all settings in one run and says for each of them whether it is in force now, whether it will be after a
    boot, and whether a reboot is pending.
  - What could not be read is V(unknown) with the reason, never fine.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  requests:
    description:
      - What the host shall have. A key is the short name of a knob and a label, as C(resctrl/resctrl); a value holds
        the options of its module.
      - Without it, the requests that are stored on the host.
    type: dict
  intent:
    description: What the operator wants of the host. Without it, the intent that is stored there.
    type: dict
"""

EXAMPLES = r"""
- name: Check all that is stored on the host
  sovereign.epyc.epyc_drift:
  register: drift

- name: Fail on drift
  ansible.builtin.assert:
    that: drift.clean
"""

RETURN = r"""
clean:
  description: Whether every setting is as it shall be, now and at boot, and none is unknown.
  returned: always
  type: bool
settings:
  description: One entry per address.
  returned: always
  type: list
  elements: dict
  contains:
    address:
      description: The address of the setting.
      type: str
    wanted:
      description: The value it shall have.
      type: str
    found:
      description: The value in force.
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
      description: The request that wants the setting.
      type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._desired import stored
from ansible_collections.sovereign.epyc.plugins.module_utils._host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._verdict import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._kernelfs import KernelFS


def read(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the verdicts as the module's result."""
    store = Store(read_only=True)
    intent, requests = stored(store)
    host = Host(fs, intent if params["intent"] is None else params["intent"])
    verdicts = survey(host, store, requests if params["requests"] is None else params["requests"])
    return {
        "clean": all(verdict.clean for verdict in verdicts),
        "settings": [verdict.to_dict() for verdict in verdicts],
    }


def main() -> None:
    run_reader(dict(requests=dict(type="dict"), intent=dict(type="dict")), read)


if __name__ == "__main__":
    main()
