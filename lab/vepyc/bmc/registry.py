# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attribute registry: which attributes may be set to which values, and which attributes lock others."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from .errors import RefusedRequest
from .faults import Faults
from .personality import Personality

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "EQU": operator.eq,
    "NEQ": operator.ne,
    "GTR": operator.gt,
    "GEQ": operator.ge,
    "LSS": operator.lt,
    "LEQ": operator.le,
}
#: Properties that make an attribute not writable.
_LOCKS = ("ReadOnly", "GrayOut", "Hidden")


class Registry:
    """The registry of a personality, which validates values and is sent to clients."""

    def __init__(self, personality: Personality, faults: Faults | None = None) -> None:
        self.personality = personality
        self.faults = faults or Faults()
        opaque = self.faults.opaque_names
        names = personality.attributes
        #: The names of attributes for clients, by their names in this package.
        self.shown = {
            name: f"{_menu_name(names[name])[:3].upper()}{i:03}" if opaque else name for i, name in enumerate(names)
        }
        self.known = {shown: name for name, shown in self.shown.items()}

    def client_values(self, values: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return values by the attribute names for clients, as they are spelled in a place; passwords are None."""
        hidden = self.personality.attributes
        return {
            self.shown[name]: None if hidden[name].get("password") else self._spell(value, place)
            for name, value in values.items()
        }

    def _spell(self, value: Any, place: str) -> Any:
        """Return a value as this BMC spells it in the registry, among the active values or among the pending ones."""
        if place in self.faults.numbers_in and isinstance(value, str) and value.isdigit():
            return int(value)
        if isinstance(value, str) and place in self.faults.capitals_in:
            value = value.upper()
        return f"{value} " if isinstance(value, str) and place in self.faults.blanks_in else value

    def parse_client_value(self, name: str, value: Any) -> Any:
        """Return a value as it is spelled in this package; it has to be sent as the registry has it."""
        known = self.personality.allowed_values(self.known.get(name, "")) if name in self.known else None
        return next((own for own in known or () if self._spell(own, "registry") == value), value)

    def validate_value(self, name: str, value: object) -> None:
        """Raise RefusedRequest for an unknown attribute, or for a value that it cannot have."""
        if name not in self.known:
            raise RefusedRequest(400, "PropertyUnknown", name)
        spec = self.personality.attributes[self.known[name]]
        if spec.get("readonly"):
            raise RefusedRequest(400, "PropertyNotWritable", name)
        if (allowed := self.personality.allowed_values(self.known[name])) is not None:
            if not isinstance(value, str):
                raise RefusedRequest(400, "PropertyValueTypeError", str(value), name)
            if value not in allowed:
                raise RefusedRequest(400, "PropertyValueNotInList", value, name)
        elif "range" in spec:
            low, high, step = spec["range"]
            if not isinstance(value, int) or isinstance(value, bool):
                raise RefusedRequest(400, "PropertyValueTypeError", str(value), name)
            if not low <= value <= high or (value - low) % step:
                raise RefusedRequest(400, "PropertyValueNotInList", str(value), name)
        elif not isinstance(value, str):
            raise RefusedRequest(400, "PropertyValueTypeError", str(value), name)

    def locking_attribute(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Return the attribute that makes ``name`` not writable with these values, None if it is writable."""
        for rule in self.personality.dependencies:
            if (
                rule["attribute"] == name
                and rule["property"] in _LOCKS
                and rule["is"]
                and _conditions_hold(rule, values)
            ):
                return str(rule["when"][0][0])
        return None

    def build_document(self, active: Mapping[str, Any]) -> dict[str, Any]:
        """Return the registry as a client gets it."""
        data = self.personality.data
        return {
            "@odata.type": "#AttributeRegistry.v1_3_6.AttributeRegistry",
            "Id": data["registry"]["name"],
            "Name": "BIOS Attribute Registry",
            "Language": "en",
            "OwningEntity": data["manufacturer"],
            "RegistryVersion": "1.0.3",
            "SupportedSystems": [
                {"ProductName": data["model"], "SystemId": "1", "FirmwareVersion": data["bios_version"]}
            ],
            "RegistryEntries": {
                "Attributes": [self._build_attribute(name, active) for name in self.personality.attributes],
                "Menus": self._build_menus(),
                "Dependencies": [self._build_dependency(rule) for rule in self.personality.dependencies],
            },
        }

    def _build_attribute(self, name: str, active: Mapping[str, Any]) -> dict[str, Any]:
        spec = self.personality.attributes[name]
        readonly = bool(spec.get("readonly"))
        if self.personality["registry"].get("flags_are_state"):
            readonly = readonly or self.locking_attribute(name, active) is not None
        entry: dict[str, Any] = {
            "AttributeName": self.shown[name],
            "DisplayName": spec.get("title", name),
            "HelpText": f"Sets {spec.get('title', name)}.",
            "MenuPath": f"./{_menu_name(spec)}",
            self.personality["registry"].get("readonly", "ReadOnly"): readonly,
            "Hidden": False,
            "Immutable": False,
            "ResetRequired": True,
            "DisplayOrder": list(self.shown).index(name),
        }
        if (allowed := self.personality.allowed_values(name)) is not None:
            values = [
                {"ValueName": self._spell(value, "registry"), "ValueDisplayName": display}
                for value, display in allowed.items()
            ]
            entry |= {"Type": "Enumeration", "Value": values}
        elif "range" in spec:
            low, high, step = spec["range"]
            entry |= {"Type": "Integer", "LowerBound": low, "UpperBound": high, "ScalarIncrement": step}
        elif spec.get("password"):
            entry |= {"Type": "Password", "MinLength": 0, "MaxLength": 32}
        else:
            entry |= {"Type": "String", "MinLength": 0, "MaxLength": 255}
        if self.personality["registry"].get("defaults"):
            entry["DefaultValue"] = spec["value"]
        return entry

    def _build_menus(self) -> list[dict[str, Any]]:
        menus = sorted({_menu_name(spec) for spec in self.personality.attributes.values()})
        return [
            {"MenuName": menu, "DisplayName": menu, "MenuPath": f"./{menu}", "Hidden": False, "ReadOnly": False}
            for menu in menus
        ]

    def _build_dependency(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        conditions = []
        for position, (parent, condition, value) in enumerate(rule["when"]):
            terms = {"MapTerms": "AND"} if position else {}
            source = {"MapFromAttribute": self.shown[parent], "MapFromProperty": "CurrentValue"}
            conditions.append({**source, "MapFromCondition": condition, "MapFromValue": value, **terms})
        target = self.shown[rule["attribute"]]
        mapped = {"MapToAttribute": target, "MapToProperty": rule["property"], "MapToValue": rule["is"]}
        return {"DependencyFor": target, "Type": "Map", "Dependency": {"MapFrom": conditions, **mapped}}


def _menu_name(spec: Mapping[str, Any]) -> str:
    return str(spec.get("menu", "MiscSettings"))


def _conditions_hold(rule: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(_COMPARE[condition](values[parent], value) for parent, condition, value in rule["when"])
