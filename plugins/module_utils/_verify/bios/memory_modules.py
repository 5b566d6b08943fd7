# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory: channels without a module, modules that run slower than they could, and modules of different sizes.

The firmware names slots, not channels. Many boards have the channel in the name; where the names say nothing, counting
modules still tells that there are too few of them.
Source: DMTF DSP0134 for the fields; the names from dumps of servers of each vendor.
"""

from __future__ import annotations

import re

from ..._notation.sizes import UNITS, format_bytes
from .cores import ALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.topology import Topology
    from .setting import Look, Seen
    from .smbios import Slot

RATED, EQUAL = "rated", "equal"
#: CPU family and model range, with the channels of a socket and the highest speed in MT/s that AMD gives for it.
CHANNELS = (
    (23, 0x00, 0x0F, 8, 2666),
    (23, 0x30, 0x3F, 8, 3200),
    (25, 0x00, 0x0F, 8, 3200),
    (25, 0x10, 0x1F, 12, 4800),
    (25, 0xA0, 0xAF, 12, 4800),
    (26, 0x00, 0x1F, 12, 6000),
)
#: EPYC 8004 has the family and model of its large sisters, and half of their channels.
SMALL_SOCKET = ("8", 6)
#: Where a slot says which channel it is on: in its bank (P0_Node0_Channel0_Dimm0, P0 CHANNEL A), or in its own name
#: (DIMM_P0_A0, P1-DIMMA1, DIMMA1).
BY_BANK = re.compile(r"(.*CHANNEL[ _]?[0-9A-Z]+)", re.IGNORECASE)
BY_NAME = re.compile(r"(.*DIMM_?(?:P\d_)?[A-Z])\d", re.IGNORECASE)
#: Dell: a letter for the socket, then a number that goes through the channels once or twice.
BY_NUMBER = re.compile(r"([A-H])(\d+)")
PARTS = {12: "a twelfth", 8: "an eighth", 6: "a sixth"}
#: The most slots that a channel has.
SLOTS = 2
#: How many slots a sentence names.
NAMED = 4


def channels(look: Look) -> Seen:
    """Return whether each memory channel has a module."""
    known = _controller(look.top)
    if known is None or look.memory.why_not:
        return None, look.memory.why_not or "how many memory channels this CPU has is not in our table"
    per_socket, total = known[0], known[0] * len(look.top.sockets)
    slots, modules = look.memory.slots, look.memory.modules
    names = _channels_of(slots, per_socket, len(look.top.sockets))
    if names:
        used = {name for name, slot in zip(names, slots) if slot.filled}
        empty = [slot.name or slot.bank for name, slot in zip(names, slots) if name not in used]
        filled = len(used)
    elif len(modules) >= total and len(modules) < len(slots):
        how = f"{len(modules)} modules in {len(slots)} slots, whose names do not say which of the {total} channels"
        return None, how
    else:
        empty = [slot.name or slot.bank for slot in slots if not slot.filled]
        filled = min(len(modules), total)
    slowest = min((slot.configured or slot.rated for slot in modules), default=0) or known[1]
    if filled == total:
        return ALL, f"{len(modules)} modules on {total} channels: {_gigabytes(total, slowest)} GB/s at {slowest} MT/s"
    how = (
        f"no module on {'' if names else 'at least '}{total - filled} of {total} channels, each of which is "
        f"{PARTS[per_socket]} of the bandwidth of its socket: {_gigabytes(filled, slowest)} of "
        f"{_gigabytes(total, slowest)} GB/s are left at {slowest} MT/s"
    )
    return f"{filled} of {total}", how + (f"; empty slots: {_some(empty)}" if empty else "")


def speed(look: Look) -> Seen:
    """Return whether all modules run as fast as they and the CPU can."""
    known = _controller(look.top)
    if known is None or look.memory.why_not:
        return None, look.memory.why_not or "how fast this CPU's memory may be is not in our table"
    modules = look.memory.modules
    if not all(slot.configured and slot.rated for slot in modules):
        return None, "the firmware does not tell the speed of every module"
    slowest = min(modules, key=lambda slot: slot.configured / min(slot.rated, known[1]))
    best = min(slowest.rated, known[1])
    how = f"modules for {slowest.rated} MT/s run at {slowest.configured} MT/s, and the CPU takes {known[1]} MT/s"
    if slowest.configured >= best:
        return RATED, how
    lost = 100 * (best - slowest.configured) // best
    return f"{slowest.configured} of {best} MT/s", f"{how}; {lost} percent of the bandwidth are lost"


def sizes(look: Look) -> Seen:
    """Return whether all modules have the same size."""
    if look.memory.why_not:
        return None, look.memory.why_not
    modules = look.memory.modules
    if any(slot.mib is None for slot in modules):
        return None, "the firmware does not tell the size of every module"
    count: dict[int, int] = {}
    for slot in modules:
        count[slot.mib or 0] = count.get(slot.mib or 0, 0) + 1
    how = ", ".join(f"{number} x {format_bytes(mib * UNITS['MiB'])}" for mib, number in sorted(count.items()))
    return (EQUAL if len(count) == 1 else "mixed"), how


def _controller(top: Topology) -> tuple[int, int] | None:
    """Return the memory channels of a socket and their highest speed."""
    for family, low, high, count, speed_limit in CHANNELS:
        if top.is_amd and top.family == family and low <= top.model_number <= high:
            digit, few = SMALL_SOCKET
            return (few if top.sku.startswith(digit) else count), speed_limit
    return None


def _channels_of(slots: Sequence[Slot], per_socket: int, sockets: int) -> list[str]:
    """Return the channel of each slot, nothing where the names do not tell it."""
    for pattern, texts in ((BY_BANK, [slot.bank for slot in slots]), (BY_NAME, [slot.name for slot in slots])):
        found = [pattern.match(text) for text in texts]
        names = [one.group(1) for one in found if one]
        if len(names) == len(slots) and _fits(len(set(names)), len(slots), per_socket, sockets):
            return names
    found = [BY_NUMBER.fullmatch(slot.name) for slot in slots]
    pairs = [(one.group(1), (int(one.group(2)) - 1) % per_socket) for one in found if one]
    if len(pairs) == len(slots) and len(set(pairs)) == per_socket * sockets:
        return [f"{letter}{number}" for letter, number in pairs]
    return []


def _fits(names: int, slots: int, per_socket: int, sockets: int) -> bool:
    """Return whether so many names can be channels: none with more slots than a channel has, and one for each.

    A board may have fewer channels than its CPU; on two sockets that is not told from names that both sockets have.
    """
    return slots <= names * SLOTS and (names <= per_socket if sockets == 1 else names == per_socket * sockets)


def _gigabytes(count: int, mts: int) -> str:
    """Return what so many channels of 8 bytes give in a second, in GB."""
    return f"{count * mts * 8 / 1000:.1f}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
