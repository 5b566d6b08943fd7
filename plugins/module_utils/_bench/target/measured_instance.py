# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instance that is measured: its plan, its process, its server, and what the server reports of itself.

Source: ``/slots`` and ``/props`` in tools/server/README.md of llama.cpp.
"""

from __future__ import annotations

import time

from ..._errors import BadRequest, TuningError
from ..._kernel import cgroups
from ..._notation.cpulist import parse_cpulist
from ..._serving.catalogue import ENGINES, LLAMA
from ..._serving.hooks import event_stream, server_http
from ..._serving.hooks.keys import read_key_of_unit
from ..._serving.unit.installed import select_instance
from ..._serving.verify import instance_items
from ..._verify.checklist_items import OK
from ..load.answer import ANSWER_TIMEOUT, Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host

#: Seconds that the server may take to answer for one of its properties.
PROPERTIES_TIMEOUT = 30.0


class MeasuredInstance:
    """A running instance with its plan.

    ``units`` are its unit and, where it has one, that of its draft server. ``process`` is the number of its
    process, ``arguments`` are the arguments of the process with the program first, ``slots`` is the number of
    requests that it serves at once, and ``build`` the version that it reports. ``mapped`` are the files that it
    maps into memory, ``programs`` and ``files`` those of its engine and its model. ``remarks`` are sentences on how
    to read the results.
    """

    def __init__(
        self, name: str, plan: Mapping[str, Any], server: Server, arguments: Sequence[str], process: int
    ) -> None:
        self.name = name
        self.plan = plan
        self.server = server
        self.arguments = list(arguments)
        self.process = process
        self.slots = 1
        self.build: str | None = None
        self.units: list[str] = []
        self.mapped: list[str] = []
        self.programs: list[str] = []
        self.files: list[str] = []
        self.remarks: list[str] = []
        self.detect_server()

    def detect_server(self) -> None:
        """Set the fields that depend on the engine, here llama-server."""
        plan = self.plan
        self.units = [plan["unit"], *([plan["rpc"]["unit"]] if plan["rpc"] else [])]
        slots = self.server_properties("/slots")
        self.slots = len(slots) if isinstance(slots, list) and slots else 1
        props = self.server_properties("/props")
        self.build = str(props["build_info"]) if isinstance(props, dict) and "build_info" in props else None
        self.mapped = list(plan["mapped"])
        self.programs, self.files = sorted(plan["programs"]), sorted(plan["files"])

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs that the instance computes on."""
        return parse_cpulist(self.plan["expect"]["busy_cpus"])

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that the memory of the instance is planned on."""
        return parse_cpulist(self.plan["expect"]["nodes"])

    def argument_value(self, *names: str) -> str | None:
        """Return the value of a process argument by any of its names; None where it is not given."""
        for name, value in zip(self.arguments, self.arguments[1:]):
            if name in names:
                return value
        return None

    def model_file(self) -> str | None:
        """Return the path of the GGUF file that the instance serves; None for another format."""
        return self.argument_value("--model", "-m")

    def server_properties(self, path: str) -> Any:
        """Return the JSON that the server answers for a path; None where it answers none."""
        status, text = server_http.send_get(self.server.url, path, PROPERTIES_TIMEOUT, self.server.key)
        return event_stream.parse_json(text) if status == 200 else None


def find_instance(
    host: Host,
    name: str | None,
    limit: float = ANSWER_TIMEOUT,
    clock: Any = time,
    otherwise: Mapping[str, Any] | None = None,
) -> MeasuredInstance:
    """Return an instance of this host by name, or the only one where ``name`` is None.

    ``answer_timeout`` is in seconds. ``current_plan`` replaces the plan of the unit. BadRequest where there is no
    such instance or it generates no text, TuningError where it does not serve.
    """
    name, own = select_instance(name, host.fs.root)
    plan = otherwise or own
    if plan["engine"] != LLAMA.key:
        raise BadRequest(f"{name}: {ENGINES[plan['engine']].cannot['ablation']}")
    if plan["task"] != "completion":
        raise BadRequest(f"{name} is for the task {plan['task']}, and makes no text. Measure an instance that does.")
    if plan["models"]:
        raise BadRequest(f"{name} has several models, which share its CPUs. Measure an instance that has one.")
    item = instance_items.build_serving_item(name, plan)
    if item.verdict != OK:
        raise TuningError(item.sentence)
    process, words = process_of_unit(host, plan["unit"])
    server = Server(plan["url"], read_key_of_unit(host.fs, plan["unit"], plan["key_file"]), limit, clock)
    return MeasuredInstance(name, plan, server, words, process)


def process_of_unit(host: Host, unit: str) -> tuple[int, list[str]]:
    """Return the main process of a unit and its arguments, the program first; TuningError without one."""
    processes = cgroups.list_processes(host.fs, unit)
    if not processes:
        raise TuningError(f"{unit} has no process any more. Its journal says why.")
    return processes[0], [word for word in host.fs.read(f"/proc/{processes[0]}/cmdline").split("\0") if word]
