# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of vLLM that are measured, each by the plan that its unit carries.

Source: vllm/entrypoints/serve/instrumentator of vLLM 0.32 (/version).
"""

from __future__ import annotations

import os
import time

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.paths import UNIT_FOLDER
from ..._serving.hooks.keys import key_of
from ..._serving.unit.installed import installed_units, parse_plan_section, require_instance_name
from ..._serving.verify import verify
from ..._verify.checklist_items import OK
from ..load.answer import ANSWER_TIMEOUT, Server
from ..load.completion_api import VllmCompletions
from . import measured_instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..._host.host import Host

#: Keys of the plan in a unit of vLLM: ``slots`` are the requests that it serves at once, and ``hosts`` the number of
#: hosts that it is divided over.
PLAN_KEYS = frozenset(("alias", "expect", "hosts", "key_file", "model", "slots", "url"))


class MeasuredVllm(measured_instance.MeasuredInstance):
    """A running instance of vLLM."""

    __slots__ = ()

    def detect_server(self) -> None:
        """Set the fields that depend on the engine, here vLLM."""
        plan = self.plan
        self.units = [_unit_of(self.name)]
        self.slots = plan["slots"]
        version = self.server_properties("/version")
        self.build = f"vLLM {version['version']}" if isinstance(version, dict) and "version" in version else None
        names = os.listdir(plan["model"]) if os.path.isdir(plan["model"]) else []
        told = [name for name in sorted(names) if name == "config.json" or name.endswith(".safetensors")]
        self.files = [os.path.join(plan["model"], name) for name in told]
        self.remarks = [
            "All times are those of the client, because vLLM tells none; how near it comes to what its memory allows "
            "is known of GGUF files only."
        ]
        if plan["hosts"] > 1:
            self.remarks.append(f"It is divided over {plan['hosts']} hosts, of which only this one was watched.")

    def model_file(self) -> str | None:
        """Return None, because vLLM serves no GGUF file."""
        return None


def find_instance_of_any_engine(
    host: Host, name: str | None, limit: float = ANSWER_TIMEOUT, clock: Any = time
) -> measured_instance.MeasuredInstance:
    """Return an instance of this host, whichever engine serves it; the only one where ``name`` is None.

    ``answer_timeout`` is in seconds. BadRequest where there is no such instance or it generates no text,
    TuningError where it does not serve.
    """
    root = host.fs.root
    plans = _plans_by_name(root)
    others = installed_units(root)
    name = require_instance_name(name, [*{**others, **plans}])
    if name not in plans:
        return measured_instance.find_instance(host, name, limit, clock)
    if name in others:
        raise BadRequest(f"llama-server and vLLM both have an instance {name} on this host: give one another name.")
    plan, unit = plans[name], _unit_of(name)
    item = verify.serving(name, {**plan, "unit": unit})
    if item.verdict != OK:
        raise TuningError(item.sentence)
    process, words = measured_instance.process_of_unit(host, unit)
    key = key_of(host.fs, unit, plan["key_file"])
    return MeasuredVllm(
        name, plan, Server(plan["url"], key, limit, clock, VllmCompletions(plan["alias"])), words, process
    )


def _unit_of(name: str) -> str:
    return f"vllm-{name}.service"


def _plans_by_name(root: str) -> dict[str, dict[str, Any]]:
    """Return by name the plan of each instance of vLLM that answers on this host."""
    folder = textfile.path_in_tree(root, UNIT_FOLDER)
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        name = file[len("vllm-") : -len(".service")]
        if file == _unit_of(name):
            plan = parse_plan_section(textfile.read_text(os.path.join(folder, file)) or "", PLAN_KEYS)
            found.update({name: plan} if plan else {})
    return found
