# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The measured instance of vLLM, and the choice of the instance to measure by its engine.

Source: vllm/entrypoints/serve/instrumentator of vLLM 0.32 (/version).
"""

from __future__ import annotations

import os
import time

from ..._errors import BadRequest
from ..._serving.catalogue import VLLM
from ..._serving.unit.installed import select_instance_and_plan
from ..._serving.vllm.model_config import read_model_config
from ..load.answer import ANSWER_TIMEOUT
from ..load.completion_api import VllmCompletions
from . import measured_instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..._host.host import Host


class MeasuredVllm(measured_instance.MeasuredInstance):
    """A running instance of vLLM with its plan."""

    def set_server_fields(self) -> None:
        """Set the fields that depend on the kind of server."""
        details = self.plan["details"]
        self.units = [self.plan["unit"]]
        self.slots = details["slots"]
        version = self.fetch_server_json("/version")
        self.build = f"vLLM {version['version']}" if isinstance(version, dict) and "version" in version else None
        self.files = sorted(self.plan["files"])
        self.remarks = [
            "All times are those of the client, because vLLM reports none. The memory time of a step is known of GGUF "
            "files only."
        ]
        if details["hosts"] > 1:
            self.remarks.append(f"It is divided over {details['hosts']} hosts, of which only this one was watched.")

    def find_engine(self) -> str | None:
        """Return the name of the engine."""
        return VLLM.title

    def read_model_name_and_quantization(self) -> tuple[str | None, str | None]:
        """Return the name of the model's folder, and the method of its quantization or the type of its numbers."""
        folder = str(self.plan["details"]["model"])
        try:
            config = read_model_config(folder)
        except (OSError, ValueError):
            config = {}
        quantized = config.get("quantization_config")
        method = quantized.get("quant_method") if isinstance(quantized, dict) else None
        method = method or config.get("dtype") or config.get("torch_dtype")
        return os.path.basename(folder.rstrip("/")), None if method is None else str(method)

    def gguf_model_path(self) -> str | None:
        """Return None, because vLLM serves no GGUF file."""
        return None


def find_instance_of_any_engine(
    host: Host, name: str | None, answer_timeout: float = ANSWER_TIMEOUT, clock: Any = time
) -> measured_instance.MeasuredInstance:
    """Return an instance of any engine of this host; the only instance where ``name`` is None.

    BadRequest for an unknown instance or one that generates no text, TuningError for one that does not serve.
    """
    name, plan = select_instance_and_plan(name, host.fs.root)
    if plan["engine"] != VLLM.key:
        return measured_instance.find_llama_instance(host, name, answer_timeout, clock)
    if not plan["url"]:
        raise BadRequest(f"{name} is a part of an instance on several hosts. Measure it on the host that answers.")
    return MeasuredVllm(host, name, plan, answer_timeout, clock, VllmCompletions(plan["details"]["alias"]))
