# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses, values and findings in words for people.

For example, ``msr:0xc0000108[1]/cpu16`` with the value 1 is "prefetcher l1_stride", "CPU" 16, "disabled".
"""

from __future__ import annotations

import re

from .._knobs import address_kinds
from .._knobs.address_kinds import NOTHING, format_places, format_plural
from .._knobs.catalogue import find_knob_row
from .._notation.cpulist import format_cpulist
from .next_step import capitalize_and_end_step, repair_to_words
from .verdict import CHANGE_WHAT_IS_ASKED, DRIFT, NOT_SUPPORTED, OK, UNKNOWN, UNSUPPORTED, is_single_setting

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


def name_and_place_of_address(address: str) -> Words:
    """Return the name of a setting, the unit of its place such as "CPU", and its place.

    An unknown address is returned as the name.
    """
    rest = address.partition(":")[2]
    if not rest:
        return _title_of_address_kind(address) or ALL_SETTINGS, "", None
    row = find_knob_row(address)
    return row.describe_setting(rest) if row else address_kinds.describe_address(address)


def _title_of_address_kind(address: str) -> str:
    """Return the title of an address that stands for all addresses of its kind; "" for those of a knob."""
    kind = address_kinds.find_address_kind(address)
    return kind.title if kind else ""


def format_setting_and_place(finding: Mapping[str, Any]) -> str:
    """Return the name of the setting of a finding, followed by its place."""
    return f"{finding['what']}, {finding['where']}" if finding["where"] else str(finding["what"])


def format_found_and_wanted(finding: Mapping[str, Any]) -> str:
    """Return the found and the wanted value of a finding; the reason where no value was compared; may be empty."""
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


def format_finding(finding: Mapping[str, Any], shown_title: str = "") -> str:
    """Return a finding in one line without a full stop: its title, its values, and the reason.

    The title is left out where it equals ``shown_title``, because the reader sees that title before the line.
    """
    title = format_setting_and_place(finding)
    address = finding["addresses"][0] if finding["addresses"] else title
    if not is_single_setting(address) and not _title_of_address_kind(address):
        row = find_knob_row(address)
        title = row.title if row else address.rstrip(":")
    reason = str(finding["reason"]) if finding["status"] == DRIFT else ""
    details = "; ".join(part for part in (format_found_and_wanted(finding), reason) if part)
    if details and title != shown_title:
        details = f"{title}: {details}"
    return (details or title).rstrip(".")


def next_step_words(finding: Mapping[str, Any]) -> str:
    """Return the next step about a finding, such as "run site.yml --tags cat"; "" for a finding without a repair."""
    if step := repair_to_words(str(finding["repair"])):
        return step
    return CHANGE_WHAT_IS_ASKED.rstrip(".") if finding.get("status") == UNSUPPORTED else ""


def format_finding_with_step(finding: Mapping[str, Any]) -> str:
    """Return a finding in one line, followed by the sentence with its next step."""
    return f"{format_finding(finding)}. {next_step_sentence(finding)}".rstrip()


def next_step_sentence(finding: Mapping[str, Any]) -> str:
    """Return the next step about a finding as a sentence; "" for a finding without a next step."""
    return capitalize_and_end_step(next_step_words(finding))


def list_next_step_sentences(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the next steps of findings as sentences, each step once, in the order of the findings."""
    return [step for step in dict.fromkeys(map(next_step_sentence, findings)) if step]


def settings_checked_message(settings: Mapping[str, int]) -> str:
    """Return a text with the number of checked settings and of those that are not as configured.

    ``settings`` maps each status to a number of settings.
    """
    total = sum(settings.values())
    return f"{total} {format_plural('setting', total)} checked, {not_as_configured_count_message(settings)}"


def not_as_configured_count_message(settings: Mapping[str, int]) -> str:
    """Return a text with the number of settings that are not as configured, from numbers by status."""
    return f"{sum(settings.values()) - settings[OK]} not as configured"


def format_value(address: str, text: str | None) -> str:
    """Return a value of an address in words, such as "disabled" for a bit that is 1."""
    if text is None:
        return NOTHING
    if address_kinds.has_opaque_value(address):
        return "stored"
    kind, rest = address_kinds.find_address_kind(address), address.partition(":")[2]
    if kind and kind.has_text_value(rest):
        # --diff prints such texts whole.
        number = len(text.splitlines())
        return f"a text of {number} {format_plural('line', number)}"
    row = find_knob_row(address)
    if row and rest:
        text = row.format_value(rest, text)
    return text or "''"


def format_location(unit: str, places: Iterable[Place], ccds: Mapping[int, int] | None = None) -> str:
    """Return places as a text; L3 domains are followed by their CCDs, where ``ccds`` maps domains to CCDs."""
    places = list(places)
    text = format_places(unit, places)
    numbers = sorted({ccds[place] for place in places if isinstance(place, int) and place in ccds}) if ccds else []
    return f"{text} ({format_plural('CCD', len(numbers))} {format_cpulist(numbers)})" if numbers else text


def natural_sort_key(text: str) -> tuple[tuple[tuple[int, str], ...], str]:
    """Return a key that sorts numbers in texts by their value; different texts have different keys.

    Numbers are compared by their count of digits and then as texts, not as integers: a host could send thousands of
    digits, which Python refuses to convert.
    """
    key: list[tuple[int, str]] = []
    for number, char in NUMBERS.findall(text):
        digits = number.lstrip("0")
        key.append((-1, char) if char else (len(digits), digits))
    return tuple(key), text
