# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resolves options and attribute names of a request to attributes and values of a machine's registry."""

from __future__ import annotations

import re

from ..._errors import BadRequest
from .catalogue import AMI, BIOS_OPTIONS, LOCKING_PROFILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .catalogue import AttributePattern
    from .registry import Attribute, Registry, Value

#: Attributes that can lock people out or cannot be undone over Redfish are never set: reason -> pattern of names.
DENIED_PATTERNS = {
    "a password": r"passw|pwd|AdminName",
    "the TPM": r"tpm|measuredboot",
    "secure boot": r"secureboot|secured_core|^sb_|certificate",
    "how and from where the machine boots": r"bootmode|bootseq|bootorder|bootopt|^boot|_boot|legacy|onetimeboot",
    "booting from the network": r"pxe|httpdev|httpboot|networkboot|iscsi|nicboot|^nic|ipv[46]|vlan",
    "a slot or a port": r"slot\d|slotdis|slotbif|pcislot|pcie?slot|integratednetwork|integratedraid|usbports|usbenable",
    "the lock of the setup": r"lockdown|setuplock|powerbutton|acpwrrcvry|reset.*default|load.*default|resetbios",
}


class Target:
    """An attribute with its requested value, and the option that requests this value, with the value of the option."""

    def __init__(self, attribute: Attribute, value: Value, option: str, meaning: str) -> None:
        self.attribute = attribute
        self.value = value
        #: The option that requests the value; "attributes" for an attribute that is requested by its name.
        self.option = option
        self.meaning = meaning

    @property
    def name(self) -> str:
        return self.attribute.name


class MissingOption:
    """A requested option that this machine does not have; ``sentence`` has the reason."""

    def __init__(self, option: str, meaning: str, sentence: str) -> None:
        self.option = option
        self.meaning = meaning
        self.sentence = sentence


def subject_never_set_over_redfish(attribute: Attribute) -> str | None:
    """Return the subject of an attribute that is never set over Redfish, such as "the TPM"; None for all others."""
    if attribute.is_secret:
        return "a password"
    for subject, pattern in DENIED_PATTERNS.items():
        if re.search(pattern, attribute.name_without_board_suffix, re.IGNORECASE):
            return subject
    return None


def resolve_targets_and_missing_options(
    registry: Registry,
    vendor: str,
    active: Mapping[str, Value],
    options: Mapping[str, str],
    attributes: Mapping[str, Value],
) -> tuple[dict[str, Target], list[MissingOption]]:
    """Return the targets by attribute name, and the requested options that this machine does not have.

    An active value with the requested meaning stays: for example, Auto may mean on. Raises BadRequest for an attribute
    that the machine does not have, or that is never set.
    """
    targets: dict[str, Target] = {}
    absent: list[MissingOption] = []
    for option, meaning in options.items():
        result = _resolve_option_to_targets(registry, vendor, active, option, meaning)
        if isinstance(result, MissingOption):
            absent.append(result)
            continue
        for target in result:
            _add_target_without_contradiction(targets, target)
    for name, value in attributes.items():
        _add_target_without_contradiction(targets, _resolve_attribute_to_target(registry, str(name), value))
    return targets, absent


def find_target_that_unlocks_attributes(registry: Registry, vendor: str) -> Target | None:
    """Return the profile that locks attributes, with the value that unlocks all; None for a machine without one."""
    pattern = LOCKING_PROFILES.get(vendor)
    matches = list(registry.find_attributes_by_pattern(pattern.name_pattern)) if pattern else []
    if pattern is None or len(matches) != 1:
        return None
    value = find_attribute_value_by_patterns(matches[0], (pattern.values or {})["custom"])
    return None if value is None else Target(matches[0], value, "unlock", "custom")


def find_attribute_of_option(registry: Registry, vendor: str, option: str) -> Attribute | None:
    """Return the attribute of an option on this machine, None where no attribute or more than one matches."""
    for way in list_ways_to_set_option(vendor, option):
        matches = list(registry.find_attributes_by_pattern(way[0].name_pattern))
        if matches:
            return matches[0] if len(matches) == 1 else None
    return None


def list_ways_to_set_option(vendor: str, option: str) -> list[Sequence[AttributePattern]]:
    """Return the ways to set an option: those of the vendor, then those of AMI, whose BIOS other vendors use too."""
    ways = BIOS_OPTIONS[option].ways
    return [*ways.get(vendor, ()), *(ways.get(AMI, ()) if vendor != AMI else ())]


