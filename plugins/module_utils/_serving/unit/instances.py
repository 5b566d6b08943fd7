# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans all instances of an engine that a host shall have, and refuses impossible ones before a unit is touched."""

from __future__ import annotations

import os

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.paths import HOST_TOOL, UNIT_FOLDER
from ..._knobs.managed_units import BETWEEN_STATES
from ..hooks.read_progress import describe_start_of_unit
from ..update.handover import Handover
from ..update.restart import START_FIRST, STOP_FIRST, Restart, estimate_start_seconds
from . import read_speed, start_first, start_limits, systemd_verify
from .installed import list_installed_instances, parse_unit_plan, read_instance_unit_texts
from .instance import Instance, PlanReport, needs_restart
from .pending import NOTHING_PENDING, Pending
from .refusals import (
    Refusals,
    require_distinct_names_and_ports,
    require_free_port,
    require_known_user,
    require_no_packaged_unit,
)
from .shared_host import (
    list_memory_of_instance,
    plan_instance_among_others,
    read_instance_states,
    request_on_chosen_socket,
    wait_for_changing_units,
)
from .unit_files import server_url_on_this_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._knobs.protocol.knob import Knob
    from ..options.option_table import OptionTable
    from ..plan.instance_plan import InstancePlan
    from .engine import Engine, HeldMemory
    from .start_first import NextServer


class Purge:
    """Which instances that are not requested are removed: those on a single host, and parts of groups of hosts."""

    def __init__(self, single_host: bool = False, groups: bool = False) -> None:
        self.single_host = single_host
        self.groups = groups

    def should_remove_instance(self, text: str) -> bool:
        """Return whether the instance whose unit has this text is removed."""
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
    """Return the knobs that install the requested instances, and remove others as ``purge`` says.

    BadRequest has a line for each instance that cannot be installed, with the reason; nothing was changed then. An
    instance is only validated, and has no knob, while something that it needs is ``pending``.
    """
    refusals = Refusals()
    parsed_requests = _parse_options_of_requests(engine, requests, refusals)
    servers = _read_capabilities_by_binary(
        engine, host, [options for options, request in parsed_requests], pending, refusals
    )
    with refusals.collect_error_of_block():
        require_distinct_names_and_ports([options for options, request in parsed_requests])
        _require_names_unused_by_other_engines(engine, [options for options, request in parsed_requests], root)
    if parsed_requests and not host.fs.read_only:
        require_host_tool(root)
    planner = None if pending.systemd else _make_planner_after_refusals(engine, host, requests, purge, root, refusals)
    removed_names = planner.removed_names if planner else []
    knobs: list[Knob] = [Instance(name, {}, root=root, row=engine.row) for name in removed_names]
    for options, request in parsed_requests:
        capabilities = servers.get(options.binary)
        with refusals.collect_error_of_block(options.name):
            require_no_packaged_unit(engine.row.unit_names(options.name), root)
        with refusals.collect_error_of_block(options.name):
            require_free_port(host.fs, options, planner.list_ending_units(options.name) if planner else [])
        with refusals.collect_error_of_block(options.name):
            if planner and capabilities and pending.can_plan_with_models(engine.list_model_paths(options)):
                knob = planner.plan_instance_knob(options, request, capabilities)
                knobs += [knob] if knob else []
            else:
                engine.require_valid_files(options, pending.files)
    refusals.raise_collected_errors()
    if planner and not host.fs.read_only:
        wait_for_changing_units(planner.changing_services)
    restarts = [knob.restart for knob in knobs if isinstance(knob, Instance) and knob.restart]
    return [*knobs, PlanReport(planner.services if planner else [], restarts)]


def require_host_tool(root: str) -> None:
    if not os.path.exists(textfile.path_in_tree(root, HOST_TOOL)):
        raise BadRequest(
            f"There is no {HOST_TOOL}, which the units of instances call. Run the role epyc_base, or the module "
            "epyc_host_tool."
        )


def _require_names_unused_by_other_engines(engine: Engine, instances: Sequence[OptionTable], root: str) -> None:
    titles = {other.name: other.row.title for other in list_installed_instances(root) if other.row is not engine.row}
    for options in instances:
        if options.name in titles:
            raise BadRequest(
                f"{titles[options.name]} has an instance {options.name} on this host. Give this one another name."
            )


def _make_planner_after_refusals(
    engine: Engine, host: Host, requests: Sequence[Mapping[str, Any]], purge: Purge, root: str, refusals: Refusals
) -> Planner:
    """Return the planner. Errors in the requests are raised before the error of a systemd that does not answer."""
    try:
        return Planner(engine, host, requests, purge, root)
    except TuningError:
        refusals.raise_collected_errors()
        raise


