#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_member
short_description: Take a host out of service at a gateway, or put it back
version_added: 0.1.0
description:
  - Runs on a host of the gateway, which P(sovereign.epyc.epyc_gateway#role) has set up, and tells its HAProxy in which
    state the servers of another host are. Where there are several gateways, tell each.
  - Out of service, a host gets no new requests, and ends those that it has. The module waits until nothing is in work.
    What it set holds also when HAProxy is reloaded or started anew.
  - Without O(state) it only looks.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  host:
    description: The host, as the inventory names it. All its instances are meant, in all models.
    type: str
    required: true
  state:
    description:
      - V(maint) gives the host no requests at all, and ends its health checks.
      - V(drain) gives it no new conversations. Those that it has come on, so that it may never be idle.
      - V(ready) puts it back. Servers that O(sovereign.epyc.epyc_gateway#role:main:epyc_gateway_drained) keeps out of
        service stay so, with a warning.
    type: str
    choices: [ready, drain, maint]
  timeout:
    description:
      - How many seconds to wait until the host works on no request, for V(drain) and V(maint). When they have passed,
        the host is put back into the state that it had, and the module fails. With V(0) nothing is waited for.
    type: int
    default: 600
  allow_last:
    description: Whether the host may go when no other one serves its model, so that clients get the status 503.
    type: bool
    default: false
  socket:
    description: Where HAProxy answers, with the level admin.
    type: path
    default: /run/haproxy/admin.sock
  master_socket:
    description:
      - Where its master process answers. After a reload, requests that had begun before are known to the worker from
        before only, which is asked there. Without that socket they are not seen.
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
- name: Take a host out of service, and wait until nothing is in work
  sovereign.epyc.gateway_member:
    host: "{{ inventory_hostname }}"
    state: maint
  delegate_to: "{{ item }}"
  become: true
  loop: "{{ groups.epyc_gateway }}"

- name: Put it back
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
  description: Whether all of them are out of service.
  returned: success
  type: bool
in_work:
  description:
    - On how many requests the host worked C(before) and C(after), with those that waited for this host alone. When the
      module fails because of them, it is the number that was left.
  returned: success
  type: dict
  sample: {"before": 3, "after": 0}
diff:
  description:
    - The servers whose state differed.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: success
  type: dict
remarks:
  description: What you should know although nothing failed.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.haproxy import Haproxy
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.member import STATES, GatewayMember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def write(params: Mapping[str, Any], dummy_store: Store, check: bool) -> dict[str, Any]:
    """Bring the host into its state."""
    haproxy = Haproxy(params["socket"], params["master_socket"])
    member = GatewayMember(haproxy, params["state_file"], params["host"])
    return member.move_to_state(params["state"], params["timeout"], params["allow_last"], check)


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
    run_writer(spec, write)


if __name__ == "__main__":
    main()