def attribute_value_to_option_value(option: str, attribute: Attribute, value: Value, vendor: str) -> str | None:
    """Return the value of an option that means the same as a value of its attribute, None where no value does."""
    names = (attribute.name, attribute.name_without_board_suffix)
    patterns = [way[0] for way in list_ways_to_set_option(vendor, option)]
    patterns = [pattern for pattern in patterns if any(re.fullmatch(pattern.name_pattern, name) for name in names)]
    values = (patterns[0].values if patterns else None) or BIOS_OPTIONS[option].values
    spellings = (dict(attribute.values).get(str(value), ""), str(value))
    texts = [_strip_attribute_name_from_value(text, attribute) for text in spellings if text]
    for meaning, value_patterns in values.items():
        if any(re.fullmatch(value_pattern, text) for value_pattern in value_patterns for text in texts):
            return meaning
    return None


def find_attribute_value_by_patterns(attribute: Attribute, patterns: Sequence[str], active: Value = None) -> Value:
    """Return the value that matches the patterns, the active value if it matches; None for several or no matches."""
    for name, title in attribute.values:
        if name == active and any(
            re.fullmatch(pattern, _strip_attribute_name_from_value(title, attribute)) for pattern in patterns
        ):
            return name
    if attribute.type == "Boolean":
        return next((value for value in (True, False) if re.fullmatch(patterns[0], str(value).lower())), None)
    for pattern in patterns:
        # Titles are compared before names: on some machines the names are numbers without a meaning.
        for text_index in (1, 0):
            texts = [
                (value[0], _strip_attribute_name_from_value(value[text_index], attribute)) for value in attribute.values
            ]
            names = [name for name, text in texts if re.fullmatch(pattern, text)]
            if names:
                return names[0] if len(names) == 1 else None
    return None


def _resolve_option_to_targets(
    registry: Registry, vendor: str, active: Mapping[str, Value], option: str, meaning: str
) -> list[Target] | MissingOption:
    bios_option = BIOS_OPTIONS[option]
    for way in list_ways_to_set_option(vendor, option):
        targets: list[Target] = []
        for pattern in way:
            matches = list(registry.find_attributes_by_pattern(pattern.name_pattern))
            if len(matches) > 1:
                names = ", ".join(match.name for match in matches)
                raise BadRequest(
                    f"{option}: this machine has several attributes of that name, {names}. Choose one with the option "
                    "attributes, and leave this one out."
                )
            if not matches:
                if pattern.required:
                    break
                continue
            value_patterns = (pattern.values or bios_option.values).get(meaning)
            if value_patterns is None:
                continue
            value = find_attribute_value_by_patterns(matches[0], value_patterns, active.get(matches[0].name))
            if value is None:
                return MissingOption(
                    option,
                    meaning,
                    f"{bios_option.title}: this machine has {matches[0].name}, but not as {meaning}. It offers "
                    f"{matches[0].format_allowed_values()}.",
                )
            targets.append(Target(matches[0], value, option, meaning))
        else:
            if targets:
                return targets
    return MissingOption(
        option,
        meaning,
        f"{bios_option.title}: this machine has no such "
        f"attribute.{_similar_titles_hint(registry, bios_option.title_words)}",
    )


def _similar_titles_hint(registry: Registry, words: str) -> str:
    """Return a sentence that names attributes with all these words in their titles; "" without such attributes."""
    plain_words = [_lower_letters_and_digits(word) for word in words.split()]
    similar = [
        f"{attribute.name} ({attribute.title})"
        for attribute in registry.attributes.values()
        if all(word in _lower_letters_and_digits(attribute.title) for word in plain_words)
    ]
    if not similar:
        return ""
    return f" By its title it may be {' or '.join(similar[:3])}; if so, set it with the option attributes."


def _resolve_attribute_to_target(registry: Registry, name: str, value: Value) -> Target:
    attribute = registry.find_attribute(name)
    if attribute is None:
        similar = registry.list_similar_names(name)
        hint = f"Did you mean {' or '.join(similar)}? " if similar else ""
        raise BadRequest(
            f"attributes: this machine has no {name}. {hint}The module epyc_bmc_bios_info lists all attributes."
        )
    reason = subject_never_set_over_redfish(attribute)
    if reason:
        raise BadRequest(
            f"attributes: {name} is about {reason}. That can lock people out or cannot be undone, so this module never "
            "sets it. Use the setup of the machine."
        )
    return Target(attribute, attribute.convert_to_attribute_type(value), "attributes", str(value))


def _add_target_without_contradiction(targets: dict[str, Target], new: Target) -> None:
    before = targets.get(new.name)
    if before is not None and before.value != new.value:
        raise BadRequest(
            f"{new.name} is wanted as {before.value} by {before.option} and as {new.value} by {new.option}. Leave out "
            "one of these options."
        )
    targets.setdefault(new.name, new)


def _strip_attribute_name_from_value(text: str, attribute: Attribute) -> str:
    """Return the letters and digits of a value, without the name of the attribute, with which some values begin."""
    plain, name = _lower_letters_and_digits(text), _lower_letters_and_digits(attribute.name_without_board_suffix)
    return plain[len(name) :] if plain.startswith(name) and len(plain) > len(name) else plain


def _lower_letters_and_digits(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
