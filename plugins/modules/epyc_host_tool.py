#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_host_tool
short_description: Install the host tool of this collection, the command sovereign-epyc, with its services
version_added: 1.0.0
description:
  - Installs the host tool, which is the command C(sovereign-epyc) and the library of the modules, so that a host can
    check, apply and restore its settings without a controller.
  - Installs the manual page C(sovereign-epyc(8)) and the completion of the command in bash, where the host has a folder
    for each.
  - Enables the service C(sovereign-epyc.service), which makes every stored setting again at a boot. The service is not
    started now, because the modules make the settings themselves.
  - Enables and starts the service C(sovereign-epyc-watch.service), which moves new interrupts to the CPUs of a stored
    request of M(sovereign.epyc.irq_affinity). It is restarted when the host tool or its unit changes.
  - With O(textfile), also enables and starts the timer C(sovereign-epyc-check.timer), which checks the settings of the
    host regularly.
  - With O(agent_bind), also enables and starts the socket C(sovereign-epyc-agent.socket). When a gateway connects,
    systemd starts C(sovereign-epyc-agent.service), which answers with the share of requests that an instance can take,
    and ends some time after the last connection. Without O(agent_bind), these units are removed.
  - The installation is all or nothing. If systemd refuses a unit, or the unit is not enabled and active afterwards, the
    module restores the former files and units, and fails with systemd's message.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - systemd
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob.intent
options:
  state:
    description:
      - Whether the host tool and its services should be on the host. Other versions are replaced.
      - V(absent) stops and removes the services, the host tool and O(textfile), and does not change the settings.
    type: str
    choices: [present, absent]
    default: present
  instances_leave:
    description:
      - With O(state=absent) in check mode, whether the real run removes the instances of M(sovereign.epyc.llama_server)
        and M(sovereign.epyc.llama_rpc_worker) before. Otherwise the removal is refused, because the units of instances
        call the command at every start.
    type: bool
    default: false
  textfile:
    description:
      - A file in the folder of the textfile collector of node_exporter, as a whole path with a name that ends with
        C(.prom). A timer then runs the check of the host and writes its metrics there, without a controller.
      - An empty text does not change an existing timer; O(state=absent) removes it.
    type: str
    default: ""
  interval:
    description: The time between two checks of the timer, in the notation of systemd.
    type: str
    default: 15min
  agent_bind:
    description:
      - The address and port at which gateways reach the agent, such as V(10.0.0.11:8407). V(*) stands for every
        address.
    type: str
    default: ""
  agent_allow:
    description:
      - Addresses and networks of the gateways. Packets of all other addresses are dropped. Required, unless
        O(agent_bind) is on the loopback.
    type: list
    elements: str
    default: []
  agent_untuned:
    description:
      - The share of requests for this host after its check, in O(textfile), found a setting that is not in force, such
        as V(50%); V(out) is no request at all. Settings that only wait for a reboot, or that only the next boot would
        lose, do not count.
    type: str
    default: 50%
  agent_unknown:
    description: As O(agent_untuned), after a check that is old, that failed, or that cannot be read.
    type: str
    default: 100%
notes:
  - Needs root, and a host that was booted with systemd.
"""

EXAMPLES = r"""
- name: Install the host tool and its services
  sovereign.epyc.epyc_host_tool:

- name: Check the settings of the host every hour, too
  sovereign.epyc.epyc_host_tool:
    textfile: /var/lib/prometheus/node-exporter/sovereign-epyc.prom
    interval: 1h

- name: Inform gateways of a planned stop, and of a check that found drift
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
    - The settings that differed, by address. The value of a file is a digest, followed by mode and owner if these
      differ from the wanted ones.
    - The value of C(UNIT/enabled) and C(UNIT/active) is systemd's word, such as V(disabled) or V(failed), or null if
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
    format_planned_housekeeping_cpus,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.host_tool import (
    INTERVAL,
    HostTool,
    parse_systemd_span_to_microseconds,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger

AGENT = "agent_"


def build_host_tool_knobs(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
    """Return the host tool and the agent as knobs; the agent is installed after the host tool and removed before it."""
    present, textfile, interval = params["state"] == "present", params["textfile"], params["interval"]
    host_tool = HostTool(present, textfile, interval, host.fs.root, params["instances_leave"])
    if not present or not params["agent_bind"]:
        agent = AgentUnits(root=host.fs.root)
        return [host_tool, agent] if present else [agent, host_tool]
    options = {key[len(AGENT) :]: value for key, value in params.items() if key.startswith(AGENT)}
    cpus = format_planned_housekeeping_cpus(host, ledger.store, params["intent"])
    return [
        host_tool,
        AgentUnits(options, textfile, parse_systemd_span_to_microseconds(interval) / 1e6, cpus, host.fs.root),
    ]


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
    run_converging_module(spec, build_host_tool_knobs)


if __name__ == "__main__":
    main()
