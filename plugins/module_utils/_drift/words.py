# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses and values in words for people: what a setting is, where it is, and what its value means.

``msr:0xc0000108[1]/cpu16`` with the value 1 is "prefetcher l1_stride", "CPU" 16, "disabled".
"""

from __future__ import annotations

import re

from .._knobs.catalogue import row_of
from .._knobs.knob import L3_DOMAIN
from .._notation import cpulist
from .._notation.printable import escape_unprintable
from .verdict import DRIFT, NOT_SUPPORTED, UNKNOWN, has_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Union

    from .._knobs.knob import Words
    from .verdict import Verdict

    Place = Union[int, str]

#: A number of ASCII digits, or one other character.
NUMBERS = re.compile(r"([0-9]+)|([^0-9])", re.DOTALL)
#: Addresses of all that there is of a kind.
ALL = {"desired:": "stored requests"}
UNITS = {
    "sovereign-epyc.service": "boot service",
    "sovereign-epyc-agent.service": "service of the agent",
    "sovereign-epyc-agent.socket": "socket of the agent",
    "sovereign-epyc-watch.service": "watch service",
    "sovereign-epyc-check.service": "service of the check",
    "sovereign-epyc-check.timer": "timer of the check",
}


def describe(address: str) -> Words:
    """Return what a setting is, the unit of its place, and its place; for an unknown setting, its address."""
    prefix, dummy, rest = address.partition(":")
    if not rest:
        return ALL.get(address, "all settings"), "", None
    row = row_of(address)
    if row:
        return row.describe(rest)
    return OTHERS[prefix](rest) if prefix in OTHERS else (address, "", None)


def line(verdict: Verdict) -> str:
    """Return what is wrong with a setting, or with all that is asked of a layer, in one line that can be printed."""
    return escape_unprintable(_line(verdict))


def _line(verdict: Verdict) -> str:
    subject = verdict.address if has_place(verdict.address) else _title(verdict.address)
    if not verdict.supported:
        return f"{subject}: {NOT_SUPPORTED}: {verdict.reason}"
    if UNKNOWN in (verdict.live, verdict.persistent):
        return f"{subject}: {UNKNOWN}: {verdict.reason}"
    values = (verdict.wanted, verdict.found, verdict.at_boot)
    wanted, found, at_boot = ("nothing" if text is None else text or "''" for text in values)
    more = f"; {verdict.reason}" if verdict.reason else ""
    if verdict.persistent == DRIFT and not more:
        more = f", {at_boot} after a boot"
    return f"{subject}: now {verdict.live}, at boot {verdict.persistent}: wanted {wanted}, found {found}{more}"


def _title(address: str) -> str:
    row = row_of(address)
    return row.title if row else ALL.get(address, address.rstrip(":"))


def value(address: str, text: str | None) -> str:
    """Return what a value means, for people."""
    if text is None:
        return "nothing"
    if address.startswith(("engine:/", "desired:", "prerequisites:/")) and address != "desired:intent":
        return "stored"
    if address.startswith("llama:/"):
        # A whole unit file; its difference is in the output of --diff.
        return f"a text of {len(text.splitlines())} lines"
    row = row_of(address)
    if row:
        text = row.shown(address.partition(":")[2], text)
    return text or "''"


def where(unit: str, places: Iterable[Place], ccds: Mapping[int, int] | None = None) -> str:
    """Return places as text: numbers in the kernel's list notation, L3 domains with the CCDs that they are on.

    Names that have a unit are only counted, because they are many.
    """
    places = list(dict.fromkeys(places))
    if unit and any(isinstance(place, str) for place in places):
        return f"{len(places)} {_plural(unit, len(places))}"
    numbers = [place for place in places if isinstance(place, int)]
    if len(numbers) < len(places) or not places:
        return ", ".join(str(place) for place in places)
    text = f"{_plural(unit, len(numbers))} {cpulist.render(numbers)}"
    if unit == L3_DOMAIN and ccds:
        on = sorted({ccds[number] for number in numbers if number in ccds})
        text += f" ({_plural('CCD', len(on))} {cpulist.render(on)})" if on else ""
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


def _plural(unit: str, number: int) -> str:
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


def _llama(rest: str) -> Words:
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
    "llama": _llama,
    "plan": _plan,
    "prerequisites": _prerequisites,
}
