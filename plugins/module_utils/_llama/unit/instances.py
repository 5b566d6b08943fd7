# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All instances of llama-server that a host shall have, planned together and refused where they cannot be.

Everything that can be refused is refused before a unit is touched, so that what runs goes on.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.paths import COMMAND, UNIT_FOLDER
from ..._knobs.knob import Knob
from ..binary import arguments as server_arguments
from ..binary import probe as server_probe
from ..hooks.workers import reach
from ..plan import worker_rules
from ..plan.options import Options
from . import beside, check, disk, timing, walls
from .files import rpc_binary, unit_files
from .installed import installed_units, plan_of
from .instance import Instance, Plans, restarts
from .planned import held_by, plan_beside, running
from .refusals import (
    read_key_file,
    refuse_taken_port,
    refuse_unknown_user,
    refuse_unreadable,
    refuse_what_two_have,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..binary.capabilities import Capabilities
    from ..plan.service import Service
    from .planned import Held

#: How long a worker on another host may take to answer before this one is changed at all.
WORKER_SECONDS = 10


def knobs_of(host: Host, asked: Sequence[Mapping[str, Any]], purge: bool, root: str = "/") -> list[Knob]:
    """Return what brings these instances to the host, and with ``purge`` takes all others away.

    BadRequest says of which one, and why it cannot be; nothing was changed then.
    """
    options = []
    servers: dict[str, Capabilities] = {}
    for raw in asked:
        with _named(raw.get("name")):
            one = Options.parse(raw)
            refuse_unknown_user(one)
            options.append(one)
            known = servers.get(one.binary)
            servers[one.binary] = known or server_probe.capabilities(one.binary, walls.of_trial(one, []))
    refuse_what_two_have(options)
    if options and not host.fs.read_only and not os.path.exists(textfile.under(root, COMMAND)):
        raise BadRequest(
            f"There is no {COMMAND}, which their units call. Run the role base, or the module epyc_engine."
        )
    names = [one.name for one in options]
    installed = installed_units(root)
    gone = [name for name in installed if purge and name not in names]
    others = [plan_of(text) for name, text in installed.items() if name not in names and not purge]
    staying = [plan for plan in others if plan]
    runs = running([*gone, *names])
    held = {name: list(held_by(host, name)) for name in runs}
    services: list[Service] = []
    knobs: list[Knob] = [Instance(name, {}, root=root) for name in gone]
    computed: dict[str, list[str]] = {}
    for one, raw in zip(options, asked):
        with _named(one.name):
            server, proof = servers[one.binary], None
            service = plan_beside(host, one, server, _freed(held, runs), services, staying)
            service.rate = timing.rate_of(installed.get(one.name), service)
            refuse_taken_port(one, [name for name in runs if name in gone or name == one.name])
            arguments = server_arguments.arguments(service.wants, server)
            loaded = _loaded(service, server)
            files = unit_files(service, arguments, *loaded)
            before, after = installed.get(one.name), files[f"{UNIT_FOLDER}/{service.unit}"]
            if one.unit_settings and before != after:
                check.refuse_settings(files)
            anew = one.name in runs and restarts(before, after)
            if anew or one.name not in runs:
                if one.rpc_workers and not host.fs.read_only:
                    reach(worker_rules.named(one.rpc_workers), WORKER_SECONDS)
                service.remarks += _tried(service, server, arguments, computed)
                largest = max(service.files, key=lambda path: service.files[path][0])
                service.rate = timing.rate(disk.speed(largest))
                files = unit_files(service, arguments, *loaded)
            if anew and one.update_order == "start_first":
                if beside.name_of(one.name) in [*names, *installed]:
                    raise BadRequest(f"update_order start_first needs the name {beside.name_of(one.name)} for a while.")
                ended = _freed(held, [*gone, *(other.name for other in services)])
                proof = _proof(host, raw, service, server, ended, services, plan_of(before or ""))
        service.remarks += timing.remarks(service)
        services.append(service)
        knobs.append(Instance(one.name, files, service, root, proof))
    return [*knobs, Plans(services)]


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


@contextmanager
def _named(name: object) -> Iterator[None]:
    """Have a refusal say which instance it is about."""
    try:
        yield
    except TuningError as error:
        error.args = (f"Instance {name}: {error}",)
        raise
