# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All instances of llama-server that a host shall have, planned together and refused where they cannot be.

Everything that can be refused is refused before a unit is touched, so that what runs goes on.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.paths import COMMAND
from ..._knobs.knob import Knob
from ..._knobs.units import show
from ..binary import arguments as server_arguments
from ..binary import probe as server_probe
from ..plan.names import unit_of
from ..plan.options import Options
from .files import unit_files
from .installed import installed_units, plan_of
from .instance import Instance, Plans
from .planned import held_by, plan_beside
from .refusals import refuse_taken_port, refuse_what_two_have

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..binary.capabilities import Capabilities
    from ..plan.service import Service


def knobs_of(host: Host, asked: Sequence[Mapping[str, Any]], purge: bool, root: str = "/") -> list[Knob]:
    """Return what brings these instances to the host, and with ``purge`` takes all others away.

    BadRequest says of which one, and why it cannot be; nothing was changed then.
    """
    options = []
    servers: dict[str, Capabilities] = {}
    tried: dict[str, list[str]] = {}
    for raw in asked:
        with _named(raw.get("name")):
            one = Options.parse(raw)
            options.append(one)
            servers[one.binary] = servers.get(one.binary) or server_probe.capabilities(one.binary)
    refuse_what_two_have(options)
    if options and not host.fs.read_only and not os.path.exists(textfile.under(root, COMMAND)):
        raise BadRequest(
            f"There is no {COMMAND}, which their units call. Run the role base, or the module epyc_engine."
        )
    names = [one.name for one in options]
    others = {name: text for name, text in installed_units(root).items() if name not in names}
    gone = list(others) if purge else []
    staying = [plan for plan in map(plan_of, others.values()) if plan and not purge]
    running = _running([*gone, *names])
    held = [one for name in running for one in held_by(host, unit_of(name))]
    services: list[Service] = []
    knobs: list[Knob] = [Instance(name, {}, root=root) for name in gone]
    for one in options:
        with _named(one.name):
            service = plan_beside(host, one, servers[one.binary], held, services, staying)
            arguments = server_arguments.arguments(service.wants, servers[one.binary])
            refuse_taken_port(one, [name for name in running if name in gone or name == one.name])
            server_probe.dry_run(one.binary, arguments)
            if one.binary not in tried:
                tried[one.binary] = server_probe.one_token(one.binary, servers[one.binary])
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


def _running(names: Sequence[str]) -> list[str]:
    shown = show([unit_of(name) for name in names]) if names else {}
    return [name for name in names if shown.get(unit_of(name), {}).get("ActiveState") == "active"]
