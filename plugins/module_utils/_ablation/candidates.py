# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans an instance with other options, in a drop-in of its unit: candidates of a tuning, and arms of an ablation.

The planner of instances plans each candidate. So an impossible candidate is refused, and the role epyc_llama plans the
best candidate exactly as it was measured.

Source: systemd.unit(5) (drop-ins; an empty value resets earlier ones).
"""

from __future__ import annotations

import shlex

from .._errors import BadRequest
from .._io.paths import UNIT_FOLDER
from .._serving.llama_cpp import arguments as server_arguments
from .._serving.llama_cpp import probe
from .._serving.llama_cpp.engine import LlamaEngine
from .._serving.options import speculation_kinds
from .._serving.options.options import options_refused_for_kinds
from .._serving.options.unit_names import instance_unit_name
from .._serving.unit import instances
from .._serving.unit.hardening import trial_sandbox_lines
from .._serving.unit.installed import PLAN_MARK, parse_unit_plan, read_instance_unit_texts
from .._serving.unit.instance import Instance, needs_restart_for_new_text
from .arm_switch import InstanceVariant, render_service_drop_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._bench.target.measured_instance import MeasuredInstance
    from .._host.host import Host
    from .._serving.llama_cpp.capabilities import Capabilities
    from .._serving.plan.instance_plan import InstancePlan

#: Settings of a unit that no empty value resets -> the value that resets the setting.
RESET_VALUES = {"NUMAPolicy": "default"}


class Candidates:
    """Plans the candidates of an instance; ``service`` and ``default`` are plan and variant with its own options."""

    def __init__(self, host: Host, raw: Mapping[str, Any], target: MeasuredInstance) -> None:
        """Plan the instance with its own options, ``raw``; BadRequest where it runs with other options."""
        unit_text = read_instance_unit_texts(host.fs.root).get(target.name, "")
        self._host = host
        self._engine = LlamaEngine()
        self._raw = {
            "binary": _program_path_of_unit(unit_text),
            **{key: value for key, value in raw.items() if value is not None},
        }
        self._path = f"{UNIT_FOLDER}/{instance_unit_name(target.name)}"
        self.default = InstanceVariant(None, target.arguments)
        self.service, self._files = self._plan_and_unit_texts({})
        #: Capabilities of each program, by its path.
        self._servers: dict[str, Capabilities] = {}
        self._known = {self._files[self._path]: "the default"}
        planned = server_arguments.build_arguments(self.service.parameters, self.capabilities_of(self.service))
        #: The words before the planned arguments: the program, and for a script also its interpreter.
        self._command = target.arguments[: -len(planned)]
        if (
            needs_restart_for_new_text(unit_text, self._files[self._path])
            or [*self._command, *planned] != target.arguments
        ):
            raise BadRequest(
                f"{target.name} does not run as its options say, so that nothing that is found out would hold for it. "
                "Run site.yml first."
            )

    def build_variant(self, options: Mapping[str, Any], name: str) -> InstanceVariant:
        """Return the variant of a candidate; BadRequest where it cannot be planned, or equals another candidate."""
        return self.plan_variant(options, name)[0]

    def plan_variant(self, options: Mapping[str, Any], name: str) -> tuple[InstanceVariant, InstancePlan]:
        """Return variant and plan of a candidate; BadRequest as in ``build_variant``."""
        service, files = self._plan_and_unit_texts(options)
        text = files.pop(self._path)
        if files != {path: unit_text for path, unit_text in self._files.items() if path != self._path}:
            raise BadRequest("The process that drafts would be another one, which is not tried.")
        equal_candidate = self._known.setdefault(text, name)
        if equal_candidate != name:
            raise BadRequest(f"It is the same as {equal_candidate}.")
        drop_in = render_drop_in(self._files[self._path], text)
        return InstanceVariant(drop_in, self._server_arguments(service), plan=parse_unit_plan(text)), service

    def _plan_and_unit_texts(self, options: Mapping[str, Any]) -> tuple[InstancePlan, dict[str, str]]:
        """Return the plan with these options instead of its own, and the texts of its units by path."""
        # Options of a kind of speculation that the candidate does not use would be refused.
        idle = (
            options_refused_for_kinds(speculation_kinds.parse_speculation_kinds(options["speculation"]))
            if "speculation" in options
            else []
        )
        raw = {**{key: value for key, value in self._raw.items() if key not in idle}, **options}
        knobs = instances.build_knobs(self._engine, self._host, [raw], instances.Purge(), self._host.fs.root)
        return next((knob.service, dict(knob.files)) for knob in knobs if isinstance(knob, Instance) and knob.service)

    def capabilities_of(self, service: InstancePlan) -> Capabilities:
        """Return the capabilities of the program of a plan."""
        binary = service.options.binary
        if binary not in self._servers:
            self._servers[binary] = probe.probe_capabilities(binary, trial_sandbox_lines(service.options, []))
        return self._servers[binary]

    def _server_arguments(self, service: InstancePlan) -> list[str]:
        """Return the arguments of the process, the program first, and for a script its interpreter before it."""
        binary = service.options.binary
        command = self._command if binary == self.service.options.binary else [*self._command[:-1], binary]
        return [*command, *server_arguments.build_arguments(service.parameters, self.capabilities_of(service))]


def render_drop_in(before: str, after: str) -> str | None:
    """Return a drop-in that makes a unit with the text ``before`` run like ``after``; None where both run alike."""
    old, new = _service_section_lines_by_name(before), _service_section_lines_by_name(after)
    lines: list[str] = []
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            lines += [f"{key}={RESET_VALUES.get(key, '')}", *new.get(key, [])]
    return render_service_drop_in(lines) if lines else None


def _program_path_of_unit(text: str) -> str:
    line = next(iter(_service_section_lines_by_name(text).get("ExecStart", [])), "ExecStart=")
    return next(iter(shlex.split(line.partition("=")[2])), "").replace("%%", "%")


def _service_section_lines_by_name(text: str) -> dict[str, list[str]]:
    """Return the lines of the section [Service] by name of the setting."""
    settings: dict[str, list[str]] = {}
    part = text.partition(PLAN_MARK)[0].partition("[Service]\n")[2].partition("\n[")[0]
    for line in part.splitlines():
        if "=" in line and not line.startswith("#"):
            settings.setdefault(line.partition("=")[0], []).append(line)
    return settings
