# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module epyc_last_run: what a run asks of a host, out of the variables of its layers.

It also knows the runs of which one look cannot tell, and does not ask the host in these.
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

#: Every layer works from the plan, which is no layer.
PLAN = "plan"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module, with inputs and packages in place of layers; or tell why it is of no use to run it."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        layers = arguments.pop("layers", None)
        if layers is not None:
            reason = why_of_no_use(layers, variables, context.CLIARGS)
            if not reason:
                values, reason = values_of(layers, variables, self._templar.template)
            if reason:
                return {**result, "changed": False, "skipped": True, "holds": False, "reason": reason}
            arguments["inputs"] = digest(layers, values)
            arguments["packages"] = values.get("prerequisites_packages", [])
        return {**result, **self._execute_module(module_args=arguments, task_vars=variables)}


def why_of_no_use(layers: Sequence[str], variables: Mapping[str, Any], command_line: Mapping[str, Any]) -> str:
    """Return why one look cannot tell of a run, by how it was started and what it serves; an empty text if it can."""
    if [*variables["ansible_run_tags"]] != ["all"] or variables["ansible_skip_tags"]:
        return "with tags, only a part of the layers is run"
    if command_line.get("step") or command_line.get("start_at_task"):
        return "with --step or --start-at-task, only a part of the layers is run"
    if "llama" in layers and "llama_instances" in variables:
        return "nothing is remembered of llama.cpp"
    if "bios" in layers and "bios_bmc" in variables:
        return "nothing is remembered of a BMC"
    return ""


def values_of(
    layers: Sequence[str], variables: Mapping[str, Any], template: Callable[[Any], Any]
) -> tuple[dict[str, Any], str]:
    """Return the variables of the layers and of the plan with their values, and why one look cannot tell of them.

    Results that a role registers are none of them, and no password is made a part of a digest.
    """
    prefixes = tuple(f"{layer}_" for layer in (PLAN, *layers))
    values = {}
    for name in sorted(variables):
        if name.startswith(prefixes) and not name.endswith(("_result", "_password")):
            try:
                values[name] = template(variables[name])
            except AnsibleError:
                return {}, f"{name} has no value before the layers are run"
    for layer in layers:
        # A word that is no boolean is refused by the role itself.
        if not boolean(values.get(f"{layer}_persistent", True), strict=False):
            return {}, f"{layer}_persistent is false, so that nothing of this layer is stored on the host"
    return values, ""


def digest(layers: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return a digest of all that is asked, by what collection."""
    (collection,) = collection_digest.LookupModule().run([])
    text = json.dumps([sorted(layers), [*values.items()], collection], default=str)
    return hashlib.sha256(text.encode()).hexdigest()
