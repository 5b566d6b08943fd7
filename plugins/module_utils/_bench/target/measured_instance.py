# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The measured instance: its plan, its process, its server, and the properties that the server reports.

Source: ``/slots`` and ``/props`` in tools/server/README.md of llama.cpp.
"""

from __future__ import annotations

import os
import time

from ..._errors import BadRequest, TuningError
from ..._kernel import cgroups
from ..._models.model import read_model
from ..._notation.cpulist import parse_cpulist
from ..._serving.catalogue import ENGINES, LLAMA
from ..._serving.hooks import event_stream, server_http
from ..._serving.hooks.keys import read_api_key_loaded_by_unit
from ..._serving.llama_cpp.capabilities import find_engine_of_program
from ..._serving.unit.installed import select_instance_and_plan
from ..._serving.verify import instance_items
from ..._verify.checklist_items import OK
from ..load.answer import ANSWER_TIMEOUT, Server
from ..load.completion_api import LLAMA as LLAMA_API

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._host.host import Host
    from ..._models.model import Model
    from ..load.answer import Api

#: Seconds that the server may take to answer for one of its properties.
PROPERTIES_TIMEOUT = 30.0


class MeasuredInstance:
    """A running instance of llama-server with its plan.

    ``units`` are the unit of the instance and the unit of its draft server, if it has one. ``process`` is the number of
    its process, and ``arguments`` are the arguments of the process, the program first. ``slots`` is the number of
    requests that the server answers at once, ``slot_context`` the largest number of tokens of each, None where it is
    not known, and ``build`` the version that the server reports. ``mapped`` are the files that
    the process maps into memory, ``programs`` the files of the program, and ``files`` the files of the model.
    ``remarks`` are sentences on how to read the results.
    """

    def __init__(
        self, host: Host, name: str, plan: Mapping[str, Any], answer_timeout: float, clock: Any, api: Api = LLAMA_API
    ) -> None:
        """Find process and server of a unit; TuningError where the server does not serve."""
        item = instance_items.build_serving_item(name, plan)
        if item.verdict != OK:
            raise TuningError(item.sentence)
        self.name = name
        self.plan = plan
        self.process, self.arguments = _read_main_pid_and_arguments(host, plan["unit"])
        key = read_api_key_loaded_by_unit(host.fs, plan["unit"], plan["key_file"])
        self.server = Server(plan["url"], key, answer_timeout, clock, api)
        self.slots = 1
        self.slot_context: int | None = None
        self.build: str | None = None
        self.units: list[str] = []
        self.mapped: list[str] = []
        self.programs: list[str] = []
        self.files: list[str] = []
        self.remarks: list[str] = []
        self.set_server_fields()

    def set_server_fields(self) -> None:
        """Set the fields that depend on the kind of server."""
        plan = self.plan
        self.units = [plan["unit"], *([plan["rpc"]["unit"]] if plan["rpc"] else [])]
        slots = self.fetch_server_json("/slots")
        self.slots = len(slots) if isinstance(slots, list) and slots else 1
        if isinstance(slots, list) and slots and isinstance(slots[0], dict) and isinstance(slots[0].get("n_ctx"), int):
            self.slot_context = slots[0]["n_ctx"]
        props = self.fetch_server_json("/props")
        self.build = str(props["build_info"]) if isinstance(props, dict) and "build_info" in props else None
        self.mapped = list(plan["mapped"])
        self.programs, self.files = sorted(plan["programs"]), sorted(plan["files"])

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs that the instance computes on."""
        return parse_cpulist(self.plan["expect"]["busy_cpus"])

    @property
    def draft_cpus(self) -> tuple[int, ...]:
        """The CPUs that its draft server computes on; none for an instance without one."""
        return parse_cpulist(self.plan["rpc"]["expect"]["busy_cpus"]) if self.plan["rpc"] else ()

    @property
    def nodes(self) -> tuple[int, ...]:
        """The planned nodes of the memory of the instance."""
        return parse_cpulist(self.plan["expect"]["nodes"])

    def process_argument_value(self, *names: str) -> str | None:
        """Return the value of a process argument by any of its names; None for a missing argument."""
        for name, value in zip(self.arguments, self.arguments[1:]):
            if name in names:
                return value
        return None

    def gguf_model_path(self) -> str | None:
        """Return the path of the GGUF file that the instance serves; None for another format."""
        return self.process_argument_value("--model", "-m")

    def find_engine(self) -> str | None:
        """Return the engine: llama.cpp or ik_llama.cpp; None where the files of the program do not say it."""
        return find_engine_of_program(self.programs)

    def read_model_name_and_quantization(self) -> tuple[str | None, str | None]:
        """Return name and quantization of the model; None for what its files do not say."""
        model = self.read_gguf_model()
        if model is None:
            return None, None
        return model.header_text("general.name") or os.path.basename(model.path), model.quantization

    def read_gguf_model(self) -> Model | None:
        """Return the model by the header of its GGUF file; None for another format, or for a file that is damaged."""
        path = self.gguf_model_path()
        try:
            return read_model(path) if path else None
        except TuningError:
            return None

    def fetch_server_json(self, path: str) -> Any:
        """Return the JSON that the server sends for a path; None where it sends none."""
        status, text = server_http.send_get_request(self.server.url, path, PROPERTIES_TIMEOUT, self.server.key)
        return event_stream.parse_json_or_none(text) if status == 200 else None


def find_llama_instance(
    host: Host,
    name: str | None,
    answer_timeout: float = ANSWER_TIMEOUT,
    clock: Any = time,
    current_plan: Mapping[str, Any] | None = None,
) -> MeasuredInstance:
    """Return an instance of llama-server of this host; the only instance where ``name`` is None.

    ``current_plan`` replaces the plan in the unit. BadRequest for an unknown instance or one that generates no text,
    TuningError for an instance that does not serve.
    """
    name, plan_of_unit = select_instance_and_plan(name, host.fs.root)
    plan = current_plan or plan_of_unit
    if plan["engine"] != LLAMA.key:
        raise BadRequest(f"{name}: {ENGINES[plan['engine']].cannot['ablation']}")
    if plan["task"] != "completion":
        raise BadRequest(f"{name} is for the task {plan['task']}, and makes no text. Measure an instance that does.")
    if plan["models"]:
        raise BadRequest(f"{name} has several models, which share its CPUs. Measure an instance that has one.")
    return MeasuredInstance(host, name, plan, answer_timeout, clock)


def _read_main_pid_and_arguments(host: Host, unit: str) -> tuple[int, list[str]]:
    """Return number and arguments of the main process of a unit; TuningError for a unit without a process."""
    processes = cgroups.list_processes(host.fs, unit)
    if not processes:
        raise TuningError(f"{unit} has no process any more. Its journal says why.")
    return processes[0], [word for word in host.fs.read(f"/proc/{processes[0]}/cmdline").split("\0") if word]
