#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_engine
short_description: Install the engine of this collection on a host, with its services
version_added: 0.1.0
description:
  - Installs the files that the modules work with, and the command C(sovereign-epyc), so that a host can check, apply
    and restore its settings on its own.
  - Enables the service C(sovereign-epyc.service), which makes every stored setting again at a boot. It is not started
    now, because the modules make the settings themselves.
  - Enables and starts the service C(sovereign-epyc-watch.service), which sends interrupts that come later where a
    stored request of M(sovereign.epyc.irq_affinity) wants them. It is restarted when the engine or its unit changed.
  - With O(textfile), also enables and starts the timer C(sovereign-epyc-check.timer), which has the host check itself.
  - All or nothing. When systemd refuses a unit, or does not have it enabled and active afterwards, the module fails
    with its words, and what was there before is there again.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  state:
    description:
      - Whether the engine and its services should be on the host. Newer or older ones are replaced.
      - V(absent) stops the services, removes them, the engine and O(textfile), and leaves the settings as they are.
    type: str
    choices: [present, absent]
    default: present
  textfile:
    description:
      - A file in the folder of the textfile collector of node_exporter, as a whole path with a name that ends with
        C(.prom). A timer has the host check itself and write its metrics there, which needs no controller.
      - Empty leaves a timer that is there alone; O(state=absent) removes it.
    type: str
    default: ""
  interval:
    description: How long the timer waits between two checks, in the notation of systemd.
    type: str
    default: 15min
notes:
  - Needs root, and a host that was booted with systemd.
"""

EXAMPLES = r"""
- name: Install the engine and its services
  sovereign.epyc.epyc_engine:

- name: Have the host check itself every hour, too
  sovereign.epyc.epyc_engine:
    textfile: /var/lib/prometheus/node-exporter/sovereign-epyc.prom
    interval: 1h

- name: Remove the engine and its services
  sovereign.epyc.epyc_engine:
    state: absent
"""

RETURN = r"""
diff:
  description:
    - What differed, by address. The value of a file is a digest, with its mode and owner where those are not as
      configured.
    - The value of C(UNIT/enabled) and C(UNIT/active) is systemd's word, such as V(disabled) or V(failed), or null where
      there is no such unit.
  returned: always
  type: dict
  sample:
    before: {"engine:/usr/sbin/sovereign-epyc": null, "engine:sovereign-epyc.service/enabled": "disabled"}
    after: {"engine:/usr/sbin/sovereign-epyc": "9f86d081884c7d65", "engine:sovereign-epyc.service/enabled": "enabled"}
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_plain
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.engine_units import INTERVAL, Engine


def main() -> None:
    run_plain(
        dict(
            state=dict(type="str", choices=["present", "absent"], default="present"),
            textfile=dict(type="str", default=""),
            interval=dict(type="str", default=INTERVAL),
        ),
        lambda params, host, ledger: [
            Engine(params["state"] == "present", params["textfile"], params["interval"], host.fs.root)
        ],
    )


if __name__ == "__main__":
    main()