def _parse_options_of_requests(
    engine: Engine, requests: Sequence[Mapping[str, Any]], refusals: Refusals
) -> list[tuple[OptionTable, Mapping[str, Any]]]:
    parsed_requests: list[tuple[OptionTable, Mapping[str, Any]]] = []
    for request in requests:
        with refusals.collect_error_of_block(request.get("name")):
            options = engine.options.parse(request)
            parsed_requests.append((options, request))
            require_known_user(options)
    # An instance that may choose its socket is planned after those that may not.
    return sorted(parsed_requests, key=lambda each: not (each[0].cpus or each[0].nodes))


def _read_capabilities_by_binary(
    engine: Engine, host: Host, instances: Sequence[OptionTable], pending: Pending, refusals: Refusals
) -> dict[str, Any]:
    """Return the capabilities of each server by path: None for a refused server, nothing for a pending one."""
    servers: dict[str, Any] = {}
    for options in instances:
        if options.binary in servers or pending.is_binary_pending(options):
            continue
        servers[options.binary] = None
        with refusals.collect_error_of_block(options.name):
            servers[options.binary] = engine.read_capabilities(host, options)
    return servers


class Planner:
    """Plans one instance after the other, next to those planned before and those that stay installed."""

    def __init__(
        self, engine: Engine, host: Host, requests: Sequence[Mapping[str, Any]], purge: Purge, root: str
    ) -> None:
        self.engine = engine
        self.host = host
        self.root = root
        self.services: list[InstancePlan] = []
        self._names = [str(request.get("name")) for request in requests]
        if not host.fs.read_only:
            for name in self._names:
                start_first.end_leftover_server(root, name, engine.row)
        self._installed = read_instance_unit_texts(root, engine.row)
        not_requested = {name: text for name, text in self._installed.items() if name not in self._names}
        #: Names of installed instances that will be removed.
        self.removed_names = [name for name, text in not_requested.items() if purge.should_remove_instance(text)]
        staying = [parse_unit_plan(text) for name, text in not_requested.items() if name not in self.removed_names]
        self._staying = [plan for plan in staying if plan]
        self._states = read_instance_states([*self.removed_names, *self._names], engine.row)
        #: Names of instances that run, those included that systemd is starting or stopping at this moment.
        self._running = [name for name, state in self._states.items() if state in ("active", *BETWEEN_STATES)]
        #: Instances that systemd is starting or stopping, and that need no restart.
        self.changing_services: list[InstancePlan] = []
        self._held = {name: list(list_memory_of_instance(host, name, engine.row)) for name in self._running}

    def list_ending_units(self, name: str) -> list[str]:
        """Return the units of removed instances, and of the running version of this one."""
        ending = [other for other in self._running if other in self.removed_names or other == name]
        return [unit for other in ending for unit in self.engine.row.unit_names(other)]

    def plan_instance_knob(
        self, options: OptionTable, request: Mapping[str, Any], capabilities: Any
    ) -> Instance | None:
        """Return the knob of an instance; None without a unit on this host. BadRequest for an impossible instance."""
        engine = self.engine
        held = _list_memory_of_running(self._held, self._running)
        text_before = self._installed.get(options.name)
        engine.remember_installed_unit(options.name, text_before or "")
        service = plan_instance_among_others(
            engine, self.host, options, capabilities, held, self.services, self._staying
        )
        if not engine.has_unit_on_this_host(service):
            self.services.append(service)
            return None
        service.rate = start_limits.parse_read_rate_of_unit(text_before)
        arguments = engine.build_arguments(service, capabilities)
        loaded_files = _program_files_and_keys_time(engine, service, capabilities)
        files = engine.render_units(service, arguments, *loaded_files)
        if options.unit_settings and text_before != files[f"{UNIT_FOLDER}/{service.unit}"]:
            systemd_verify.require_valid_units(files)
        is_running = options.name in self._running
        is_restart = is_running and needs_restart(self.root, files)
        restart: Restart | None = None
        next_server: NextServer | None = None
        speed: float | None = None
        if is_restart or not is_running:
            service.remarks += engine.try_program_in_sandbox(self.host, service, capabilities, arguments)
            speed = _measure_read_speed(service)
            service.rate = start_limits.choose_read_rate_for_speed(speed) if service.files else service.rate
            files = engine.render_units(service, arguments, *loaded_files)
        if self._states[options.name] in BETWEEN_STATES:
            progress = describe_start_of_unit(service.unit, parse_unit_plan(text_before or ""))
            if is_restart:
                service.remarks.append(f"{progress}. It is stopped, because the instance changes.")
            elif self.host.fs.read_only:
                service.remarks.append(f"{progress}. A run that is no check waits until it serves.")
            else:
                self.changing_services.append(service)
        elif is_restart:
            running = parse_unit_plan(text_before or "") or {}
            next_server, reason = self._plan_next_server(request, service, capabilities, running)
            restart = _plan_restart(service, running, next_server, reason, speed)
        service.remarks += start_limits.list_slow_start_remarks(service)
        self.services.append(service)
        return Instance(options.name, files, service, self.root, restart, next_server, engine.row)

    def _plan_next_server(
        self, request: Mapping[str, Any], service: InstancePlan, capabilities: Any, running: Mapping[str, Any]
    ) -> tuple[NextServer | None, str]:
        """Return the server that is started before the running one stops, None without one; and a reason against it.

        The reason is "" where nobody notices the restart, and where the order was chosen by the user.
        """
        engine, options = self.engine, service.options
        reason = start_first.single_server_reason(options)
        temporary_name = start_first.temporary_instance_name(options.name)
        if temporary_name in [*self._names, *self._installed]:
            reason = f"The new server cannot be started first, because {temporary_name} is another instance."
        if options.update_order == STOP_FIRST or reason:
            return None, reason if options.update_order != STOP_FIRST else ""
        released = _list_memory_of_running(self._held, [*self.removed_names, *(other.name for other in self.services)])
        request = request_on_chosen_socket(request, service)
        try:
            temporary = start_first.plan_temporary_instance(
                engine, self.host, request, capabilities, released, self.services, running or None
            )
        except BadRequest as error:
            return None, f"The new server cannot be started first, for want of room. {error}"
        arguments = engine.build_arguments(temporary, capabilities)
        loaded_files = _program_files_and_keys_time(engine, temporary, capabilities)
        files = engine.render_units(temporary, arguments, *loaded_files)
        handover = Handover(options.name, options.host, options.port, temporary.options.port)
        obstacle = self._find_obstacle_of_second_start(request, service, temporary, capabilities, running)
        obstacle = obstacle or handover.redirection_impossible_reason()
        next_server = start_first.NextServer(temporary, files, engine.row, None if obstacle else handover, self.root)
        return next_server, obstacle

    def _find_obstacle_of_second_start(
        self,
        request: Mapping[str, Any],
        service: InstancePlan,
        temporary: InstancePlan,
        capabilities: Any,
        running: Mapping[str, Any],
    ) -> str:
        """Return why the instance cannot start while its temporary server runs; "" where it can."""
        if server_url_on_this_host(service.options) != running.get("url"):
            return "The port changes, so that nobody is at the new one before."
        released = _list_memory_of_running(
            self._held, [*self.removed_names, *(other.name for other in self.services), service.name]
        )
        try:
            plan_instance_among_others(
                *(self.engine, self.host, self.engine.options.parse(request), capabilities, released),
                [*self.services, temporary],
            )
        except BadRequest as error:
            return f"The new server is only tried before, because its memory does not suffice for two of it. {error}"
        return ""


