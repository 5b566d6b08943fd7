# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frame of modules that speak to a BMC: parameters are read, one session is opened, and the result returned.

These modules run on the controller and send requests with Ansible's own HTTP client.
"""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import Request

from ._errors import TuningError
from ._knobs.change_text import add_text_to_diff
from ._module_results import exit_module, fail_module, warn_of_remarks
from ._notation.option_values import refuse_impossible_values
from ._redfish.connection.client import BASIC, SESSION, BmcAccess, RedfishClient
from ._redfish.connection.responses import BmcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The options of every such module; documented in the fragment sovereign.epyc.bmc.
CONNECTION_OPTIONS = dict(
    bmc=dict(type="str", required=True),
    username=dict(type="str", required=True),
    password=dict(type="str", required=True, no_log=True),
    ca_path=dict(type="path"),
    fingerprint=dict(type="str"),
    validate_certs=dict(type="bool", default=True),
    timeout=dict(type="int", default=30),
    patience=dict(type="int", default=60),
    auth=dict(type="str", choices=[SESSION, BASIC], default=SESSION),
    system=dict(type="str"),
)


def run_bmc_module(
    spec: dict[str, Any], action: Callable[[Mapping[str, Any], RedfishClient, bool], dict[str, Any]], **rules: Any
) -> None:
    """Run a module within one session at the BMC, with the result of ``action``, whose remarks become warnings."""
    module = AnsibleModule(
        argument_spec={**CONNECTION_OPTIONS, **spec},
        supports_check_mode=True,
        mutually_exclusive=[("ca_path", "fingerprint")],
        **rules,
    )
    params = module.params
    if not params["validate_certs"] and not params["fingerprint"]:
        module.warn("The certificate of the BMC is not verified. Whoever answers in its place gets the password.")
    try:
        refuse_impossible_values({name: value for name, value in params.items() if name != "password"}, "")
        access = BmcAccess(
            params["bmc"],
            params["username"],
            params["password"],
            params["ca_path"],
            params["fingerprint"],
            params["validate_certs"],
            params["timeout"],
            params["patience"],
            params["auth"],
        )
    except TuningError as error:
        fail_module(module, error, {})
        return
    client, scrub = RedfishClient(access, open_url), access.scrubber.scrub
    try:
        with client:
            result = action(params, client, module.check_mode)
    except TuningError as error:
        warn_of_remarks(module, scrub(client.remarks))
        fail_module(module, TuningError(scrub(str(error)), **scrub(error.details)), {})
    else:
        warn_of_remarks(module, scrub(client.remarks))
        exit_module(module, add_text_to_diff(scrub(result), {}))


def open_url(method: str, url: str, **more: Any) -> Any:
    """Send a request with Ansible's HTTP client; errors of its own, which are no OSErrors, become BmcError."""
    try:
        return Request().open(method, url, **more)
    except (OSError, TuningError):
        raise
    except Exception as error:
        raise BmcError(f"{url} cannot be asked: {error}") from None
