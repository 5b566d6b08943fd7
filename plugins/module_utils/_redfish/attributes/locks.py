# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks of attributes, by the dependencies of the registry, and the values of other attributes that cause the locks.

A profile locks other attributes and forces their values. Whether an attribute can be set depends on the future values:
the active values, overridden by the pending values, overridden by the values of the request.
Source: DMTF DSP8010, schema AttributeRegistry, MapFrom and MapToProperty.
"""

from __future__ import annotations

from ..connection.shapes import list_or_empty
from .registry import FLAG_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .registry import Registry, Value

#: Flag -> the words for it in a sentence.
FLAG_WORDS = {"readonly": "read-only", "grayout": "greyed out", "hidden": "hidden", "immutable": "fixed by the maker"}


class Lock:
    """The lock of an attribute: a flag or a forced value, and the values of other attributes that cause the lock."""

    def __init__(self, flag: str, causes: Mapping[str, Value], forced_value: Value = None) -> None:
        self.flag = flag
        self.causes = dict(causes)
        self.forced_value = forced_value

    def __str__(self) -> str:
        by = " and ".join(f"{name} is {value}" for name, value in self.causes.items())
        if self.flag == "currentvalue":
            return f"it is forced to {self.forced_value}, because {by}"
        if self.causes:
            return f"it is {FLAG_WORDS[self.flag]}, because {by}"
        return f"it is {FLAG_WORDS[self.flag]}, and the registry does not say why"


def find_lock_under_future_values(
    registry: Registry, name: str, active: Mapping[str, Value], future: Mapping[str, Value]
) -> Lock | None:
    """Return the lock of an attribute under the ``future`` values, None for an attribute without a lock.

    A flag of the registry belongs to the ``active`` values. Where a dependency explains the flag, the dependency
    decides whether the flag is set under the future values.
    """
    attribute = registry.attributes[name]
    wanted = future.get(name)
    for flag in FLAG_NAMES:
        state, causes = attribute.flags[flag], {}
        rules = [rule for rule in registry.dependencies if _attribute_and_property_of_rule(rule) == (name, flag)]
        if state and any(
            rule.get("MapToValue") is True and _condition_of_rule_is_met(registry, rule, active) for rule in rules
        ):
            state = False
        for rule in rules:
            if _condition_of_rule_is_met(registry, rule, future):
                state = rule.get("MapToValue") is True
                causes = _causing_values_of_rule(rule, future) if state else {}
        # A hidden attribute counts as locked. Some machines take a value for it, but the registry does not show which.
        if state:
            return Lock(flag, causes)
    for rule in registry.dependencies:
        if (
            _attribute_and_property_of_rule(rule) == (name, "currentvalue")
            and _condition_of_rule_is_met(registry, rule, future)
            and attribute.normal_form(rule.get("MapToValue")) != wanted
        ):
            return Lock("currentvalue", _causing_values_of_rule(rule, future), rule.get("MapToValue"))
    return None


def _attribute_and_property_of_rule(rule: Mapping[str, Any]) -> tuple[str, str]:
    return str(rule.get("MapToAttribute")), str(rule.get("MapToProperty")).lower()


def _causing_values_of_rule(rule: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Value]:
    names = [str(term.get("MapFromAttribute")) for term in _terms_of_rule(rule)]
    return {name: values.get(name) for name in names}


def _terms_of_rule(rule: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [term for term in list_or_empty(rule.get("MapFrom")) if isinstance(term, dict)]


def _condition_of_rule_is_met(registry: Registry, rule: Mapping[str, Any], values: Mapping[str, Value]) -> bool:
    """Return whether the condition of a dependency is met; its terms are joined from left to right."""
    met: bool | None = None
    for term in _terms_of_rule(rule):
        is_true = _is_term_true(registry, term, values)
        if met is None:
            met = is_true
        elif str(term.get("MapTerms", "AND")).upper() == "OR":
            met = met or is_true
        else:
            met = met and is_true
    return bool(met)


def _is_term_true(registry: Registry, term: Mapping[str, Any], values: Mapping[str, Value]) -> bool:
    name, property_name = str(term.get("MapFromAttribute")), str(term.get("MapFromProperty", "CurrentValue")).lower()
    actual: Any
    attribute, expected = registry.find_attribute(name), term.get("MapFromValue")
    if property_name == "currentvalue":
        actual = values.get(name)
        expected = attribute.normal_form(expected) if attribute else expected
    else:
        actual = attribute.flags.get(property_name) if attribute else None
    if actual is None:
        return False
    condition = str(term.get("MapFromCondition", "EQU")).upper()
    if condition == "EQU":
        return bool(actual == expected)
    if condition == "NEQ":
        return bool(actual != expected)
    try:
        left, right = float(actual), float(expected)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        return False
    return {"GTR": left > right, "GEQ": left >= right, "LSS": left < right, "LEQ": left <= right}.get(condition, False)