def _measure_read_speed(service: InstancePlan) -> float | None:
    largest = max(service.files, key=lambda path: service.files[path][0], default=None)
    return read_speed.measure_direct_read_speed(largest) if largest else None


def _plan_restart(
    service: InstancePlan,
    running: Mapping[str, Any],
    next_server: NextServer | None,
    reason: str,
    speed: float | None,
) -> Restart:
    """Return the restart of an instance. A server that was started first leaves its files in the page cache."""
    seconds = 0.0
    if not (next_server and next_server.handover):
        seconds = estimate_start_seconds(
            service.unit, running.get("files", {}), service.files, speed, next_server is not None
        )
    url = server_url_on_this_host(service.options)
    is_measured = running.get("url") == url
    order = START_FIRST if next_server else STOP_FIRST
    return Restart(service.unit, order, seconds, reason, url if is_measured else "", service.options.stop_timeout)


def _list_memory_of_running(held: Mapping[str, list[HeldMemory]], names: Sequence[str]) -> list[HeldMemory]:
    return [memory for name in held if name in names for memory in held[name]]


def _program_files_and_keys_time(
    engine: Engine, service: InstancePlan, capabilities: Any
) -> tuple[dict[str, list[int]], int | None]:
    return engine.list_program_file_sizes_and_times(service, capabilities), engine.read_keys_change_time(
        service.options, capabilities
    )
