# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a vendor's BMC looks like: names, values, paths and rules, read from `data/VENDOR.json`.

The keys of such a file:

`base`          the vendor whose file has all that this one does not have
`attributes`    by name: `value` (active at the start), and `of` (the values allowed: a list, the name of one of
                `lists`, or names with what people see), `range` (lowest, highest, step), `password` or neither (a
                text); `title` and `menu` for people; `readonly` where nobody may write
`recording`     a file with the active values of a real machine; what is known only from there has few rules
`dependencies`  of `attribute`: its `property` is `is` while all of `when` hold: attribute, EQU or NEQ and so on, value
`truth`         by what a machine has (`nps`, `smt` and so on): the attribute that decides it, and what its values mean
`settings`      where pending values are, below Bios; empty where Bios itself takes the PATCH
`conflict`      what becomes of a value whose dependencies forbid it: `refuse` the request, tell by `message` after the
                boot, or `drop` it without a word
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import VepycError

_DATA = Path(__file__).parent / "data"
#: The names of all vendors.
PERSONALITIES = ("ami", "dell", "hpe", "idrac10", "lenovo", "supermicro")
#: Machines of which it is not known how they are set, so that the collection only reads them.
READ_ONLY_PERSONALITIES = ("cisco",)


class Personality:
    """The BMC of a vendor, as its file describes it."""

    def __init__(self, name: str, data: Mapping[str, Any]) -> None:
        self.name = name
        self.data = data
        self.attributes: dict[str, dict[str, Any]] = dict(data["attributes"])
        self.dependencies: list[dict[str, Any]] = data["dependencies"]
        for attribute, value in _load_recorded_values(data.get("recording")).items():
            self.attributes.setdefault(attribute, _guess_attribute(attribute, value, data))
            self.attributes[attribute] = {**self.attributes[attribute], "value": value}

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of the file, or the default."""
        return self.data.get(key, default)

    def allowed_values(self, attribute: str) -> dict[str, str] | None:
        """Return the values of an enumeration with their display names; None for an attribute of another type."""
        of = self.attributes[attribute].get("of")
        if isinstance(of, str):
            of = self.data["lists"][of]
        return {name: name for name in of} if isinstance(of, list) else of

    def default_settings(self) -> dict[str, Any]:
        """Return the active values of an unchanged machine."""
        return {name: spec["value"] for name, spec in self.attributes.items()}

    def settings_to_machine_state(self, active: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a machine with these values has: `nps`, `l3_as_numa`, `smt`, `boost`, `iommu`, cores."""
        state = {}
        for knob, rule in self.data["truth"].items():
            value = active[rule["attribute"]]
            state[knob] = rule["values"][str(value)] if "values" in rule else value
        return state

    def machine_state_to_settings(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of a machine with this state, the last of equal values: the first is `Auto`."""
        settings = {}
        for knob, wanted in state.items():
            if rule := self.data["truth"].get(knob):
                values = [value for value, meaning in rule.get("values", {}).items() if meaning == wanted]
                settings[rule["attribute"]] = values[-1] if values else wanted
        return settings


def _load_recorded_values(name: str | None) -> dict[str, Any]:
    return dict(json.loads((_DATA / name).read_text())["attributes"]) if name else {}


def _guess_attribute(name: str, value: object, data: Mapping[str, Any]) -> dict[str, Any]:
    """Guess type and range of an attribute whose value was recorded without its registry."""
    if value is None:
        return {"password": True}
    spec: dict[str, Any] = {"readonly": name in data["readonly"]}
    if isinstance(value, int):
        spec["range"] = [0, 65535, 1]
    elif value in ("Enabled", "Disabled"):
        spec["of"] = ["Enabled", "Disabled"]
    return spec


@cache
def load_personality(name: str) -> Personality:
    """Load the personality of a vendor; an unknown name is an error."""
    names = (*PERSONALITIES, *READ_ONLY_PERSONALITIES)
    if name not in names:
        raise VepycError(f"there is no BMC {name!r}; the vendors are {', '.join(names)}")
    data = json.loads((_DATA / f"{name}.json").read_text())
    if base := data.get("base"):
        data = {**json.loads((_DATA / f"{base}.json").read_text()), **data}
    return Personality(name, data)
