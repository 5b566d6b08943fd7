#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_host_tool
short_description: Install the host tool of this collection, the command sovereign-epyc, with its services
version_added: 0.1.0
description:
  - Installs the files that the modules work with, and the command C(sovereign-epyc), so that a host can check, apply
    and restore its settings on its own.
  - Enables the service C(sovereign-epyc.service), which makes every stored setting again at a boot. It is not started
    now, because the modules make the settings themselves.
  - Enables and starts the service C(sovereign-epyc-watch.service), which sends interrupts that come later where a
    stored request of M(sovereign.epyc.irq_affinity) wants them. It is restarted when the host tool or its unit changed.
  - With O(textfile), also enables and starts the timer C(sovereign-epyc-check.timer), which has the host check itself.
  - With O(agent_bind), also enables and starts the socket C(sovereign-epyc-agent.socket). Where a gateway asks there,
    systemd starts C(sovereign-epyc-agent.service), which says in one line how much an instance of C(llama-server) can
    take. It ends when nobody asks any more. Without it, such units are removed.
  - All or nothing. When systemd refuses a unit, or does not have it enabled and active afterwards, the module fails
    with its words, and what was there before is there again.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob.intent
options:
  state:
    description:
      - Whether the host tool and its services should be on the host. Newer or older ones are replaced.
      - V(absent) stops the services, removes them, the host tool and O(textfile), and leaves the settings as they are.
    type: str
    choices: [present, absent]
    default: present
  instances_leave:
    description:
      - With O(state=absent), whether instances of M(sovereign.epyc.llama_server) and
        M(sovereign.epyc.llama_rpc_worker) are removed beforehand, so that their units, which call the command at every
        start, are no reason to refuse. For looks in check mode, where they are still there.
    type: bool
    default: false
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
  agent_bind:
    description:
      - Where gateways ask for the agent, as an address and a port, such as V(10.0.0.11:8407). V(*) stands for every
        address.
    type: str
    default: ""
  agent_allow:
    description:
      - Addresses and networks of gateways that may ask. The packets of others are dropped. Required, unless
        O(agent_bind) is on the loopback.
    type: list
    elements: str
    default: []
  agent_untuned:
    description:
      - The share of requests for this host while its own check, in O(textfile), has found a setting that is not in
        force, as V(50%); V(out) for none at all. Settings that only wait for a reboot, or that only the next boot would
        lose, do not count.
    type: str
    default: 50%
  agent_unknown:
    description: The same while that check is old, could not be made, or cannot be read.
    type: str
    default: 100%
notes:
  - Needs root, and a host that was booted with systemd.
"""

EXAMPLES = r"""
- name: Install the host tool and its services
  sovereign.epyc.epyc_host_tool:

- name: Have the host check itself every hour, too
  sovereign.epyc.epyc_host_tool:
    textfile: /var/lib/prometheus/node-exporter/sovereign-epyc.prom
    interval: 1h

- name: Have gateways learn of a planned stop, and of a check that found drift
  sovereign.epyc.epyc_host_tool:
    textfile: /var/lib/prometheus/node-exporter/sovereign-epyc.prom
    agent_bind: 10.0.0.11:8407
    agent_allow: [10.0.0.2, 10.0.0.3]

- name: Remove the host tool and its services
  sovereign.epyc.epyc_host_tool:
    state: absent
"""

RETURN = r"""
diff:
  description:
    - What differed, by address. The value of a file is a digest, with its mode and owner where those are not as
      configured.
    - The value of C(UNIT/enabled) and C(UNIT/active) is systemd's word, such as V(disabled) or V(failed), or null where
      there is no such unit.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "engine on the host, 1 file: new\nboot service, sovereign-epyc.service: disabled -> enabled\n"
    changes:
      before: {"host_tool:/usr/sbin/sovereign-epyc": null, "host_tool:sovereign-epyc.service/enabled": "disabled"}
      after: {"host_tool:/usr/sbin/sovereign-epyc": "9f86d081", "host_tool:sovereign-epyc.service/enabled": "enabled"}
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._agent import DEFAULTS
from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_converging_module
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.agent_units import (
    AgentUnits,
    plan_housekeeping_cpus,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.host_tool import INTERVAL, HostTool, parse_time_span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger

AGENT = "agent_"


def build(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
    """Return the host tool and the agent, which comes after it and goes before it."""
    present, textfile, interval = params["state"] == "present", params["textfile"], params["interval"]
    engine = HostTool(present, textfile, interval, host.fs.root, params["instances_leave"])
    if not present or not params["agent_bind"]:
        agent = AgentUnits(root=host.fs.root)
        return [engine, agent] if present else [agent, engine]
    asked = {key[len(AGENT) :]: value for key, value in params.items() if key.startswith(AGENT)}
    cpus = plan_housekeeping_cpus(host, ledger.store, params["intent"])
    return [engine, AgentUnits(asked, textfile, parse_time_span(interval) / 1e6, cpus, host.fs.root)]


def main() -> None:
    spec = dict(
        state=dict(type="str", choices=["present", "absent"], default="present"),
        instances_leave=dict(type="bool", default=False),
        textfile=dict(type="str", default=""),
        interval=dict(type="str", default=INTERVAL),
        agent_bind=dict(type="str", default=""),
        agent_allow=dict(type="list", elements="str", default=[]),
        agent_untuned=dict(type="str", default=DEFAULTS["untuned"]),
        agent_unknown=dict(type="str", default=DEFAULTS["unknown"]),
        intent=dict(type="dict"),
    )
    run_converging_module(spec, build)


if __name__ == "__main__":
    main()
