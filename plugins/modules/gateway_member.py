#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_member
short_description: Take a host out of service at a gateway, or put it back
version_added: 1.0.0
description:
  - Runs on a gateway that P(sovereign.epyc.epyc_gateway#role) has set up, and sets the state of the servers of another
    host in its HAProxy. If there are several gateways, run the module on each gateway.
  - A host out of service gets no new requests, and finishes its present requests. The module waits until the host has
    no request. The state of the servers outlives a reload and a restart of HAProxy.
  - Without O(state), the module only reports the states.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - HAProxy that runs, with a socket of the level admin
extends_documentation_fragment: sovereign.epyc.attributes
options:
  host:
    description: The host, as the inventory names it. Its servers are all its instances, of all models.
    type: str
    required: true
  state:
    description:
      - V(maint) gives the host no requests at all, and ends its health checks.
      - V(drain) gives the host no new conversations. Its present conversations go on, so the host may never be idle.
      - V(ready) puts the host back into service, except for servers that
        O(sovereign.epyc.epyc_gateway#role:main:epyc_gateway_drained) keeps out of service; a warning names these.
    type: str
    choices: [ready, drain, maint]
  timeout:
    description:
      - The number of seconds in which the host must finish its requests, for V(drain) and V(maint). After this time,
        the host is put back into its previous state, and the module fails. With V(0) the module does not wait.
    type: int
    default: 600
  allow_last:
    description: Whether the last host that serves a model may be taken out, so that clients get the status 503.
    type: bool
    default: false
  socket:
    description: The socket of HAProxy with the level admin.
    type: path
    default: /run/haproxy/admin.sock
  master_socket:
    description:
      - The socket of the master process of HAProxy. After a reload, only the old worker knows the requests that had
        begun before the reload, and this socket reaches the old worker. Without the socket, such requests are not
        counted.
    type: path
    default: /run/haproxy-master.sock
  state_file:
    description: The server-state-file of HAProxy, which has the servers that are out of service.
    type: path
    default: /etc/haproxy/sovereign-epyc.state
seealso:
  - module: sovereign.epyc.llama_ask
"""

EXAMPLES = r"""
- name: Take a host out of service, and wait until it has no request
  sovereign.epyc.gateway_member:
    host: "{{ inventory_hostname }}"
    state: maint
  delegate_to: "{{ item }}"
  become: true
  loop: "{{ groups.epyc_gateway }}"

- name: Put the host back into service
  sovereign.epyc.gateway_member:
    host: "{{ inventory_hostname }}"
    state: ready
  delegate_to: "{{ item }}"
  become: true
  loop: "{{ groups.epyc_gateway }}"
"""

RETURN = r"""
servers:
  description: The servers of the host afterwards, each with its C(backend), C(name) and C(state).
  returned: success
  type: list
  elements: dict
  sample: [{"backend": "model_chat", "name": "epyc-01:chat", "state": "maint"}]
out:
  description: Whether all servers of the host are out of service.
  returned: success
  type: bool
in_work:
  description:
    - The number of requests of the host C(before) and C(after), including those that waited for this host alone. When
      the module fails because requests are left, the value is their number.
  returned: success
  type: dict
  sample: {"before": 3, "after": 0}
diff:
  description:
    - The servers whose state was changed.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: success
  type: dict
remarks:
  description: Sentences on servers that stay out of service. Each is a warning, too.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.haproxy import Haproxy
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.member import STATES, GatewayMember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def set_member_state(params: Mapping[str, Any], dummy_store: Store, check: bool) -> dict[str, Any]:
    """Set the state of the host's servers, and return the module's result."""
    haproxy = Haproxy(params["socket"], params["master_socket"])
    member = GatewayMember(haproxy, params["state_file"], params["host"])
    return member.move_servers_to_state_and_report(params["state"], params["timeout"], params["allow_last"], check)


def main() -> None:
    spec = dict(
        host=dict(type="str", required=True),
        state=dict(type="str", choices=[*STATES]),
        timeout=dict(type="int", default=600),
        allow_last=dict(type="bool", default=False),
        socket=dict(type="path", default="/run/haproxy/admin.sock"),
        master_socket=dict(type="path", default="/run/haproxy-master.sock"),
        state_file=dict(type="path", default="/etc/haproxy/sovereign-epyc.state"),
    )
    run_changing_module(spec, set_member_state)


if __name__ == "__main__":
    main()
