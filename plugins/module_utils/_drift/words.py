# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses, values and findings in words for people.

``msr:0xc0000108[1]/cpu16`` with the value 1 is "prefetcher l1_stride", "CPU" 16, "disabled".
"""

from __future__ import annotations

import re

from .._knobs import address_kinds
from .._knobs.address_kinds import NOTHING, format_places, format_plural
from .._knobs.catalogue import find_row
from .._knobs.protocol.knob import L3_DOMAIN
from .._notation.cpulist import format_cpulist
from .next_step import describe_step, step_to_sentence
from .verdict import CHANGE_WHAT_IS_ASKED, DRIFT, NOT_SUPPORTED, OK, UNKNOWN, UNSUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .._knobs.address_kinds import Place
    from .._knobs.protocol.knob import Words

#: A number of ASCII digits, or a single other character.
NUMBERS = re.compile(r"([0-9]+)|([^0-9])", re.DOTALL)
STATUS_WORDS = {OK: "ok", UNSUPPORTED: NOT_SUPPORTED, UNKNOWN: "unknown", DRIFT: "drift"}
#: The name of all settings of a layer together.
ALL_SETTINGS = "all settings"


def describe_address(address: str) -> Words:
    """Return the name of a setting, the unit of its place such as "CPU", and its place.

    An unknown address is returned as the name.
    """
    rest = address.partition(":")[2]
    if not rest:
        kind = address_kinds.find_kind(address)
        return (kind and kind.title) or ALL_SETTINGS, "", None
    row = find_row(address)
    return row.describe_setting(rest) if row else address_kinds.describe_address(address)


def format_title(finding: Mapping[str, Any]) -> str:
    """Return the name of the setting of a finding, with its place."""
    return f"{finding['what']}, {finding['where']}" if finding["where"] else str(finding["what"])


def format_values(finding: Mapping[str, Any]) -> str:
    """Return the found and the wanted value of a finding, or the reason where nothing was compared; may be empty."""
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


def format_finding(finding: Mapping[str, Any]) -> str:
    """Return a finding in one line without a full stop: its title, its values, and the reason."""
    subject = format_title(finding)
    if finding["what"] == ALL_SETTINGS:
        row = find_row(finding["addresses"][0])
        subject = row.title if row else finding["addresses"][0].rstrip(":")
    reason = str(finding["reason"]) if finding["status"] == DRIFT else ""
    details = "; ".join(part for part in (format_values(finding), reason) if part)
    return (f"{subject}: {details}" if details else subject).rstrip(".")


def choose_next_step(finding: Mapping[str, Any]) -> str:
    """Return what to do about a finding, such as "run site.yml --tags cat"; "" where its reason says it."""
    if step := describe_step(str(finding["repair"])):
        return step
    return CHANGE_WHAT_IS_ASKED.rstrip(".") if finding.get("status") == UNSUPPORTED else ""


def format_finding_with_step(finding: Mapping[str, Any]) -> str:
    """Return a finding in one line, followed by the sentence with its next step."""
    return f"{format_finding(finding)}. {next_step_sentence(finding)}".rstrip()


def next_step_sentence(finding: Mapping[str, Any]) -> str:
    """Return what to do about a finding as a sentence; "" where there is nothing to do."""
    return step_to_sentence(choose_next_step(finding))


def list_next_steps(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the next steps of findings as sentences, each step once, in the order of the findings."""
    return [step for step in dict.fromkeys(map(next_step_sentence, findings)) if step]


def settings_checked_message(settings: Mapping[str, int]) -> str:
    """Return the text that counts the checked settings, and those that are not as configured."""
    total = sum(settings.values())
    return f"{total} setting{'' if total == 1 else 's'} checked, {not_as_configured_message(settings)}"


def not_as_configured_message(settings: Mapping[str, int]) -> str:
    """Return the text that counts the settings that are not as configured."""
    return f"{sum(settings.values()) - settings[OK]} not as configured"


def format_value(address: str, text: str | None) -> str:
    """Return a value of an address in words, such as "disabled" for a bit that is 1."""
    if text is None:
        return NOTHING
    if address_kinds.has_opaque_value(address):
        return "stored"
    kind, rest = address_kinds.find_kind(address), address.partition(":")[2]
    if kind and kind.has_text_value(rest):
        # The difference of a whole file is in the output of --diff.
        number = len(text.splitlines())
        return f"a text of {number} line{'' if number == 1 else 's'}"
    row = find_row(address)
    if row and rest:
        text = row.format_value(rest, text)
    return text or "''"


def format_location(unit: str, places: Iterable[Place], ccds: Mapping[int, int] | None = None) -> str:
    """Return places as a text; L3 domains with their CCDs, where ``ccds`` has these by domain."""
    places = list(places)
    text = format_places(unit, places)
    if unit == L3_DOMAIN and ccds:
        ccds_of_places = sorted({ccds[place] for place in places if isinstance(place, int) and place in ccds})
        text += (
            f" ({format_plural('CCD', len(ccds_of_places))} {format_cpulist(ccds_of_places)})" if ccds_of_places else ""
        )
    return text


def natural_sort_key(text: str) -> tuple[tuple[tuple[int, str], ...], str]:
    """Return a key that sorts numbers in texts by their value; different texts have different keys.

    Numbers are compared by their count of digits and then as texts. They are not converted, because Python refuses to
    convert thousands of digits, which a host could send.
    """
    key: list[tuple[int, str]] = []
    for number, char in NUMBERS.findall(text):
        digits = number.lstrip("0")
        key.append((-1, char) if char else (len(digits), digits))
    return tuple(key), text
