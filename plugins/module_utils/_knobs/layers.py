# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers of site.yml that can be undone one by one, with the settings and stored requests of each."""

from __future__ import annotations

from .._errors import BadRequest, TuningError
from .._host.host import Host
from .address_kinds import KINDS
from .catalogue import KNOBS, ROLES, find_knob_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from .protocol.knob import Settings

LAYERS = tuple(dict.fromkeys(ROLES.values()))
#: Layers of site.yml that cannot be undone by themselves, with the reasons.
NOT_UNDONE_ALONE = {
    **{kind.role: kind.undo_hint for kind in KINDS.values() if kind.undo_hint},
    "bios_check": "bios_check changes nothing.",
}


def validate_layer_names(names: Sequence[str]) -> list[str]:
    """Return the layers to undo without duplicates. Raises BadRequest for an unknown name, and for an empty list."""
    known = f"The layers that can be undone are {', '.join(LAYERS)}. Nothing was changed."
    if not names:
        raise BadRequest(f"No layer is named. {known} To undo everything, leave the list of layers out.")
    for name in names:
        if name in NOT_UNDONE_ALONE:
            raise BadRequest(f"{name} cannot be undone alone. {NOT_UNDONE_ALONE[name]} {known}")
        if name not in LAYERS:
            raise BadRequest(f"There is no layer '{name}'{_similar_layer_hint(name)} {known}")
    return list(dict.fromkeys(names))


def _similar_layer_hint(name: str) -> str:
    """Return '; did you mean LAYER?' for a layer whose name, knob or module is similar to a name, else a full stop."""
    # Imported here because only a wrong name needs difflib. The import of suggestions.py would enlarge every module.
    import difflib

    words = {word: role for row in KNOBS.values() for word in (row.module, row.name) for role in row.roles.values()}
    near = difflib.get_close_matches(name, [*LAYERS, *words], 1, 0.6)
    return f"; did you mean {words.get(near[0], near[0])}?" if near else "."


def filter_requests_of_layers(requests: Collection[str], layers: Collection[str]) -> list[str]:
    """Return the stored requests, by "KNOB/LABEL", that these layers have stored."""
    return [request for request in requests if ROLES.get(request) in layers]


def _layer_of_address(address: str) -> str:
    """Return the layer of an address, an empty text for none.

    If layers share a knob, the variable that decides on the setting begins with the name of the layer.
    """
    row = find_knob_row(address)
    layers = list(dict.fromkeys(row.roles.values())) if row else []
    if len(layers) == 1 or row is None:
        return "".join(layers)
    variable = row.find_inventory_variable(address.partition(":")[2], "")
    return next((layer for layer in layers if variable.startswith(f"epyc_{layer}_")), "")


class LayerSettings:
    """The settings that an undo of some layers restores.

    Settings of a stored request that no role has stored belong to no layer, and stay.
    """

    def __init__(
        self, host: Host, layers: Collection[str], intent: Mapping[str, Any], requests: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """``intent`` and ``requests`` are the stored ones.

        Raises TuningError if a request that stays cannot be planned.
        """
        self.layers = layers
        self._kept: dict[str, set[str]] = {}
        planned = Host(host.fs, intent, stored=True)
        for request, options in requests.items():
            name = request.partition("/")[0]
            if request not in ROLES and name in KNOBS and self._is_knob_of_layers(name):
                self._kept.setdefault(name, set()).update(_addresses_of_request(planned, request, options))

    def addresses_to_restore(self, knob_name: str, originals: Settings) -> set[str] | None:
        """Return the addresses of a knob to restore; None for all addresses of the knob."""
        if not self._is_knob_of_layers(knob_name):
            return set()
        kept = self._kept.get(knob_name, set())
        if not kept and all(role in self.layers for role in KNOBS[knob_name].roles.values()):
            return None
        candidates = (address for address in originals if address.startswith(f"{knob_name}:") and address not in kept)
        return {address for address in candidates if _layer_of_address(address) in self.layers}

    def _is_knob_of_layers(self, name: str) -> bool:
        return any(role in self.layers for role in KNOBS[name].roles.values())


def _addresses_of_request(host: Host, request: str, options: Mapping[str, Any]) -> set[str]:
    """Return the addresses that a stored request sets, and those of their holders, such as groups."""
    addresses = set()
    try:
        for knob in KNOBS[request.partition("/")[0]].build_knobs(host, options):
            for address in knob.wanted_settings():
                holder: str | None = address
                while holder is not None:
                    addresses.add(holder)
                    holder = knob.holder_address(holder)
    except TuningError as error:
        raise BadRequest(
            f"The stored request {request} belongs to no layer of site.yml and is to stay, but its settings cannot be "
            f"planned now: {error} Nothing was changed. Undo this request first, or undo everything."
        ) from None
    return addresses
