# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory modules: channels without a module, modules slower than they could be, and modules of different sizes.

The firmware names slots, not channels. On many boards the name of a slot contains its channel. Elsewhere only the
number of modules can show that channels are empty.
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
    from .setting import KernelView, Reading
    from .smbios import Slot

RATED, EQUAL = "rated", "equal"
#: CPU family, first and last model, channels of a socket, and the highest speed of memory in MT/s.
CHANNELS = (
    (23, 0x00, 0x0F, 8, 2666),
    (23, 0x30, 0x3F, 8, 3200),
    (25, 0x00, 0x0F, 8, 3200),
    (25, 0x10, 0x1F, 12, 4800),
    (25, 0xA0, 0xAF, 12, 4800),
    (26, 0x00, 0x1F, 12, 6000),
)
#: First digit of the SKU, and channels, of the EPYC 8004: it has the family and model of the EPYC 9004 and half of its
#: channels.
SMALL_SOCKET = ("8", 6)
#: Patterns of the channel in the bank name of a slot (P0_Node0_Channel0_Dimm0, P0 CHANNEL A), and in the name of a slot
#: (DIMM_P0_A0, P1-DIMMA1, DIMMA1).
BY_BANK = re.compile(r"(.*CHANNEL[ _]?[0-9A-Z]+)", re.IGNORECASE)
BY_NAME = re.compile(r"(.*DIMM_?(?:P\d_)?[A-Z])\d", re.IGNORECASE)
#: Slot names of Dell: a letter for the socket, and a number that counts the channels of the socket once or twice.
BY_NUMBER = re.compile(r"([A-H])(\d+)")
SHARE_WORDS = {12: "a twelfth", 8: "an eighth", 6: "a sixth"}
#: The largest number of slots on one channel.
MAX_SLOTS_PER_CHANNEL = 2
#: The largest number of empty slots that a sentence names.
MAX_NAMED = 4


def read_filled_memory_channels(view: KernelView) -> Reading:
    """Return "all" if each memory channel has a module, else a text such as "11 of 12"."""
    limits = _find_channel_count_and_speed(view.top)
    if limits is None or view.memory_slots.missing_reason:
        return None, view.memory_slots.missing_reason or "the number of memory channels of this CPU is not in our table"
    per_socket, total = limits[0], limits[0] * len(view.top.sockets)
    slots, modules = view.memory_slots.slots, view.memory_slots.filled_slots
    names = _find_slot_channels(slots, per_socket, len(view.top.sockets))
    if names:
        used = {name for name, slot in zip(names, slots) if slot.has_module}
        empty = [slot.name or slot.bank for name, slot in zip(names, slots) if name not in used]
        filled = len(used)
    elif total <= len(modules) < len(slots):
        return None, f"{len(modules)} modules in {len(slots)} slots, whose names do not say which of {total} channels"
    else:
        empty = [slot.name or slot.bank for slot in slots if not slot.has_module]
        filled = min(len(modules), total)
    slowest = min((slot.configured or slot.rated for slot in modules), default=0) or limits[1]
    if filled == total:
        bandwidth = _format_bandwidth_gb_per_second(total, slowest)
        return ALL, f"{len(modules)} modules on {total} channels: {bandwidth} GB/s at {slowest} MT/s"
    how = (
        f"no module on {'' if names else 'at least '}{total - filled} of {total} channels, each of which is "
        f"{SHARE_WORDS[per_socket]} of the bandwidth of its socket: {_format_bandwidth_gb_per_second(filled, slowest)} "
        f"of {_format_bandwidth_gb_per_second(total, slowest)} GB/s are left at {slowest} MT/s"
    )
    more = f" and {len(empty) - MAX_NAMED} more" if len(empty) > MAX_NAMED else ""
    return f"{filled} of {total}", how + (f"; empty slots: {', '.join(empty[:MAX_NAMED])}{more}" if empty else "")


def compare_memory_speed_with_rating(view: KernelView) -> Reading:
    """Return "rated" if all modules run at the highest speed of module and CPU, else the lowest speed in MT/s."""
    limits = _find_channel_count_and_speed(view.top)
    if limits is None or view.memory_slots.missing_reason:
        return None, view.memory_slots.missing_reason or "the highest memory speed of this CPU is not in our table"
    modules = view.memory_slots.filled_slots
    if not all(slot.configured and slot.rated for slot in modules):
        return None, "the firmware does not give the speed of every module"
    slowest = min(modules, key=lambda slot: slot.configured / min(slot.rated, limits[1]))
    best = min(slowest.rated, limits[1])
    how = f"modules for {slowest.rated} MT/s run at {slowest.configured} MT/s, and the CPU takes {limits[1]} MT/s"
    if slowest.configured >= best:
        return RATED, how
    lost = 100 * (best - slowest.configured) // best
    return f"{slowest.configured} of {best} MT/s", f"{how}; {lost} percent of the bandwidth are lost"


def compare_module_sizes(view: KernelView) -> Reading:
    """Return "equal" if all modules have the same size, else "mixed"."""
    if view.memory_slots.missing_reason:
        return None, view.memory_slots.missing_reason
    modules = view.memory_slots.filled_slots
    if any(slot.mib is None for slot in modules):
        return None, "the firmware does not give the size of every module"
    count: dict[int, int] = {}
    for slot in modules:
        count[slot.mib or 0] = count.get(slot.mib or 0, 0) + 1
    how = ", ".join(f"{number} x {format_bytes(mib * UNITS['MiB'])}" for mib, number in sorted(count.items()))
    return (EQUAL if len(count) == 1 else "mixed"), how


def _find_channel_count_and_speed(top: Topology) -> tuple[int, int] | None:
    """Return the number of memory channels of a socket and their highest speed in MT/s, None for an unknown CPU."""
    for family, low, high, count, speed_limit in CHANNELS:
        if top.is_amd and top.family == family and low <= top.model_number <= high:
            digit, few = SMALL_SOCKET
            return (few if top.sku.startswith(digit) else count), speed_limit
    return None


def _find_slot_channels(slots: Sequence[Slot], per_socket: int, sockets: int) -> list[str]:
    """Return the channel of each slot; empty where the names of the slots do not contain their channels."""
    for pattern, texts in ((BY_BANK, [slot.bank for slot in slots]), (BY_NAME, [slot.name for slot in slots])):
        matches = [pattern.match(text) for text in texts]
        names = [match.group(1) for match in matches if match]
        if len(names) == len(slots) and _name_count_fits_channels(len(set(names)), len(slots), per_socket, sockets):
            return names
    matches = [BY_NUMBER.fullmatch(slot.name) for slot in slots]
    pairs = [(match.group(1), (int(match.group(2)) - 1) % per_socket) for match in matches if match]
    if len(pairs) == len(slots) and len(set(pairs)) == per_socket * sockets:
        return [f"{letter}{number}" for letter, number in pairs]
    return []


def _name_count_fits_channels(name_count: int, slot_count: int, per_socket: int, sockets: int) -> bool:
    """Return whether a number of different names fits the channels of a board: enough for the slots, and not too many.

    A board may have fewer channels than its CPU. With two sockets, too few names could also mean that both sockets use
    the same names, so on such boards each channel must have its own name.
    """
    return slot_count <= name_count * MAX_SLOTS_PER_CHANNEL and (
        name_count <= per_socket if sockets == 1 else name_count == per_socket * sockets
    )


def _format_bandwidth_gb_per_second(channel_count: int, mts: int) -> str:
    """Return the bandwidth in GB/s of a number of channels, each of 8 bytes."""
    return f"{channel_count * mts * 8 / 1000:.1f}"
