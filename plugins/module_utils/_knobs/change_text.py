# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The changes of a run as a text for people, which ``--diff`` prints, one line for settings that change alike.

256 policies whose governor changes from schedutil to performance are the line "governor, policies 0-255: schedutil ->
performance".
"""

from __future__ import annotations

from .._notation.printable import escape_unprintable
from . import address_kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .address_kinds import Place, Words

    Settings = Mapping[str, "str | None"]


def add_text_to_diff(result: dict[str, Any], knob_files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a module with its ``diff`` in the form that Ansible prints.

    Ansible prints the key ``prepared`` as it is. It would print each address a second time if it found ``before`` and
    ``after`` beside that key, so these two are in ``changes``. ``knob_files`` maps the prefix of addresses to the file
    of the knob, whose functions describe_setting and format_value supply the words. The restarts of running instances
    that the changes need come last.
    """
    if "diff" not in result:
        return result
    changes = result["diff"] or {"before": {}, "after": {}}
    text = format_changes(changes["before"], changes["after"], knob_files)
    text += "".join(f"{escape_unprintable(restart['message'])}\n" for restart in result.get("restarts", ()))
    return {**result, "diff": {"prepared": text, "changes": changes}}


def format_changes(before: Settings, after: Settings, knob_files: Mapping[str, Any]) -> str:
    """Return the changes between the settings ``before`` and ``after`` as lines for people; empty without changes.

    Settings of one kind with the same change share a line. The change of a text file is shown as a diff of its lines.
    """
    groups: dict[tuple[str, str, str], list[Place]] = {}
    for address, value in after.items():
        if address == address_kinds.INTENT and value is not None and len(after) > 1:
            # In check mode no layer finds the intent stored, so each layer would print the intent again.
            continue
        noun, unit, place = _describe_address(address, knob_files)
        members = groups.setdefault((noun, unit, _format_change(address, before.get(address), value, knob_files)), [])
        members += [] if place is None else [place]
    return "".join(
        f"{escape_unprintable(_format_title(noun, unit, places))}:{change}\n"
        for (noun, unit, change), places in groups.items()
    )


def _format_title(noun: str, unit: str, places: list[Place]) -> str:
    return f"{noun}, {address_kinds.format_places(unit, places)}" if places else noun


def _describe_address(address: str, knob_files: Mapping[str, Any]) -> Words:
    prefix, dummy, rest = address.partition(":")
    describe = getattr(knob_files.get(prefix), "describe_setting", None)
    words: Words = describe(rest) if describe else address_kinds.describe_address(address)
    return words


def _format_change(address: str, before: str | None, after: str | None, knob_files: Mapping[str, Any]) -> str:
    """Return the text after the colon: ' old -> new', or for a multi-line value the lines of its diff."""
    if address_kinds.has_opaque_value(address):
        return " new" if before is None else " removed" if after is None else " changed"
    if "\n" in (before or "") or "\n" in (after or ""):
        return _format_changed_lines(before or "", after or "")
    return f" {_format_value(address, before, knob_files)} -> {_format_value(address, after, knob_files)}"


def _format_changed_lines(before: str, after: str) -> str:
    # Imported here because few modules change texts.
    import difflib

    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:]
    return "".join(f"\n{escape_unprintable(line)}" for line in lines) or " changed"


def _format_value(address: str, value: str | None, knob_files: Mapping[str, Any]) -> str:
    if value is None:
        return address_kinds.NOTHING
    prefix, dummy, rest = address.partition(":")
    shown = getattr(knob_files.get(prefix), "format_value", None)
    return escape_unprintable(str(shown(rest, value)) if shown else value) or "''"
