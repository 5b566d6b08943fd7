# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers of site.yml whose settings can be undone one by one, and which settings and stored requests each has."""

from __future__ import annotations

from .._errors import BadRequest, TuningError
from .._host.host import Host
from .address_kinds import KINDS
from .catalogue import KNOBS, ROLES, find_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from .protocol.knob import Settings

LAYERS = tuple(dict.fromkeys(ROLES.values()))
#: The layers of site.yml without settings of knobs, and why none of them is undone alone.
NOT_UNDONE_ALONE = {
    **{kind.role: kind.undo_hint for kind in KINDS.values() if kind.undo_hint},
    "bios_check": "bios_check only looks.",
}


def require_layers(names: Sequence[str]) -> list[str]:
    """Return the layers to undo, each once; BadRequest for a name that is no layer of settings, and for no name."""
    known = f"The layers that can be undone are {', '.join(LAYERS)}. Nothing was changed."
    if not names:
        raise BadRequest(f"No layer is named. {known} To undo everything, leave the list of layers out.")
    for name in names:
        if name in NOT_UNDONE_ALONE:
            raise BadRequest(f"{name} cannot be undone alone. {NOT_UNDONE_ALONE[name]} {known}")
        if name not in LAYERS:
            raise BadRequest(f"There is no layer '{name}'{_similar_layer(name)} {known}")
    return list(dict.fromkeys(names))


def _similar_layer(name: str) -> str:
    """Return the end of a sentence: the layer whose name, knob or module is like this one."""
    # Imported here, because only a wrong name needs it; the file suggestions.py would go with each module that undoes.
    import difflib

    words = {word: role for row in KNOBS.values() for word in (row.module, row.name) for role in row.roles.values()}
    near = difflib.get_close_matches(name, [*LAYERS, *words], 1, 0.6)
    return f"; did you mean {words.get(near[0], near[0])}?" if near else "."


def requests_of_layers(requests: Collection[str], layers: Collection[str]) -> list[str]:
    """Return those of the stored requests, by "KNOB/LABEL", that these layers have stored."""
    return [request for request in requests if ROLES.get(request) in layers]


def _layer_of_setting(address: str) -> str:
    """Return the layer of an address, an empty text for none.

    Where layers share a knob, the variable that decides on the setting begins with the name of its layer.
    """
    row = find_row(address)
    layers = list(dict.fromkeys(row.roles.values())) if row else []
    if len(layers) == 1 or row is None:
        return "".join(layers)
    variable = row.find_variable(address.partition(":")[2], "")
    return next((layer for layer in layers if variable.startswith(f"epyc_{layer}_")), "")


class LayerSettings:
    """Which settings of each knob an undo of some layers puts back.

    Settings that the stored request of somebody's own task asks for are not of a layer, and stay.
    """

    def __init__(
        self, host: Host, layers: Collection[str], intent: Mapping[str, Any], requests: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """``intent`` and ``requests`` are what is stored. TuningError where a request that stays cannot be planned."""
        self.layers = layers
        self._kept: dict[str, set[str]] = {}
        planned = Host(host.fs, intent, stored=True)
        for request, options in requests.items():
            name = request.partition("/")[0]
            if request not in ROLES and name in KNOBS and self._has_layer(name):
                self._kept.setdefault(name, set()).update(_settings_of_request(planned, request, options))

    def addresses_to_restore(self, name: str, originals: Settings) -> set[str] | None:
        """Return which originals of a knob to put back; None for all that the knob has."""
        if not self._has_layer(name):
            return set()
        kept = self._kept.get(name, set())
        if not kept and all(role in self.layers for role in KNOBS[name].roles.values()):
            return None
        mine = (address for address in originals if address.startswith(f"{name}:") and address not in kept)
        return {address for address in mine if _layer_of_setting(address) in self.layers}

    def _has_layer(self, name: str) -> bool:
        return any(role in self.layers for role in KNOBS[name].roles.values())


def _settings_of_request(host: Host, request: str, options: Mapping[str, Any]) -> set[str]:
    """Return the addresses that a stored request asks for, and those of their holders, as of a group with masks."""
    found = set()
    try:
        for knob in KNOBS[request.partition("/")[0]].build_knobs(host, options):
            for address in knob.wanted_settings():
                holder: str | None = address
                while holder is not None:
                    found.add(holder)
                    holder = knob.holder_address(holder)
    except TuningError as error:
        raise BadRequest(
            f"The stored request {request} is of no layer of site.yml and is to stay, but which settings it asks for "
            f"cannot be found out now: {error} Nothing was changed. Undo it first, or everything."
        ) from None
    return found
