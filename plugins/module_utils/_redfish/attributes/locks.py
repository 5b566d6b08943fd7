# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What locks an attribute, by the dependencies of the registry, for values that are not in force yet.

A profile locks others and forces their values. Whether an attribute can be set is asked of what will hold: active
values, pending ones over them, and over both this very request.
Source: DMTF DSP8010, schema AttributeRegistry, MapFrom and MapToProperty.
"""

from __future__ import annotations

from .registry import FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .registry import Registry, Value

#: Flags in the words of a sentence.
WORDS = {"readonly": "read-only", "grayout": "greyed out", "hidden": "hidden", "immutable": "fixed by the maker"}


class Lock:
    """Why an attribute cannot have a value: the flag, or the value that is forced, and the attributes that cause it."""

    def __init__(self, flag: str, blame: Mapping[str, Value], forced: Value = None) -> None:
        self.flag = flag
        self.blame = dict(blame)
        self.forced = forced

    def __str__(self) -> str:
        by = " and ".join(f"{name} is {value}" for name, value in self.blame.items())
        if self.flag == "currentvalue":
            return f"it is forced to {self.forced}, because {by}"
        if self.blame:
            return f"it is {WORDS[self.flag]}, because {by}"
        return f"it is {WORDS[self.flag]}, and the registry does not say why"


def lock_of(registry: Registry, name: str, now: Mapping[str, Value], then: Mapping[str, Value]) -> Lock | None:
    """Return what locks an attribute when the values are ``then``; ``now`` are those that the registry's flags tell of.

    A flag of the registry is the state of the last boot. Where a dependency explains it, the dependency decides.
    """
    attribute = registry.attributes[name]
    wanted = then.get(name)
    for flag in FLAGS:
        state, blame = attribute.flags[flag], {}
        rules = [rule for rule in registry.dependencies if _target(rule) == (name, flag)]
        if state and any(rule.get("MapToValue") is True and _holds(registry, rule, now) for rule in rules):
            state = False
        for rule in rules:
            if _holds(registry, rule, then):
                state = rule.get("MapToValue") is True
                blame = _blame(rule, then) if state else {}
        # A hidden attribute can be set on some machines, but nobody can tell on which.
        if state:
            return Lock(flag, blame)
    for rule in registry.dependencies:
        if _target(rule) == (name, "currentvalue") and _holds(registry, rule, then) and rule["MapToValue"] != wanted:
            return Lock("currentvalue", _blame(rule, then), rule["MapToValue"])
    return None


def _target(rule: Mapping[str, Any]) -> tuple[str, str]:
    return str(rule.get("MapToAttribute")), str(rule.get("MapToProperty")).lower()


def _blame(rule: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Value]:
    names = [str(one.get("MapFromAttribute")) for one in rule.get("MapFrom") or ()]
    return {name: values.get(name) for name in names}


def _holds(registry: Registry, rule: Mapping[str, Any], values: Mapping[str, Value]) -> bool:
    """Return whether the condition of a dependency is met. Terms are joined from left to right."""
    met: bool | None = None
    for term in rule.get("MapFrom") or ():
        one = _term(registry, term, values)
        if met is None:
            met = one
        elif str(term.get("MapTerms", "AND")).upper() == "OR":
            met = met or one
        else:
            met = met and one
    return bool(met)


def _term(registry: Registry, term: Mapping[str, Any], values: Mapping[str, Value]) -> bool:
    name, asked = str(term.get("MapFromAttribute")), str(term.get("MapFromProperty", "CurrentValue")).lower()
    found: Any
    if asked == "currentvalue":
        found = values.get(name)
    else:
        attribute = registry.get(name)
        found = attribute.flags.get(asked) if attribute else None
    if found is None:
        return False
    wanted, condition = term.get("MapFromValue"), str(term.get("MapFromCondition", "EQU")).upper()
    if condition == "EQU":
        return bool(found == wanted)
    if condition == "NEQ":
        return bool(found != wanted)
    try:
        left, right = float(found), float(wanted)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        return False
    return {"GTR": left > right, "GEQ": left >= right, "LSS": left < right, "LEQ": left <= right}.get(condition, False)
