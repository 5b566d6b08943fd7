# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what is asked, in the project's words or by name, to attributes and values of this machine's registry."""

from __future__ import annotations

import re

from ..._errors import BadRequest
from .catalogue import AMI, KNOBS, PROFILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .catalogue import Part
    from .registry import Attribute, Registry, Value

#: What can lock somebody out, or cannot be undone from here. No option allows it.
DENIED = {
    "a password": r"passw|pwd|AdminName",
    "the TPM": r"tpm|measuredboot",
    "secure boot": r"secureboot|secured_core|^sb_|certificate",
    "how and from where the machine boots": r"bootmode|bootseq|bootorder|bootopt|^boot|_boot|legacy|onetimeboot",
    "booting from the network": r"pxe|httpdev|httpboot|networkboot|iscsi|nicboot|^nic|ipv[46]|vlan",
    "a slot or a port": r"slot\d|slotdis|slotbif|pcislot|pcie?slot|integratednetwork|integratedraid|usbports|usbenable",
    "the lock of the setup": r"lockdown|setuplock|powerbutton|acpwrrcvry|reset.*default|load.*default|resetbios",
}


class Target:
    """One attribute with the value that it is to have, and what asked for it."""

    def __init__(self, attribute: Attribute, value: Value, knob: str, meaning: str) -> None:
        self.attribute = attribute
        self.value = value
        #: The option that asks for it; "attributes" for one that was asked for by name.
        self.knob = knob
        self.meaning = meaning

    @property
    def name(self) -> str:
        """Return the name of the attribute."""
        return self.attribute.name


class Absent:
    """An option that this machine cannot have, and why."""

    def __init__(self, knob: str, meaning: str, sentence: str) -> None:
        self.knob = knob
        self.meaning = meaning
        self.sentence = sentence


def denied(attribute: Attribute) -> str | None:
    """Return why an attribute is never set from here, None where it may be."""
    if attribute.secret:
        return "a password"
    return next((why for why, rule in DENIED.items() if re.search(rule, attribute.base, re.IGNORECASE)), None)


def resolve(
    registry: Registry,
    vendor: str,
    active: Mapping[str, Value],
    options: Mapping[str, str],
    attributes: Mapping[str, Value],
) -> tuple[dict[str, Target], list[Absent]]:
    """Return the attributes to have by name, and the options that this machine does not have.

    An active value that means what is asked for is left as it is, such as Auto where it is on. Raises BadRequest for an
    attribute that the machine does not know, or that must not be set from here.
    """
    targets: dict[str, Target] = {}
    absent: list[Absent] = []
    for knob, meaning in options.items():
        found = _by_knob(registry, vendor, active, knob, meaning)
        if isinstance(found, Absent):
            absent.append(found)
            continue
        for target in found:
            _add(targets, target)
    for name, value in attributes.items():
        _add(targets, _by_name(registry, str(name), value))
    return targets, absent


def profile_of(registry: Registry, vendor: str) -> Target | None:
    """Return the profile that locks others, with the value that frees them; None where the machine has none."""
    part = PROFILES.get(vendor)
    found = list(registry.matching(part.name)) if part else []
    value = value_of(found[0], (part.values or {})["custom"]) if part and len(found) == 1 else None
    return None if value is None else Target(found[0], value, "unlock", "custom")


def attribute_of(registry: Registry, vendor: str, knob: str) -> Attribute | None:
    """Return the attribute of an option on this machine, None where it has none or several of that name."""
    for way in ways_of(vendor, knob):
        found = list(registry.matching(way[0].name))
        if found:
            return found[0] if len(found) == 1 else None
    return None


def ways_of(vendor: str, knob: str) -> list[Sequence[Part]]:
    """Return the ways to set an option: those of the vendor, then those of AMI, which other makers build on too."""
    ways = KNOBS[knob].ways
    return [*ways.get(vendor, ()), *(ways.get(AMI, ()) if vendor != AMI else ())]


