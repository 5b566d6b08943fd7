# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All instances of llama-server that a host shall have, planned together and refused where they cannot be.

Everything that can be refused is refused before a unit is touched, so that what runs goes on.
"""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import contextmanager

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.paths import COMMAND, UNIT_FOLDER
from ..._kernel import numa_maps
from ..._kernel.cgroups import processes_of
from ..._knobs.knob import Knob
from ..._knobs.units import show
from ..._models import model as gguf_model
from ..._notation import cpulist
from ..binary import arguments as server_arguments
from ..binary import probe as server_probe
from ..plan import memory as memory_plan
from ..plan import plan
from ..plan.names import unit_of
from ..plan.options import Options
from .files import unit_files
from .installed import installed_units
from .instance import Instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._knobs.knob import Settings
    from ..binary.capabilities import Capabilities
    from ..plan.memory import FreeMemory
    from ..plan.service import Service

    #: Bytes by node, and huge pages by node and size in kB.
    Held = tuple[dict[int, int], dict[tuple[int, int], int]]


class Plans(Knob):
    """Changes nothing, and tells of all instances what was planned."""

    remembered = False

    def __init__(self, services: Sequence[Service]) -> None:
        self.services = services

    def wanted(self) -> Settings:
        """Return nothing."""
        return {}

    def read(self, addresses: Iterable[str]) -> Settings:
        """Return nothing."""
        return {}

    def facts(self) -> dict[str, object]:
        """Return the plans by the names of the instances, as plain data."""
        return {"services": {service.name: service.to_dict() for service in self.services}}


def knobs_of(host: Host, asked: Sequence[Mapping[str, Any]], purge: bool, root: str = "/") -> list[Knob]:
    """Return what brings these instances to the host, and with ``purge`` takes all others away.

    BadRequest says of which one, and why it cannot be; nothing was changed then.
    """
    options = []
    able: dict[str, Capabilities] = {}
    tried: dict[str, list[str]] = {}
    for raw in asked:
        with _named(raw.get("name")):
            one = Options.parse(raw)
            options.append(one)
            able[one.binary] = able.get(one.binary) or server_probe.capabilities(one.binary)
    _refuse_what_two_have(options)
    if options and not host.fs.read_only and not os.path.exists(textfile.under(root, COMMAND)):
        raise BadRequest(
            f"There is no {COMMAND}, which their units call. Run the role base, or the module epyc_engine."
        )
    names = [one.name for one in options]
    gone = [name for name in installed_units(root) if purge and name not in names]
    running = _running([*gone, *names])
    held = [one for name in running for one in _held(host, unit_of(name))]
    services: list[Service] = []
    knobs: list[Knob] = [Instance(name, {}, root=root) for name in gone]
    for one in options:
        with _named(one.name):
            service, arguments = _plan(host, one, able[one.binary], held, services)
            _refuse_a_taken_port(one, [name for name in running if name in gone or name == one.name])
            server_probe.dry_run(one.binary, arguments)
            if one.binary not in tried:
                tried[one.binary] = server_probe.one_token(one.binary, able[one.binary])
        service.remarks += tried[one.binary]
        services.append(service)
        knobs.append(Instance(one.name, unit_files(service, arguments), service, root))
    return [*knobs, Plans(services)]


@contextmanager
def _named(name: object) -> Iterator[None]:
    """Have a refusal say which instance it is about."""
    try:
        yield
    except TuningError as error:
        error.args = (f"Instance {name}: {error}",)
        raise


def _refuse_what_two_have(options: Sequence[Options]) -> None:
    names = [one.name for one in options]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"Two instances have the name {name}. Give each one of its own.")
    owners: dict[int, str] = {}
    for one in options:
        for port in (one.port, one.rpc_port):
            if port is None:
                continue
            other = owners.setdefault(port, one.name)
            if other != one.name:
                raise BadRequest(f"Instances {other} and {one.name} both have port {port}. Give each one of its own.")


def _plan(
    host: Host, options: Options, able: Capabilities, held: Sequence[Held], before: Sequence[Service]
) -> tuple[Service, list[str]]:
    """Return an instance and the arguments of its server, in what the host has left beside those planned before."""
    model = gguf_model.read(options.model)
    draft = gguf_model.read(options.draft_model) if options.drafts else None
    here = memory_plan.free_memory(host, options, [one for one in (model, draft) if one])
    for memory, pages in held:
        here.release(memory, pages)
    for other in before:
        _reserve(here, other)
    service = plan.plan_service(options, host, able, model, draft, here)
    for path in service.files:
        _refuse_what_its_user_cannot_read(options, path)
    for other in before:
        shared = set(service.placement.busy_cpus) & set(other.placement.busy_cpus)
        if shared:
            service.remarks.append(
                f"CPUs {cpulist.render(shared)} compute for {other.name} and for {options.name}: each is slower while "
                "the other works. Say with cpus which ones each shall have."
            )
    return service, server_arguments.arguments(service.wants, able)


def _refuse_what_its_user_cannot_read(options: Options, path: str) -> None:
    """Raise BadRequest where the server would not find out before it is started."""
    user = _user(options.user) if options.user else None
    groups = os.getgrouplist(options.user, user.pw_gid) if user else []
    for place, need, word in ((os.path.dirname(path), stat.S_IXOTH, "entered"), (path, stat.S_IROTH, "read")):
        found = os.stat(place)
        shift = 0
        if user:
            shift = 6 if found.st_uid == user.pw_uid else 3 if found.st_gid in groups else 0
        if not found.st_mode >> shift & need:
            who = f"user {options.user}" if user else "the user that systemd makes for it"
            raise BadRequest(
                f"{place} cannot be {word} by {who}. Change its mode, as with 'chmod o+rX', or name a user."
            )


def _user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise BadRequest(f"There is no user {name}. Make one, or leave user out.") from None


def _running(names: Sequence[str]) -> list[str]:
    shown = show([unit_of(name) for name in names]) if names else {}
    return [name for name in names if shown.get(unit_of(name), {}).get("ActiveState") == "active"]


def _held(host: Host, unit: str) -> Iterator[Held]:
    """Yield what each process of a running instance holds: they end before the new one starts."""
    default_kb = memory_plan.default_page_kb(host.fs)
    for process in processes_of(host.fs, unit):
        anonymous = (numa_maps.read(host.fs, process, ()).kinds or {}).get("anonymous")
        if anonymous is None:
            continue
        huge = sum(size for kb, size in anonymous.page_sizes.items() if kb >= default_kb)
        share = 1 - huge / anonymous.bytes if anonymous.bytes else 0
        nodes = anonymous.nodes.items()
        yield (
            {node: int(size * share) for node, size in nodes},
            {(node, default_kb): int(size * (1 - share)) // (default_kb << 10) for node, size in nodes},
        )


def _reserve(here: FreeMemory, service: Service) -> None:
    """Count as taken what an instance will hold that starts before this one, evenly on its nodes."""
    nodes, need, kb = service.placement.nodes, service.need, here.default_kb
    memory, huge = need.total, 0
    if service.options.hugepages == "pool":
        memory, huge = 0, need.total
    elif service.staged:
        # What lies there already is not free any more.
        memory = need.total - need.weights
        huge = sum(os.path.getsize(source) for source, path in service.staged.items() if not os.path.exists(path))
        kb = here.hugetlbfs_kb or kb
    pages = memory_plan.pages_for(huge // len(nodes), kb)
    here.release(dict.fromkeys(nodes, -memory // len(nodes)), {(node, kb): -pages for node in nodes})


def _refuse_a_taken_port(options: Options, ours: Sequence[str]) -> None:
    """Raise BadRequest when another program listens there; ``ours`` are running instances that end before."""
    # Imported here because most runs of the engine open no socket.
    import errno
    import socket

    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    with socket.socket(family) as probe:
        # As the server does: connections that have ended do not keep the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((options.host, options.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                if any(_has_port(name, options.port) for name in ours):
                    return
                raise BadRequest(
                    f"port {options.port} of {options.host} is taken by another program; 'ss -ltnp' tells by which. "
                    "Give the instance another port, or stop that program."
                ) from None
            words = os.strerror(error.errno or 0)
            raise BadRequest(f"host {options.host}: {words}. Say an address of this host.") from None


def _has_port(name: str, port: int) -> bool:
    """Tell whether the unit of an instance as it is now has this port."""
    words = (textfile.read(f"{UNIT_FOLDER}/{unit_of(name)}") or "").split()
    return any(pair == ("--port", str(port)) for pair in zip(words, words[1:]))
