# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module epyc_last_run: computes a digest of the variables of a run's layers.

For some runs such a digest cannot show whether the run would change anything. The module is skipped for such runs.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ansible_collections.sovereign.epyc.plugins.lookup import collection_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The role that plans. It is no layer, but every layer depends on its variables.
PLAN = "plan"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module with a digest in place of the layers; skip it, with the reason, where no digest is enough."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        layers = arguments.pop("layers", None)
        if layers is not None:
            reason = undecidable_by_digest_reason(layers, variables, context.CLIARGS)
            if not reason:
                values, reason = template_layer_variables_or_reason(layers, variables, self._templar.template)
            if reason:
                return {**result, "changed": False, "skipped": True, "holds": False, "reason": reason}
            arguments["inputs"] = compute_request_digest(layers, values)
            arguments["packages"] = values.get("epyc_prerequisites_packages", [])
        return {**result, **self._execute_module(module_args=arguments, task_vars=variables)}


def undecidable_by_digest_reason(
    layers: Sequence[str], variables: Mapping[str, Any], command_line: Mapping[str, Any]
) -> str:
    """Return why a digest of variables cannot show whether a run would change anything; "" if a digest is enough."""
    if [*variables["ansible_run_tags"]] != ["all"] or variables["ansible_skip_tags"]:
        return "with tags, only a part of the layers is run"
    if command_line.get("step") or command_line.get("start_at_task"):
        return "with --step or --start-at-task, only a part of the layers is run"
    if "llama" in layers and "epyc_llama_instances" in variables:
        return "nothing is remembered of llama.cpp"
    if "bios" in layers and "epyc_bios_bmc" in variables:
        return "nothing is remembered of a BMC"
    return ""


def template_layer_variables_or_reason(
    layers: Sequence[str], variables: Mapping[str, Any], template: Callable[[Any], Any]
) -> tuple[dict[str, Any], str]:
    """Return the values of the variables of the layers and of the plan, and the reason why no digest is enough.

    The reason is "" if a digest is enough. Registered results and passwords are left out.
    """
    prefixes = tuple(f"epyc_{layer}_" for layer in (PLAN, *layers))
    values = {}
    for name in sorted(variables):
        if name.startswith(prefixes) and not name.endswith(("_result", "_password")):
            try:
                values[name] = template(variables[name])
            except AnsibleError:
                return {}, f"{name} has no value before the layers are run"
    for layer in layers:
        # The role of the layer refuses a value that is no boolean.
        if not boolean(values.get(f"epyc_{layer}_persistent", True), strict=False):
            return {}, f"epyc_{layer}_persistent is false, so that nothing of this layer is stored on the host"
    return values, ""


def compute_request_digest(layers: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return a digest of the layers, the values of their variables, and the files of the collection."""
    (collection,) = collection_digest.LookupModule().run([])
    text = json.dumps([sorted(layers), [*values.items()], collection], default=str)
    return hashlib.sha256(text.encode()).hexdigest()
