# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of vLLM that are measured, each by the plan that its unit carries.

Source: vllm/entrypoints/serve/instrumentator of vLLM 0.32 (/version).
"""

from __future__ import annotations

import time

from ..._errors import BadRequest, TuningError
from ..._serving.catalogue import VLLM
from ..._serving.hooks.keys import read_key_of_unit
from ..._serving.unit.installed import select_instance
from ..._serving.verify import instance_items
from ..._verify.checklist_items import OK
from ..load.answer import ANSWER_TIMEOUT, Server
from ..load.completion_api import VllmCompletions
from . import measured_instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..._host.host import Host


class MeasuredVllm(measured_instance.MeasuredInstance):
    """A running instance of vLLM."""

    def detect_server(self) -> None:
        """Set the fields that depend on the engine, here vLLM."""
        details = self.plan["details"]
        self.units = [self.plan["unit"]]
        self.slots = details["slots"]
        version = self.server_properties("/version")
        self.build = f"vLLM {version['version']}" if isinstance(version, dict) and "version" in version else None
        self.files = sorted(self.plan["files"])
        self.remarks = [
            "All times are those of the client, because vLLM tells none; how near it comes to what its memory allows "
            "is known of GGUF files only."
        ]
        if details["hosts"] > 1:
            self.remarks.append(f"It is divided over {details['hosts']} hosts, of which only this one was watched.")

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
    name, plan = select_instance(name, host.fs.root)
    if plan["engine"] != VLLM.key:
        return measured_instance.find_instance(host, name, limit, clock)
    if not plan["url"]:
        raise BadRequest(f"{name} is a part of an instance on several hosts. Measure it on the host that answers.")
    item = instance_items.build_serving_item(name, plan)
    if item.verdict != OK:
        raise TuningError(item.sentence)
    process, words = measured_instance.process_of_unit(host, plan["unit"])
    key = read_key_of_unit(host.fs, plan["unit"], plan["key_file"])
    api = VllmCompletions(plan["details"]["alias"])
    return MeasuredVllm(name, plan, Server(plan["url"], key, limit, clock, api), words, process)
