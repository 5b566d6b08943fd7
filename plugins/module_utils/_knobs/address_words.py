# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words for the addresses that belong to no knob, and for places of settings. A knob's own file has the words for its.

Modules print what they change with these, so nothing here imports the table of all knobs.
"""

from __future__ import annotations

from .._notation.cpulist import format_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Optional, Union

    Place = Union[int, str]
    #: The same as in knob.py: an import for types alone is sent to hosts, too.
    Words = tuple[str, str, Optional[Place]]

#: What a setting is called that has no value.
NOTHING = "nothing"
#: The address of the stored intent, whose value people can read.
INTENT = "desired:intent"
#: Addresses whose values are digests or JSON: of these, people read only whether something is stored.
STORED = ("engine:/", "desired:", "prerequisites:/")
UNITS = {
    "sovereign-epyc.service": "boot service",
    "sovereign-epyc-agent.service": "service of the agent",
    "sovereign-epyc-agent.socket": "socket of the agent",
    "sovereign-epyc-watch.service": "watch service",
    "sovereign-epyc-check.service": "service of the check",
    "sovereign-epyc-check.timer": "timer of the check",
}


def has_unreadable_value(address: str) -> bool:
    """Return whether the value of an address is a digest or JSON, which says nothing to people."""
    return address.startswith(STORED) and address != INTENT


def describe(address: str) -> Words:
    """Return what a setting is, the unit of its place, and its place; for an unknown setting, its address."""
    prefix, dummy, rest = address.partition(":")
    return OTHERS[prefix](rest) if prefix in OTHERS else (address, "", None)


def format_places(unit: str, places: Iterable[Place]) -> str:
    """Return places as text: numbers in the kernel's list notation. Names that have a unit are only counted."""
    places = list(dict.fromkeys(places))
    if unit and any(isinstance(place, str) for place in places):
        return f"{len(places)} {format_plural(unit, len(places))}"
    numbers = [place for place in places if isinstance(place, int)]
    if len(numbers) < len(places) or not places:
        return ", ".join(str(place) for place in places)
    return f"{format_plural(unit, len(numbers))} {format_cpulist(numbers)}"


def format_plural(unit: str, number: int) -> str:
    """Return a unit as it is said of that number of things."""
    if number == 1:
        return unit
    return f"{unit[:-1]}ies" if unit.endswith("cy") else f"{unit}s"


def _desired(rest: str) -> Words:
    return ("stored intent", "", None) if rest == "intent" else ("stored request", "", rest)


def _engine(rest: str) -> Words:
    name, dummy, kind = rest.rpartition("/")
    if name in UNITS:
        return UNITS[name] if kind == "enabled" else f"run of the {UNITS[name]}", "", name
    return "engine on the host", "file", rest


def _ledger(dummy_rest: str) -> Words:
    return "record of what was there before", "", None


def _plan(rest: str) -> Words:
    return f"CPUs of the role {rest}", "", None


def _prerequisites(rest: str) -> Words:
    if rest.startswith("/"):
        return "kernel modules to load at boot", "", rest
    return f"kernel module {rest.rpartition('/')[2]}", "", None


def _serving(rest: str) -> Words:
    folder, dummy, last = rest.rpartition("/")
    unit = next((word for word in (*folder.split("/"), last) if word.startswith("llama-")), "")
    who = f"instance {unit[len('llama-') :].partition('.service')[0]}" if unit else "the RPC worker"
    if not rest.startswith("/"):
        return OF_UNIT[last].format(who), "", None
    return (f"unit of {who}" if last.endswith(".service") else f"drop-in {last} of {who}"), "", None


#: What of a unit an address is about.
OF_UNIT = {
    "active": "run of {}",
    "drop-ins": "drop-ins of {}",
    "enabled": "{}",
    "file": "unit of {}",
    "loaded": "files of {}",
}
#: What is on a host beside the settings of knobs.
OTHERS = {
    "desired": _desired,
    "engine": _engine,
    "ledger": _ledger,
    "llama": _serving,
    "plan": _plan,
    "prerequisites": _prerequisites,
}
