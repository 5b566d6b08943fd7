# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How an instance runs with other options: as the planner has it, in a drop-in of its own unit.

So whatever the planner refuses is refused here, and what wins is what the role llama would make of the same options.
Source: systemd.unit(5) (drop-ins; an empty value takes back those before it).
"""

from __future__ import annotations

import shlex

from .._ablation.arm_switch import Variant, service_lines
from .._errors import BadRequest
from .._io.paths import UNIT_FOLDER
from .._serving.llama_cpp import arguments as server_arguments
from .._serving.llama_cpp import probe
from .._serving.llama_cpp.engine import LlamaEngine
from .._serving.options import speculation_kinds
from .._serving.options.options import options_without_effect
from .._serving.options.unit_names import instance_unit
from .._serving.unit import instances
from .._serving.unit.installed import SECTION, installed_units, plan_of
from .._serving.unit.instance import Instance, restarts
from .._serving.unit.walls import trial_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._bench.target.measured_instance import Target
    from .._host.host import Host
    from .._serving.llama_cpp.capabilities import Capabilities
    from .._serving.plan.instance_plan import InstancePlan

#: What an empty value does not take back, and the value that does.
BACK = {"NUMAPolicy": "default"}


class Candidates:
    """Plans an instance with other options. ``service`` is how it is planned with its own, and ``own`` how it runs."""

    def __init__(self, host: Host, raw: Mapping[str, Any], target: Target) -> None:
        """``raw`` are its options by the names of module llama_server; BadRequest where it runs with others."""
        there = installed_units(host.fs.root).get(target.name, "")
        self._host = host
        self._engine = LlamaEngine()
        self._raw = {"binary": _program(there), **{key: value for key, value in raw.items() if value is not None}}
        self._path = f"{UNIT_FOLDER}/{instance_unit(target.name)}"
        self.own = Variant(None, target.arguments)
        self.service, self._files = self._planned({})
        self._server: Capabilities = probe.capabilities(
            self.service.options.binary, trial_settings(self.service.options, [])
        )
        self._known = {self._files[self._path]: "the default"}
        said = server_arguments.arguments(self.service.parameters, self._server)
        #: What stands before the arguments of the process: its program, of a script that of the interpreter too.
        self._before = target.arguments[: -len(said)]
        if restarts(there, self._files[self._path]) or [*self._before, *said] != target.arguments:
            raise BadRequest(
                f"{target.name} does not run as its options say, so that nothing that is found out would hold for it. "
                "Run site.yml first."
            )

    def variant(self, options: Mapping[str, Any], name: str) -> Variant:
        """Return how the unit is with these options. BadRequest where it cannot be, or is as another one's."""
        service, files = self._planned(options)
        text = files.pop(self._path)
        if files != {path: one for path, one in self._files.items() if path != self._path}:
            raise BadRequest("The process that drafts would be another one, which is not tried.")
        same = self._known.setdefault(text, name)
        if same != name:
            raise BadRequest(f"It is the same as {same}.")
        return Variant(drop_in(self._files[self._path], text), self._arguments(service), plan=plan_of(text))

    def _planned(self, options: Mapping[str, Any]) -> tuple[InstancePlan, dict[str, str]]:
        """Return the plan with these options, and the texts of its units by path."""
        # What the instance has for the kinds that are left out goes with them.
        idle = (
            options_without_effect(speculation_kinds.parse_speculation(options["speculation"]))
            if "speculation" in options
            else []
        )
        raw = {**{key: value for key, value in self._raw.items() if key not in idle}, **options}
        knobs = instances.knobs_of(self._engine, self._host, [raw], instances.Purge(), self._host.fs.root)
        return next((one.service, dict(one.files)) for one in knobs if isinstance(one, Instance) and one.service)

    def _arguments(self, service: InstancePlan) -> list[str]:
        return [*self._before, *server_arguments.arguments(service.parameters, self._server)]


def drop_in(before: str, after: str) -> str | None:
    """Return the lines with which a unit of one text runs as that of another; None where these do not differ."""
    old, new = _settings(before), _settings(after)
    lines: list[str] = []
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            lines += [f"{key}={BACK.get(key, '')}", *new.get(key, [])]
    return service_lines(lines) if lines else None


def _program(text: str) -> str:
    """Return the program that a unit of ours starts."""
    line = next(iter(_settings(text).get("ExecStart", [])), "ExecStart=")
    return next(iter(shlex.split(line.partition("=")[2])), "").replace("%%", "%")


def _settings(text: str) -> dict[str, list[str]]:
    """Return the lines of the section of the service, by the name of the setting."""
    found: dict[str, list[str]] = {}
    part = text.partition(SECTION)[0].partition("[Service]\n")[2].partition("\n[")[0]
    for line in part.splitlines():
        if "=" in line and not line.startswith("#"):
            found.setdefault(line.partition("=")[0], []).append(line)
    return found
