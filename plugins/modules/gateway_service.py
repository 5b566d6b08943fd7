#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_service
short_description: Configure HAProxy or keepalived of a gateway, or restore the configuration from before
version_added: 1.0.0
description:
  - The role P(sovereign.epyc.epyc_gateway#role) uses this module on the host of a gateway, where the package of the
    service is installed.
  - The service checks a configuration before it is put in place, and loads it by a reload, which ends no request.
  - Before the first change, the configuration that is there and the state of the service are saved beside it.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - HAProxy or keepalived, and systemd
extends_documentation_fragment: sovereign.epyc.attributes
options:
  service:
    description: The service.
    type: str
    choices: [haproxy, keepalived]
    required: true
  state:
    description: V(absent) restores the configuration and the state of the service from before the first change.
    type: str
    choices: [present, absent]
    default: present
  configuration:
    description:
      - The text of the configuration. C(<digest>) in it becomes the digest of the text, and C(<key file>) and
        C(<script file>) the paths of the files with O(key) and O(script).
      - Without it nothing is changed; the module fails if somebody else has configured keepalived.
    type: str
  key:
    description: The key that HAProxy sends to instances. The path of its file changes with the key.
    type: str
    default: ""
  script:
    description: The script that reads requests for HAProxy, or by which keepalived checks HAProxy.
    type: str
    default: ""
  models:
    description:
      - The C(models) of P(sovereign.epyc.gateway_plan#filter). Servers that M(sovereign.epyc.gateway_member) took out
        of service stay so at the ports of these models, and servers that are not in these models are forgotten.
    type: list
    elements: dict
    default: []
  url:
    description: URL at which HAProxy answers with the digest of its configuration; the module waits for the new digest.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Restore the HAProxy from before
  sovereign.epyc.gateway_service:
    service: haproxy
    state: absent
  become: true
"""

RETURN = r"""
diff:
  description:
    - The files that differed, and the state of the service.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: success
  type: dict
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.service import SERVICES, GatewayService

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


CONFIGURATION = ("configuration", "key", "script", "models", "url")


def configure_or_restore_service(params: Mapping[str, Any], dummy_store: Store, check: bool) -> dict[str, Any]:
    """Configure HAProxy or keepalived, or restore the original configuration; return the module's result."""
    service = GatewayService(params["service"], check)
    if params["state"] == "absent":
        service.restore_configuration_and_state()
    elif params["configuration"] is None:
        service.refuse_foreign_keepalived()
    else:
        service.apply_configuration(**{name: params[name] for name in CONFIGURATION})
    diff = {"before": service.before, "after": service.after}
    return {"changed": bool(service.after), "diff": diff}


def main() -> None:
    spec = dict(
        service=dict(type="str", choices=[*SERVICES], required=True),
        state=dict(type="str", choices=["present", "absent"], default="present"),
        configuration=dict(type="str"),
        key=dict(type="str", default="", no_log=True),
        script=dict(type="str", default=""),
        models=dict(type="list", elements="dict", default=[]),
        url=dict(type="str", default=""),
    )
    run_changing_module(spec, configure_or_restore_service)


if __name__ == "__main__":
    main()
