# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The door for modules that speak to a BMC: a module's parameters in, one session, its result or its failure out.

They run on the controller. The requests are sent by Ansible's own HTTP.
"""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import Request

from ._errors import TuningError
from ._knobs.change_text import add_text_to_diff
from ._notation.option_values import validate_option_value
from ._redfish.connection.client import Access, Client
from ._redfish.connection.responses import BmcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The options that each of them has; documented in the fragment sovereign.epyc.bmc.
CONNECTION = dict(
    bmc=dict(type="str", required=True),
    username=dict(type="str", required=True),
    password=dict(type="str", required=True, no_log=True),
    ca_path=dict(type="path"),
    fingerprint=dict(type="str"),
    validate_certs=dict(type="bool", default=True),
    timeout=dict(type="int", default=30),
    patience=dict(type="int", default=60),
    system=dict(type="str"),
)


def run_bmc(
    spec: dict[str, Any], work: Callable[[Mapping[str, Any], Client, bool], dict[str, Any]], **rules: Any
) -> None:
    """Run a module within one session at the BMC, and exit with what ``work`` returns; its remarks become warnings."""
    module = AnsibleModule(
        argument_spec={**CONNECTION, **spec},
        supports_check_mode=True,
        mutually_exclusive=[("ca_path", "fingerprint")],
        **rules,
    )
    params = module.params
    if not params["validate_certs"] and not params["fingerprint"]:
        module.warn("The certificate of the BMC is not verified. Whoever answers in its place gets the password.")
    try:
        validate_option_value({name: value for name, value in params.items() if name != "password"}, "")
        access = Access(
            params["bmc"],
            params["username"],
            params["password"],
            params["ca_path"],
            params["fingerprint"],
            params["validate_certs"],
            params["timeout"],
            params["patience"],
        )
        with Client(access, send) as client:
            result = work(params, client, module.check_mode)
    except TuningError as error:
        module.fail_json(msg=str(error), **error.details)
    for remark in result.get("remarks", ()):
        module.warn(remark)
    module.exit_json(**add_text_to_diff(result, {}))


def send(method: str, url: str, **more: Any) -> Any:
    """Send a request by Ansible's HTTP; its own errors, which are no OSErrors, become those of the engine."""
    try:
        return Request().open(method, url, **more)
    except (OSError, TuningError):
        raise
    except Exception as error:
        raise BmcError(f"{url} cannot be asked: {error}") from None
