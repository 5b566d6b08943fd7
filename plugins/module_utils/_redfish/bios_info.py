# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a BMC shows of the BIOS: the machine, its settings by option and by attribute, and some of its registry."""

from __future__ import annotations

from .._errors import BadRequest
from .attributes.catalogue import KNOBS
from .attributes.redaction import scrubbed
from .attributes.resolve import attribute_of, denied
from .connection.responses import BmcError
from .machine import look
from .settings_table import claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .attributes.registry import Attribute
    from .connection.client import Client

#: Groups of attributes to describe, beside names.
CATALOGUE, ALL = "catalogue", "all"


def report(client: Client, system: str | None, describe: Sequence[str]) -> dict[str, Any]:
    """Read all of it; changes nothing. A machine without a registry still shows its values."""
    machine = look(client, system)
    remarks = []
    try:
        registry = machine.registry()
    except BmcError as error:
        registry = None
        remarks.append(str(error))
    described: list[Attribute] = []
    if registry is not None:
        known = [attribute_of(registry, machine.vendor, knob) for knob in KNOBS]
        for name in describe:
            if name == ALL:
                described += registry.attributes.values()
            elif name == CATALOGUE:
                described += [one for one in known if one is not None]
            else:
                found = registry.get(name)
                if found is None:
                    near = registry.close_to(name)
                    raise BadRequest(
                        f"describe: this machine has no attribute {name}."
                        + (f" Did you mean {' or '.join(near)}?" if near else "")
                    )
                described.append(found)
    return {
        "machine": {**machine.shown, "apply_times": machine.apply_times},
        "claims": claims(registry, machine) if registry else {},
        "active": scrubbed(machine.active, registry),
        "pending": scrubbed(machine.pending, registry),
        "jobs": machine.jobs_shown,
        "messages": [one.text or one.id for one in machine.messages],
        "registry": {one.name: _described(one) for one in described},
        "remarks": remarks,
    }


def _described(one: Attribute) -> dict[str, Any]:
    return {
        "title": one.title,
        "menu": one.menu,
        "type": one.type,
        "takes": one.allowed(),
        "flags": [flag for flag, set_ in one.flags.items() if set_],
        "never_set": denied(one),
    }
