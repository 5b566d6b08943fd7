# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All instances of an engine that a host shall have, planned together and refused where they cannot be.

Everything that can be refused is refused before a unit is touched, so that what runs goes on.
"""

from __future__ import annotations

import os
from functools import partial

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.paths import HOST_TOOL, UNIT_FOLDER
from . import read_speed, start_first, start_limits, systemd_verify
from .installed import list_installed, parse_unit_plan, read_installed_units
from .instance import Instance, PlanReport, needs_restart
from .pending import NOTHING_PENDING, Pending
from .refusals import Refusals, require_distinct_names_and_ports, require_free_port, require_known_user
from .shared_host import find_running_instances, list_held_memory, plan_with_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._knobs.protocol.knob import Knob
    from ..options.option_table import OptionTable
    from ..plan.instance_plan import InstancePlan
    from .engine import Engine, HeldMemory


class Purge:
    """Which installed instances are removed when they are not asked for: whole ones, and parts of a group of hosts."""

    def __init__(self, single_host: bool = False, groups: bool = False) -> None:
        self.single_host = single_host
        self.groups = groups

    def should_remove(self, text: str) -> bool:
        """Return whether the instance with a unit of this text is removed."""
        details = (parse_unit_plan(text) or {}).get("details", {})
        return self.groups if details.get("hosts", 1) > 1 else self.single_host


def build_knobs(
    engine: Engine,
    host: Host,
    requests: Sequence[Mapping[str, Any]],
    purge: Purge,
    root: str = "/",
    pending: Pending = NOTHING_PENDING,
) -> list[Knob]:
    """Return the knobs that bring these instances to the host, and remove others as ``purge`` says.

    BadRequest names each instance that cannot be, and why, one a line; nothing was changed then. An instance of which
    something is ``pending`` is only compared with what is on the host already, and has no knob.
    """
    refusals = Refusals()
    parsed = _parse_instances(engine, requests, refusals)
    servers = _read_capabilities(engine, host, [options for options, raw in parsed], pending, refusals)
    with refusals.collect_error():
        require_distinct_names_and_ports([options for options, raw in parsed])
        _require_names_unused_by_other_engines(engine, [options for options, raw in parsed], root)
    if parsed and not host.fs.read_only:
        require_host_tool(root)
    planner = None if pending.systemd else _make_planner(engine, host, requests, purge, root, refusals)
    knobs: list[Knob] = (
        [Instance(name, {}, root=root, row=engine.row) for name in planner.removed_names] if planner else []
    )
    for options, raw in parsed:
        capabilities = servers.get(options.binary)
        with refusals.collect_error(options.name):
            require_free_port(options, planner.ending_urls(options.name) if planner else [])
        with refusals.collect_error(options.name):
            if planner and capabilities and pending.can_plan(engine.list_model_paths(options)):
                knob = planner.plan_knob(options, raw, capabilities)
                knobs += [knob] if knob else []
            else:
                engine.require_valid_files(options, pending.files)
    refusals.raise_all()
    return [*knobs, PlanReport(planner.services if planner else [])]


def require_host_tool(root: str) -> None:
    if not os.path.exists(textfile.path_in_tree(root, HOST_TOOL)):
        raise BadRequest(
            f"There is no {HOST_TOOL}, which the units of instances call. Run the role epyc_base, or the module "
            "epyc_host_tool."
        )


def _require_names_unused_by_other_engines(engine: Engine, instances: Sequence[OptionTable], root: str) -> None:
    """Refuse a name that an instance of another engine has: who asks an instance of this host names no engine."""
    titles = {other.name: other.row.title for other in list_installed(root) if other.row is not engine.row}
    for options in instances:
        if options.name in titles:
            raise BadRequest(
                f"{titles[options.name]} has an instance {options.name} on this host. Give this one another name."
            )


def _make_planner(
    engine: Engine, host: Host, asked: Sequence[Mapping[str, Any]], purge: Purge, root: str, refusals: Refusals
) -> Planner:
    """Return the planner; what is wrong with the instances says more than that systemd does not answer."""
    try:
        return Planner(engine, host, asked, purge, root)
    except TuningError:
        refusals.raise_all()
        raise


def _parse_instances(
    engine: Engine, asked: Sequence[Mapping[str, Any]], refusals: Refusals
) -> list[tuple[OptionTable, Mapping[str, Any]]]:
    """Return the options of each instance that has valid ones, beside the dictionary that they were read from."""
    parsed: list[tuple[OptionTable, Mapping[str, Any]]] = []
    for raw in asked:
        with refusals.collect_error(raw.get("name")):
            options = engine.options.parse(raw)
            parsed.append((options, raw))
            require_known_user(options)
    return parsed


def _read_capabilities(
    engine: Engine, host: Host, instances: Sequence[OptionTable], pending: Pending, refusals: Refusals
) -> dict[str, Any]:
    """Return the capabilities of each server by its path; None for a server that was refused, for all its instances.

    A server that will be installed later is left out.
    """
    servers: dict[str, Any] = {}
    for options in instances:
        if options.binary in servers or pending.is_binary_pending(options):
            continue
        servers[options.binary] = None
        with refusals.collect_error(options.name):
            servers[options.binary] = engine.read_capabilities(host, options)
    return servers


class Planner:
    """Plans one instance after the other beside those that it has planned, and those that are on the host."""

    def __init__(self, engine: Engine, host: Host, asked: Sequence[Mapping[str, Any]], purge: Purge, root: str) -> None:
        self.engine = engine
        self.host = host
        self.root = root
        self.services: list[InstancePlan] = []
        self._names = [str(raw.get("name")) for raw in asked]
        self._installed = read_installed_units(root, engine.row)
        others = {name: text for name, text in self._installed.items() if name not in self._names}
        #: Instances on the host that will be removed.
        self.removed_names = [name for name, text in others.items() if purge.should_remove(text)]
        staying = [parse_unit_plan(text) for name, text in others.items() if name not in self.removed_names]
        self._staying = [plan for plan in staying if plan]
        self._running = find_running_instances([*self.removed_names, *self._names], engine.row)
        self._held = {name: list(list_held_memory(host, name, engine.row)) for name in self._running}

    def ending_urls(self, name: str) -> list[str]:
        """Return the URLs of the running instances that have ended when this one starts, "" where one is not known.

        These are the instance itself, and those that are removed.
        """
        ending = [other for other in self._running if other in self.removed_names or other == name]
        return [(parse_unit_plan(self._installed.get(other, "")) or {}).get("url", "") for other in ending]

    def plan_knob(self, options: OptionTable, raw: Mapping[str, Any], capabilities: Any) -> Instance | None:
        """Return the knob of an instance; None where its unit is not for this host. BadRequest where it cannot be."""
        engine, proof = self.engine, None
        held = _list_released_memory(self._held, self._running)
        service = plan_with_others(engine, self.host, options, capabilities, held, self.services, self._staying)
        if not engine.is_served_here(service):
            self.services.append(service)
            return None
        before = self._installed.get(options.name)
        service.rate = start_limits.parse_read_rate(before)
        arguments = engine.build_arguments(service, capabilities)
        loaded = _read_loaded_files(engine, service, capabilities)
        files = engine.render_units(service, arguments, *loaded)
        after = files[f"{UNIT_FOLDER}/{service.unit}"]
        if options.unit_settings and before != after:
            systemd_verify.require_valid_units(files)
        is_running = options.name in self._running
        is_restart = is_running and needs_restart(before, after)
        if is_restart or not is_running:
            service.remarks += engine.try_start(self.host, service, capabilities, arguments)
            if service.files:
                largest = max(service.files, key=lambda path: service.files[path][0])
                service.rate = start_limits.choose_read_rate(read_speed.measure_read_speed(largest))
            files = engine.render_units(service, arguments, *loaded)
        if is_restart and options.update_order == "start_first":
            proof = self._prepare_start_first(raw, service, capabilities, before)
        service.remarks += start_limits.list_start_remarks(service)
        self.services.append(service)
        return Instance(options.name, files, service, self.root, proof, engine.row)

    def _prepare_start_first(
        self, raw: Mapping[str, Any], service: InstancePlan, capabilities: Any, before: str | None
    ) -> Callable[[], None] | None:
        """Return what starts the new instance beside the one that runs; None where there is no room for both."""
        twin = start_first.temporary_name(service.name)
        if twin in [*self._names, *self._installed]:
            raise BadRequest(f"update_order start_first needs the name {twin} for a while.")
        ended = _list_released_memory(self._held, [*self.removed_names, *(other.name for other in self.services)])
        running_plan = parse_unit_plan(before or "")
        return _make_start_proof(self.engine, self.host, raw, service, capabilities, ended, self.services, running_plan)


def _list_released_memory(held: Mapping[str, list[HeldMemory]], names: Sequence[str]) -> list[HeldMemory]:
    """Return what those of the running instances hold that have ended by then."""
    return [memory for name in held if name in names for memory in held[name]]


def _make_start_proof(
    engine: Engine,
    host: Host,
    raw: Mapping[str, Any],
    service: InstancePlan,
    capabilities: Any,
    ended: Sequence[HeldMemory],
    before: Sequence[InstancePlan],
    running_plan: Mapping[str, Any] | None,
) -> Callable[[], None] | None:
    """Return what starts an instance beside the one that runs; None, and a remark, where there is no room for both."""
    try:
        twin = start_first.plan_temporary_instance(engine, host, raw, capabilities, ended, before, running_plan)
    except BadRequest as error:
        service.remarks.append(f"update_order: what runs is stopped first, for want of room. {error}")
        return None
    arguments = engine.build_arguments(twin, capabilities)
    return partial(
        start_first.require_units_serve,
        engine.render_units(twin, arguments, *_read_loaded_files(engine, twin, capabilities)),
    )


def _read_loaded_files(
    engine: Engine, service: InstancePlan, capabilities: Any
) -> tuple[dict[str, list[int]], int | None]:
    """Return the files of the programs of an instance, and when its keys changed, both of which a unit carries.

    BadRequest for what of the user's own cannot be in a unit.
    """
    return engine.list_program_files(service, capabilities), engine.read_keys_change_time(service.options, capabilities)
