# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All instances of llama-server that a host shall have, planned together and refused where they cannot be.

Everything that can be refused is refused before a unit is touched, so that what runs goes on.
"""

from __future__ import annotations

import os
from functools import partial

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.paths import HOST_TOOL, UNIT_FOLDER
from ..._knobs.protocol.knob import Knob
from ..hooks.workers import reach
from ..llama_cpp import arguments as server_arguments
from ..llama_cpp import probe as server_probe
from ..options import rpc_endpoints
from ..options.options import Options
from . import beside, check, disk, timing, walls
from .files import rpc_binary, unit_files
from .installed import installed_units, plan_of
from .instance import Instance, Plans, restarts
from .pending import NOTHING, Pending
from .planned import held_by, plan_beside, refuse_damaged_files, running
from .refusals import (
    Refusals,
    read_key_file,
    refuse_taken_port,
    refuse_unknown_user,
    refuse_unreadable,
    refuse_what_two_have,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..llama_cpp.capabilities import Capabilities
    from ..plan.instance_plan import Service
    from .planned import Held

#: How long a worker on another host may take to answer before this one is changed at all.
WORKER_SECONDS = 10


def knobs_of(
    host: Host, asked: Sequence[Mapping[str, Any]], purge: bool, root: str = "/", pending: Pending = NOTHING
) -> list[Knob]:
    """Return what brings these instances to the host, and with ``purge`` takes all others away.

    BadRequest names each instance that cannot be, and why, one a line; nothing was changed then. An instance of which
    something is ``pending`` is only held against what is on the host already, and has no knob.
    """
    refusals = Refusals()
    parsed = _parse_instances(asked, refusals)
    servers = _ask_servers([options for options, raw in parsed], pending, refusals)
    with refusals.kept():
        refuse_what_two_have([options for options, raw in parsed])
    if parsed and not host.fs.read_only:
        refuse_missing_command(root)
    planner = None if pending.systemd else _make_planner(host, asked, purge, root, refusals)
    knobs: list[Knob] = [Instance(name, {}, root=root) for name in planner.gone] if planner else []
    for options, raw in parsed:
        server = servers.get(options.binary)
        with refusals.kept(options.name):
            refuse_taken_port(options, planner.ending_with(options.name) if planner else [])
        with refusals.kept(options.name):
            if planner and server and pending.can_plan(options):
                knobs.append(planner.plan(options, raw, server))
            else:
                refuse_damaged_files(options, pending.files)
    refusals.raise_all()
    return [*knobs, Plans(planner.services if planner else [])]


def refuse_missing_command(root: str) -> None:
    if not os.path.exists(textfile.path_in_tree(root, HOST_TOOL)):
        raise BadRequest(
            f"There is no {HOST_TOOL}, which the units of instances call. Run the role base, or the module epyc_engine."
        )


def _make_planner(
    host: Host, asked: Sequence[Mapping[str, Any]], purge: bool, root: str, refusals: Refusals
) -> Planner:
    """Return the planner; what is wrong with the instances says more than that systemd does not answer."""
    try:
        return Planner(host, asked, purge, root)
    except TuningError:
        refusals.raise_all()
        raise


def _parse_instances(asked: Sequence[Mapping[str, Any]], refusals: Refusals) -> list[tuple[Options, Mapping[str, Any]]]:
    """Return the options of each instance that has valid ones, beside the dictionary that they were read from."""
    parsed = []
    for raw in asked:
        with refusals.kept(raw.get("name")):
            options = Options.parse(raw)
            parsed.append((options, raw))
            refuse_unknown_user(options)
    return parsed


def _ask_servers(instances: Sequence[Options], pending: Pending, refusals: Refusals) -> dict[str, Capabilities | None]:
    """Return the capabilities of each server by its path; None of one that was refused, once for all of its instances.

    A server that will be installed later is not in it.
    """
    servers: dict[str, Capabilities | None] = {}
    for options in instances:
        if options.binary in servers or pending.has_binary(options):
            continue
        servers[options.binary] = None
        with refusals.kept(options.name):
            servers[options.binary] = server_probe.capabilities(options.binary, walls.of_trial(options, []))
    return servers


class Planner:
    """Plans one instance after the other beside those that it has planned, and those that are on the host."""

    def __init__(self, host: Host, asked: Sequence[Mapping[str, Any]], purge: bool, root: str) -> None:
        self.host = host
        self.root = root
        self.services: list[Service] = []
        self._names = [str(raw.get("name")) for raw in asked]
        self._installed = installed_units(root)
        #: Instances on the host that will be removed.
        self.gone = [name for name in self._installed if purge and name not in self._names]
        others = [plan_of(text) for name, text in self._installed.items() if name not in self._names and not purge]
        self._staying = [plan for plan in others if plan]
        self._running = running([*self.gone, *self._names])
        self._held = {name: list(held_by(host, name)) for name in self._running}
        #: Remarks of the computed token, by binary.
        self._computed: dict[str, list[str]] = {}

    def ending_with(self, name: str) -> list[str]:
        """Return the running instances that have ended when this one starts: itself, and those that are removed."""
        return [other for other in self._running if other in self.gone or other == name]

    def plan(self, one: Options, raw: Mapping[str, Any], server: Capabilities) -> Instance:
        """Return the knob of an instance. BadRequest where it cannot be beside the others."""
        proof = None
        service = plan_beside(self.host, one, server, _freed(self._held, self._running), self.services, self._staying)
        service.rate = timing.rate_of(self._installed.get(one.name), service)
        arguments = server_arguments.arguments(service.wants, server)
        loaded = _loaded(service, server)
        files = unit_files(service, arguments, *loaded)
        before, after = self._installed.get(one.name), files[f"{UNIT_FOLDER}/{service.unit}"]
        if one.unit_settings and before != after:
            check.refuse_settings(files)
        anew = one.name in self._running and restarts(before, after)
        if anew or one.name not in self._running:
            if one.rpc_workers and not self.host.fs.read_only:
                reach(rpc_endpoints.named(one.rpc_workers), WORKER_SECONDS)
            service.remarks += _tried(service, server, arguments, self._computed)
            largest = max(service.files, key=lambda path: service.files[path][0])
            service.rate = timing.rate(disk.speed(largest))
            files = unit_files(service, arguments, *loaded)
        if anew and one.update_order == "start_first":
            proof = self._start_beside(raw, service, server, before)
        service.remarks += timing.remarks(service)
        self.services.append(service)
        return Instance(one.name, files, service, self.root, proof)

    def _start_beside(
        self, raw: Mapping[str, Any], service: Service, server: Capabilities, before: str | None
    ) -> Callable[[], None] | None:
        """Return what starts the new instance beside the one that runs; None where there is no room for both."""
        twin = beside.name_of(service.name)
        if twin in [*self._names, *self._installed]:
            raise BadRequest(f"update_order start_first needs the name {twin} for a while.")
        ended = _freed(self._held, [*self.gone, *(other.name for other in self.services)])
        return _proof(self.host, raw, service, server, ended, self.services, plan_of(before or ""))


def _freed(held: Mapping[str, list[Held]], names: Sequence[str]) -> list[Held]:
    """Return what those of the running instances hold that have ended by then."""
    return [one for name in held if name in names for one in held[name]]


def _proof(
    host: Host,
    raw: Mapping[str, Any],
    service: Service,
    server: Capabilities,
    ended: Sequence[Held],
    before: Sequence[Service],
    runs: Mapping[str, Any] | None,
) -> Callable[[], None] | None:
    """Return what starts an instance beside the one that runs; None, and a remark, where there is no room for both."""
    try:
        twin = beside.planned(host, raw, server, ended, before, runs)
    except BadRequest as error:
        service.remarks.append(f"update_order: what runs is stopped first, for want of room. {error}")
        return None
    arguments = server_arguments.arguments(twin.wants, server)
    return partial(beside.prove, unit_files(twin, arguments, *_loaded(twin, server)))


def _loaded(service: Service, server: Capabilities) -> tuple[dict[str, list[int]], int | None]:
    """Return the files of the programs of an instance, and when its keys changed, both of which a unit carries.

    BadRequest for what of the user's own cannot be in a unit.
    """
    options = service.options
    server_arguments.refuse_variables(options.extra_environment, service.wants, server)
    keys = read_key_file(options, server)
    programs = dict(server.files)
    if service.rpc:
        programs.update(server_probe.program_files(rpc_binary(options), walls.of_trial(options, [rpc_binary(options)])))
    return programs, keys


def _tried(
    service: Service, server: Capabilities, arguments: Sequence[str], computed: dict[str, list[str]]
) -> list[str]:
    """Try behind the walls of the unit what its start needs: its files, its arguments, and this CPU; return remarks.

    BadRequest where one fails. Of each binary one token is enough, and what came of it is in ``computed``.
    """
    options = service.options
    behind = walls.of_trial(options, service.files)
    refuse_unreadable(options, list(service.files), service.staged, behind)
    server_probe.dry_run(options.binary, arguments, behind)
    if options.binary not in computed:
        computed[options.binary] = server_probe.one_token(options.binary, server, behind)
    return computed[options.binary]
