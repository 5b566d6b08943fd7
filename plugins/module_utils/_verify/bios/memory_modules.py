# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory modules: channels without a module, modules slower than they could be, and modules of different sizes.

_host/memory_channels.py finds the channel of a slot.
"""

from __future__ import annotations

from ..._host.memory_channels import (
    channels_gbps,
    count_channels_of_real_modules,
    count_filled_channels,
    find_socket_memory,
    loses_most_bandwidth,
)
from ..._notation.sizes import UNITS, format_bytes
from .cores import ALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import KernelView, Reading

RATED, EQUAL = "rated", "equal"
SHARE_WORDS = {16: "a sixteenth", 12: "a twelfth", 8: "an eighth", 6: "a sixth"}
#: The largest number of empty slots that a sentence names.
MAX_NAMED = 4


def read_filled_memory_channels(view: KernelView) -> Reading:
    """Return "all" if each memory channel has a module, else a text such as "11 of 12"."""
    memory = find_socket_memory(view.top)
    if memory is None or view.memory_slots.missing_reason:
        return None, view.memory_slots.missing_reason or "the number of memory channels of this CPU is not in our table"
    slots, modules = view.memory_slots.slots, view.memory_slots.filled_slots
    channels = count_filled_channels(view.top, view.memory_slots)
    if channels is None:
        total = memory.channels * len(view.top.sockets)
        return None, f"{len(modules)} modules in {len(slots)} slots, whose names do not say which of {total} channels"
    filled, total, empty = channels.filled, channels.total, channels.empty_slots
    slowest = channels.mts or memory.mts
    if filled == total:
        bandwidth = f"{channels_gbps(total, slowest):.1f}"
        return ALL, f"{len(modules)} modules on {total} channels: {bandwidth} GB/s at {slowest} MT/s"
    how = (
        f"no module on {'' if channels.are_named else 'at least '}{total - filled} of {total} channels, each of which "
        f"is {SHARE_WORDS[memory.channels]} of the bandwidth of its socket: {channels_gbps(filled, slowest):.1f} of "
        f"{channels_gbps(total, slowest):.1f} GB/s are left at {slowest} MT/s"
    )
    more = f" and {len(empty) - MAX_NAMED} more" if len(empty) > MAX_NAMED else ""
    return f"{filled} of {total}", how + (f"; empty slots: {', '.join(empty[:MAX_NAMED])}{more}" if empty else "")


def expected_if_most_bandwidth_is_lost(view: KernelView) -> str | None:
    """Return "all" where missing or slow modules cost so much bandwidth that nobody can have wanted that; else None."""
    channels = count_channels_of_real_modules(view.top, view.memory_slots)
    return ALL if channels and loses_most_bandwidth(view.top, channels) else None


def compare_memory_speed_with_rating(view: KernelView) -> Reading:
    """Return "rated" if all modules run at the highest speed of module and CPU, else the lowest speed in MT/s."""
    memory = find_socket_memory(view.top)
    if memory is None or view.memory_slots.missing_reason:
        return None, view.memory_slots.missing_reason or "the highest memory speed of this CPU is not in our table"
    modules = view.memory_slots.filled_slots
    if not all(slot.configured and slot.rated for slot in modules):
        return None, "the firmware does not give the speed of every module"
    slowest = min(modules, key=lambda slot: slot.configured / min(slot.rated, memory.mts))
    best = min(slowest.rated, memory.mts)
    how = f"modules for {slowest.rated} MT/s run at {slowest.configured} MT/s, and the CPU takes {memory.mts} MT/s"
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
