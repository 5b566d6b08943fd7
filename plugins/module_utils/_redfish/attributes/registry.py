# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of BIOS attributes of one machine: what there is, which values it takes, and what locks it.

Flags and values are those of the machine's last boot. Some of Dell's registries write Readonly for ReadOnly.
Source: DMTF DSP8010, schema AttributeRegistry.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest
from ..._notation.numbers import parse_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Union

    Value = Union[str, int, bool, None]

#: Flags by their names in lower case, because spellings differ.
FLAGS = ("readonly", "grayout", "hidden", "immutable")
#: What Supermicro appends to a name, which differs from board to board.
SUFFIX = re.compile(r"[#_][0-9A-F]{4}$")


class Attribute:
    """One attribute as the registry describes it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.name = str(told.get("AttributeName") or "")
        self.type = str(told.get("Type") or "String")
        self.title = str(told.get("DisplayName") or self.name)
        self.menu = str(told.get("MenuPath") or "")
        self.default: Value = told.get("DefaultValue")
        self.values = [
            (str(one["ValueName"]), str(one.get("ValueDisplayName") or one["ValueName"]))
            for one in told.get("Value") or ()
            if isinstance(one, dict) and one.get("ValueName") is not None
        ]
        self.lower, self.upper = told.get("LowerBound"), told.get("UpperBound")
        self.step = told.get("ScalarIncrement")
        self.shortest, self.longest = told.get("MinLength"), told.get("MaxLength")
        self.pattern = told.get("ValueExpression")
        flags = {str(key).lower(): value for key, value in told.items()}
        self.flags = {flag: flags.get(flag) is True for flag in FLAGS}

    @property
    def base(self) -> str:
        """Return the name without what Supermicro appends."""
        return SUFFIX.sub("", self.name)

    @property
    def secret(self) -> bool:
        """Return whether it holds a password."""
        return self.type == "Password" or bool(re.search(r"passw|pwd", self.name, re.IGNORECASE))

    def allowed(self) -> str:
        """Return what it takes, for people."""
        if self.type == "Enumeration":
            return ", ".join(name if name == title else f"{name} ({title})" for name, title in self.values)
        if self.type == "Boolean":
            return "true, false"
        if self.type == "Integer":
            step = f" in steps of {self.step}" if self.step not in (None, 0, 1) else ""
            return f"a number from {self.lower} to {self.upper}{step}"
        return "a text"

    def convert(self, wanted: Value) -> Value:
        """Return a value in the type that the BMC expects; raises BadRequest for one that it would refuse."""
        if self.type == "Enumeration":
            return self._enumerated(wanted)
        if self.type == "Boolean" and isinstance(wanted, bool):
            return wanted
        if self.type == "Integer" and not isinstance(wanted, bool):
            return self._number(wanted)
        if self.type not in ("Boolean", "Integer", "Enumeration") and isinstance(wanted, (str, int)):
            return self._text(str(wanted))
        raise self._refused(wanted)

    def _enumerated(self, wanted: Value) -> Value:
        if isinstance(wanted, bool):
            # YAML makes booleans of On, Off, Yes and No, and nobody can tell which word it was.
            raise BadRequest(f"{self.name}: say the value in quotes, as one of {self.allowed()}.")
        text = str(wanted)
        for name, dummy in self.values:
            if name == text:
                return name
        found = [name for name, title in self.values if text.lower() in (name.lower(), title.lower())]
        if len(found) != 1:
            raise self._refused(wanted)
        return found[0]

    def _number(self, wanted: Value) -> int:
        text = str(wanted)
        number = parse_whole(text[text.startswith("-") :])
        if number is None:
            raise self._refused(wanted)
        number = -number if text.startswith("-") else number
        low = self.lower if isinstance(self.lower, int) else number
        high = self.upper if isinstance(self.upper, int) else number
        if not low <= number <= high:
            raise self._refused(wanted)
        if isinstance(self.step, int) and self.step > 1 and (number - low) % self.step:
            raise self._refused(wanted)
        return number

    def _text(self, wanted: str) -> str:
        if isinstance(self.shortest, int) and len(wanted) < self.shortest:
            raise self._refused(wanted)
        if isinstance(self.longest, int) and len(wanted) > self.longest:
            raise self._refused(wanted)
        return wanted

    def _refused(self, wanted: Value) -> BadRequest:
        return BadRequest(f"{self.name}: this machine does not take {wanted!r}. It takes {self.allowed()}.")


class Registry:
    """All attributes of a machine, and the dependencies between them."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        entries = told.get("RegistryEntries")
        entries = entries if isinstance(entries, dict) else {}
        self.name = str(told.get("Id") or "")
        found = [Attribute(one) for one in entries.get("Attributes") or () if isinstance(one, dict)]
        self.attributes = {one.name: one for one in found if one.name}
        self.dependencies: list[Mapping[str, Any]] = [
            one["Dependency"]
            for one in entries.get("Dependencies") or ()
            if isinstance(one, dict) and one.get("Type", "Map") == "Map" and isinstance(one.get("Dependency"), dict)
        ]

    def __len__(self) -> int:
        return len(self.attributes)

    def get(self, name: str) -> Attribute | None:
        """Return an attribute by its exact name."""
        return self.attributes.get(name)

    def matching(self, pattern: str) -> Iterator[Attribute]:
        """Yield the attributes whose name, or name without a suffix, matches as a whole."""
        wanted = re.compile(pattern)
        for one in self.attributes.values():
            if wanted.fullmatch(one.name) or wanted.fullmatch(one.base):
                yield one

    def close_to(self, name: str) -> list[str]:
        """Return names that somebody may have meant."""
        import difflib

        return difflib.get_close_matches(name, list(self.attributes), 3, 0.6)