def meaning_of(knob: str, attribute: Attribute, value: Value, vendor: str) -> str | None:
    """Return what a value of an attribute means in the words of an option; None for one without a meaning there."""
    parts = [way[0] for way in ways_of(vendor, knob)]
    names = (attribute.name, attribute.base)
    part = next((part for part in parts if any(re.fullmatch(part.name, name) for name in names)), None)
    values = (part.values if part else None) or KNOBS[knob].values
    texts = [_plain(text, attribute) for text in (dict(attribute.values).get(str(value), ""), str(value)) if text]
    for meaning, rules in values.items():
        if any(re.fullmatch(rule, text) for rule in rules for text in texts):
            return meaning
    return None


def value_of(attribute: Attribute, rules: Sequence[str], active: Value = None) -> Value:
    """Return the value of an attribute that a meaning stands for, None where it has none or several."""
    for name, title in attribute.values:
        if name == active and any(re.fullmatch(rule, _plain(title, attribute)) for rule in rules):
            return name
    if attribute.type == "Boolean":
        return next((value for value in (True, False) if re.fullmatch(rules[0], str(value).lower())), None)
    for rule in rules:
        # The title first: some machines count their values, and 0 may be the number of any.
        for place in (1, 0):
            found = [one[0] for one in attribute.values if re.fullmatch(rule, _plain(one[place], attribute))]
            if len(found) == 1:
                return found[0]
            if found:
                return None
    return None


def _by_knob(
    registry: Registry, vendor: str, active: Mapping[str, Value], knob: str, meaning: str
) -> list[Target] | Absent:
    setting = KNOBS[knob]
    for way in ways_of(vendor, knob):
        targets: list[Target] = []
        for part in way:
            found = list(registry.matching(part.name))
            if len(found) > 1:
                names = ", ".join(one.name for one in found)
                raise BadRequest(
                    f"{knob}: this machine has several attributes of that name, {names}. Choose one with the option "
                    "attributes, and leave this one out."
                )
            if not found:
                if part.needed:
                    break
                continue
            rules = (part.values or setting.values).get(meaning)
            if rules is None:
                continue
            value = value_of(found[0], rules, active.get(found[0].name))
            if value is None:
                return Absent(
                    knob,
                    meaning,
                    f"{setting.title}: this machine has {found[0].name}, but not as {meaning}. It offers "
                    f"{found[0].allowed()}.",
                )
            targets.append(Target(found[0], value, knob, meaning))
        else:
            if targets:
                return targets
    return Absent(
        knob, meaning, f"{setting.title}: this machine has no such attribute.{_suggested(registry, setting.words)}"
    )


def _suggested(registry: Registry, words: str) -> str:
    """Return attributes whose title looks like what was asked for, for a person to judge; none is set for it."""
    wanted = [_letters(word) for word in words.split()]
    found = [
        f"{one.name} ({one.title})"
        for one in registry.attributes.values()
        if all(word in _letters(one.title) for word in wanted)
    ]
    if not found:
        return ""
    return f" By its title it may be {' or '.join(found[:3])}; if so, set it with the option attributes."


def _by_name(registry: Registry, name: str, value: Value) -> Target:
    attribute = registry.get(name)
    if attribute is None:
        near = registry.close_to(name)
        raise BadRequest(
            f"attributes: this machine has no {name}. "
            + (f"Did you mean {' or '.join(near)}? " if near else "")
            + "The module epyc_bios_info lists all."
        )
    why = denied(attribute)
    if why:
        raise BadRequest(
            f"attributes: {name} is about {why}. That can lock people out or cannot be undone, so this module never "
            "sets it. Use the setup of the machine."
        )
    return Target(attribute, attribute.convert(value), "attributes", str(value))


def _add(targets: dict[str, Target], new: Target) -> None:
    before = targets.get(new.name)
    if before is not None and before.value != new.value:
        raise BadRequest(
            f"{new.name} is wanted as {before.value} by {before.knob} and as {new.value} by {new.knob}. Leave one out."
        )
    targets.setdefault(new.name, new)


def _plain(text: str, attribute: Attribute) -> str:
    """Return a value to compare; some makers put the name of the attribute in front of it."""
    plain, name = _letters(text), _letters(attribute.base)
    return plain[len(name) :] if plain.startswith(name) and len(plain) > len(name) else plain


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
