# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of BIOS attributes of a machine: their names, their allowed values, and the dependencies between them.

The flags of an attribute are those of the machine's last boot. Some registries of Dell write Readonly for ReadOnly.
Source: DMTF DSP8010, schema AttributeRegistry.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest
from ..._notation.numbers import parse_whole_number
from ..connection.shapes import list_or_empty, object_or_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Union

    Value = Union[str, int, bool, None]

#: Names of flags, in lower case because vendors spell them differently.
FLAG_NAMES = ("readonly", "grayout", "hidden", "immutable")
#: The suffix that Supermicro appends to each name. The suffix differs from board to board.
BOARD_SUFFIX = re.compile(r"[#_][0-9A-F]{4}$")


class Attribute:
    """One BIOS attribute as the registry describes it."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.name = str(entry.get("AttributeName") or "")
        self.type = str(entry.get("Type") or "String")
        self.title = str(entry.get("DisplayName") or self.name)
        self.menu = str(entry.get("MenuPath") or "")
        self.default: Value = entry.get("DefaultValue")
        #: The allowed values as stripped texts with their titles, and each as the registry has it, to be sent so.
        self.values: list[tuple[str, str]] = []
        self.json_values: dict[str, Any] = {}
        for allowed in list_or_empty(entry.get("Value")):
            value = object_or_empty(allowed)
            name = value.get("ValueName")
            if isinstance(name, (str, int, float)):
                self.values.append((_to_text(name), _to_text(value.get("ValueDisplayName") or name)))
                self.json_values[_to_text(name)] = name
        self.lower, self.upper = entry.get("LowerBound"), entry.get("UpperBound")
        self.step = entry.get("ScalarIncrement")
        self.shortest, self.longest = entry.get("MinLength"), entry.get("MaxLength")
        self.pattern = entry.get("ValueExpression")
        flags = {str(key).lower(): value for key, value in entry.items()}
        self.flags = {flag: flags.get(flag) is True for flag in FLAG_NAMES}

    @property
    def name_without_board_suffix(self) -> str:
        """Return the name without the suffix of Supermicro."""
        return BOARD_SUFFIX.sub("", self.name)

    @property
    def is_secret(self) -> bool:
        return self.type == "Password" or bool(re.search(r"passw|pwd", self.name, re.IGNORECASE))

    def format_allowed_values(self) -> str:
        """Return a text for people with the allowed values of the attribute."""
        if self.type == "Enumeration":
            return ", ".join(name if name == title else f"{name} ({title})" for name, title in self.values)
        if self.type == "Boolean":
            return "true, false"
        if self.type == "Integer":
            step = f" in steps of {self.step}" if self.step not in (None, 0, 1) else ""
            return f"a number from {self.lower} to {self.upper}{step}"
        return "a text"

    def normal_form(self, value: Value) -> Value:
        """Return a value in one spelling: BMCs show the same value as text or number, with blanks, or in other case.

        A value that the attribute cannot have is returned as it is.
        """
        if value is None or not isinstance(value, (str, int, float)):
            return value
        text = _to_text(value)
        if self.type == "Enumeration":
            if text in self.json_values:
                return text
            names = [name for name, dummy in self.values if name.lower() == text.lower()]
            return names[0] if len(names) == 1 else text
        if self.type == "Boolean":
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), value)
        if self.type == "Integer":
            number = _parse_integer(text)
            return value if number is None or isinstance(value, bool) else number
        return text

    def json_form(self, value: Value) -> Value:
        """Return a value in normal form as the registry has it, to be sent."""
        json_value: Value = self.json_values.get(value, value) if isinstance(value, str) else value
        return json_value

    def convert_to_attribute_type(self, wanted: Value) -> Value:
        """Return a value in the type that the BMC expects; raises BadRequest for a value that the BMC would refuse."""
        if self.type == "Enumeration":
            return self._convert_to_allowed_choice(wanted)
        if self.type == "Boolean" and isinstance(wanted, bool):
            return wanted
        if self.type == "Integer" and not isinstance(wanted, bool):
            return self._convert_to_allowed_number(wanted)
        if self.type not in ("Boolean", "Integer", "Enumeration") and isinstance(wanted, (str, int)):
            return self._require_allowed_length(str(wanted))
        raise self._refused_value_error(wanted)

    def _convert_to_allowed_choice(self, wanted: Value) -> Value:
        if isinstance(wanted, bool):
            # YAML reads On, Off, Yes and No as booleans, so the word of the user is lost.
            raise BadRequest(f"{self.name}: say the value in quotes, as one of {self.format_allowed_values()}.")
        text = _to_text(wanted)
        if text in self.json_values:
            return text
        names = [name for name, title in self.values if text.lower() in (name.lower(), title.lower())]
        if len(names) != 1:
            raise self._refused_value_error(wanted)
        return names[0]

    def _convert_to_allowed_number(self, wanted: Value) -> int:
        number = _parse_integer(str(wanted))
        if number is None:
            raise self._refused_value_error(wanted)
        low = self.lower if isinstance(self.lower, int) else number
        high = self.upper if isinstance(self.upper, int) else number
        step = self.step if isinstance(self.step, int) and self.step > 1 else 1
        if not low <= number <= high or (number - low) % step:
            raise self._refused_value_error(wanted)
        return number

    def _require_allowed_length(self, wanted: str) -> str:
        shortest = self.shortest if isinstance(self.shortest, int) else 0
        longest = self.longest if isinstance(self.longest, int) else len(wanted)
        if not shortest <= len(wanted) <= longest:
            raise self._refused_value_error(wanted)
        return wanted

    def _refused_value_error(self, wanted: Value) -> BadRequest:
        return BadRequest(
            f"{self.name}: this machine does not take {wanted!r}. It takes {self.format_allowed_values()}."
        )


class Registry:
    """All BIOS attributes of a machine, and the dependencies between them."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        entries = object_or_empty(document.get("RegistryEntries"))
        self.name = str(document.get("Id") or "")
        attributes = [Attribute(entry) for entry in list_or_empty(entries.get("Attributes")) if isinstance(entry, dict)]
        self.attributes = {attribute.name: attribute for attribute in attributes if attribute.name}
        self.dependencies: list[Mapping[str, Any]] = [
            entry["Dependency"]
            for entry in list_or_empty(entries.get("Dependencies"))
            if isinstance(entry, dict)
            and entry.get("Type", "Map") == "Map"
            and isinstance(entry.get("Dependency"), dict)
        ]

    def __len__(self) -> int:
        return len(self.attributes)

    def find_attribute(self, name: str) -> Attribute | None:
        """Return the attribute with this exact name, None for an unknown name."""
        return self.attributes.get(name)

    def normal_forms(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return values of attributes, each in its one spelling."""
        return {
            name: self.attributes[name].normal_form(value) if name in self.attributes else value
            for name, value in values.items()
        }

    def json_forms(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return values in normal form as they are sent: each in the spelling and the type of the registry."""
        return {
            name: self.attributes[name].json_form(value) if name in self.attributes else value
            for name, value in values.items()
        }

    def find_attributes_by_pattern(self, pattern: str) -> Iterator[Attribute]:
        """Yield the attributes whose whole name, with or without the suffix of Supermicro, matches a pattern."""
        compiled = re.compile(pattern)
        for attribute in self.attributes.values():
            if compiled.fullmatch(attribute.name) or compiled.fullmatch(attribute.name_without_board_suffix):
                yield attribute

    def list_similar_names(self, name: str) -> list[str]:
        """Return up to three names of attributes with a similar spelling."""
        import difflib

        return difflib.get_close_matches(name, list(self.attributes), 3, 0.6)


def _to_text(value: object) -> str:
    """Return a value as text without blanks around it; a boolean as JSON writes it, and 3.0 as 3."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _parse_integer(text: str) -> int | None:
    number = parse_whole_number(text[text.startswith("-") :])
    return -number if number is not None and text.startswith("-") else number
