# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module epyc_preflight: builds its options, and fails once with all refusals."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.sovereign.epyc.plugins.plugin_utils._preflight import (
    Preflight,
    Variables,
    format_refusals_message,
)


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module if there are layers, and fail with all refusals: of the task, the controller and the host."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        refusals = list(arguments.pop("refusals", []))
        layers = arguments.get("layers") or []
        answer: dict[str, Any] = {"changed": False, "refusals": refusals}
        if layers:
            preflight = Preflight(layers, Variables(task_vars or {}, self._templar.template))
            refusals += preflight.refusals
            options = {**preflight.options, **arguments, "layers": preflight.layers, "refusals": refusals}
            answer = self._execute_module(module_args=options, task_vars=task_vars)
        if answer.get("failed") or answer.get("unreachable") or not answer.get("refusals"):
            return {**result, **answer}
        return {**result, **answer, "failed": True, "msg": format_refusals_message(answer["refusals"])}
