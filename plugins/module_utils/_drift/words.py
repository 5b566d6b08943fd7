# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses and values in words for people: what a setting is, where it is, and what its value means.

``msr:0xc0000108[1]/cpu16`` with the value 1 is "prefetcher l1_stride", "CPU" 16, "disabled".
"""

from __future__ import annotations

import re

from .._knobs import address_kinds
from .._knobs.address_kinds import NOTHING, format_places, format_plural
from .._knobs.catalogue import row_of
from .._knobs.protocol.knob import L3_DOMAIN
from .._notation.cpulist import format_cpulist
from .next_step import as_sentence, describe_step
from .verdict import CHANGE_WHAT_IS_ASKED, DRIFT, NOT_SUPPORTED, OK, UNKNOWN, UNSUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .._knobs.address_kinds import Place
    from .._knobs.protocol.knob import Words

#: A number of ASCII digits, or one other character.
NUMBERS = re.compile(r"([0-9]+)|([^0-9])", re.DOTALL)
STATUS_WORDS = {OK: "ok", UNSUPPORTED: NOT_SUPPORTED, UNKNOWN: "unknown", DRIFT: "drift"}
#: What all that is asked of a layer is called.
ALL_SETTINGS = "all settings"


def describe(address: str) -> Words:
    """Return what a setting is, the unit of its place, and its place; for an unknown setting, its address."""
    rest = address.partition(":")[2]
    if not rest:
        kind = address_kinds.find_kind(address)
        return (kind and kind.title) or ALL_SETTINGS, "", None
    row = row_of(address)
    return row.describe(rest) if row else address_kinds.describe_address(address)


def title(finding: Mapping[str, Any]) -> str:
    """Return what a finding is about, with its place."""
    return f"{finding['what']}, {finding['where']}" if finding["where"] else str(finding["what"])


def values(finding: Mapping[str, Any]) -> str:
    """Return what was found and what is wanted; where nothing was compared, why. Empty where the title says all."""
    if finding["status"] != DRIFT:
        return f"{STATUS_WORDS[finding['status']]}: {finding['reason']}"
    found, wanted, at_boot = finding["found"], finding["wanted"], finding["at_boot"]
    if wanted and (finding["live"] == OK or found == wanted):
        now = "not there now" if found == NOTHING else f"{found} now"
        return f"{now}, as wanted" + (f"; {at_boot} after a boot" if at_boot not in ("", found) else "")
    parts = [f"found {found}, wanted {wanted}"] if found != wanted else []
    if finding["pending_reboot"]:
        parts.append("which waits for a reboot")
    elif finding["persistent"] == DRIFT and at_boot not in ("", found):
        parts.append(f"{at_boot} after a boot")
    return ", ".join(parts)


def sentence(finding: Mapping[str, Any]) -> str:
    """Return a finding in one line without a full stop at its end: what it is about, the values, and the reason."""
    subject = title(finding)
    if finding["what"] == ALL_SETTINGS:
        row = row_of(finding["addresses"][0])
        subject = row.title if row else finding["addresses"][0].rstrip(":")
    reason = str(finding["reason"]) if finding["status"] == DRIFT else ""
    told = "; ".join(part for part in (values(finding), reason) if part)
    return (f"{subject}: {told}" if told else subject).rstrip(".")


def next_step(finding: Mapping[str, Any]) -> str:
    """Return the one thing to do about a finding, such as "run site.yml --tags cat"; empty where its reason says it."""
    if step := describe_step(str(finding["repair"])):
        return step
    return CHANGE_WHAT_IS_ASKED.rstrip(".") if finding.get("status") == UNSUPPORTED else ""


def line(finding: Mapping[str, Any]) -> str:
    """Return a finding in one line, with what to do about it."""
    return f"{sentence(finding)}. {instruction(finding)}".rstrip()


def instruction(finding: Mapping[str, Any]) -> str:
    """Return the one thing to do about a finding as a sentence; empty where there is none."""
    return as_sentence(next_step(finding))


def instructions(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what to do about findings as sentences, each thing once, the first finding's first."""
    return [step for step in dict.fromkeys(map(instruction, findings)) if step]


def counted(settings: Mapping[str, int]) -> str:
    """Return in words how many settings were checked, and how many are not as configured."""
    total = sum(settings.values())
    return f"{total} setting{'' if total == 1 else 's'} checked, {count_wrong(settings)}"


def count_wrong(settings: Mapping[str, int]) -> str:
    """Return in words how many of the checked settings are not as configured."""
    return f"{sum(settings.values()) - settings[OK]} not as configured"


def value(address: str, text: str | None) -> str:
    """Return what a value means, for people."""
    if text is None:
        return NOTHING
    if address_kinds.has_opaque_value(address):
        return "stored"
    kind, rest = address_kinds.find_kind(address), address.partition(":")[2]
    if kind and kind.has_text_value(rest):
        # The difference of a whole file is in the output of --diff.
        number = len(text.splitlines())
        return f"a text of {number} line{'' if number == 1 else 's'}"
    row = row_of(address)
    if row and rest:
        text = row.shown(rest, text)
    return text or "''"


def where(unit: str, places: Iterable[Place], ccds: Mapping[int, int] | None = None) -> str:
    """Return places as text, L3 domains with the CCDs that they are on."""
    places = list(places)
    text = format_places(unit, places)
    if unit == L3_DOMAIN and ccds:
        on = sorted({ccds[place] for place in places if isinstance(place, int) and place in ccds})
        text += f" ({format_plural('CCD', len(on))} {format_cpulist(on)})" if on else ""
    return text


def natural(text: str) -> tuple[tuple[tuple[int, str], ...], str]:
    """Return a key that sorts numbers in texts by their value; different texts have different keys.

    A number of more digits is larger, and numbers of equally many compare as texts. Python would make no number of
    thousands of digits, and a host can send any text.
    """
    key: list[tuple[int, str]] = []
    for number, char in NUMBERS.findall(text):
        digits = number.lstrip("0")
        key.append((-1, char) if char else (len(digits), digits))
    return tuple(key), text
