# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory channels of a socket and the links of its CCDs: what the data sheet allows, and what the modules allow.

A socket reads at most channels x MT/s x 8 bytes, and at most what the links of its CCDs carry.
Source: AMD's data sheets for channels and speeds. A link reads 32 bytes in each cycle of the fabric clock: 1.6 GHz on
Zen 3, 1.8 GHz on Zen 4, 2 GHz on Zen 5. On Zen 2, 36 to 37 GB/s were measured for one CCD. A 9355P with eight CCDs has
two links for each (Chips and Cheese). Two 9124, of 16 cores and four CCDs each, read 530 GB/s (llama.cpp discussion
11530), which is 16.6 for each core.
The firmware names slots, not channels. On many boards the name of a slot contains its channel. Elsewhere only the
number of modules can show that channels are empty. Source: DMTF DSP0134; names from dumps of servers of each vendor.
"""

from __future__ import annotations

import re

from .._generations import find_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .smbios import MemorySlots, Slot
    from .topology import Topology


class SocketMemory:
    """The memory of one socket by the data sheet: channels, their highest speed in MT/s, and GB/s of a CCD's link.

    ``link_gbps`` is None where it is not published. With at most ``wide_ccds`` CCDs, each CCD has two links.
    ``wide_core_gbps`` is what one core reads through them. ``is_paper`` is True for a generation of which nobody has
    published a measurement. ``small_socket`` has the first letters of SKUs for a smaller socket, and its channels.
    """

    __slots__ = ("channels", "is_paper", "link_gbps", "mts", "small_socket", "wide_ccds", "wide_core_gbps")

    def __init__(
        self,
        channels: int,
        mts: int,
        link_gbps: float | None,
        wide_ccds: int = 0,
        wide_core_gbps: float = float("inf"),
        is_paper: bool = False,
        small_socket: tuple[tuple[str, ...], int] = ((), 0),
    ) -> None:
        self.channels = channels
        self.mts = mts
        self.link_gbps = link_gbps
        self.wide_ccds = wide_ccds
        self.wide_core_gbps = wide_core_gbps
        self.is_paper = is_paper
        self.small_socket = small_socket

    @property
    def gbps(self) -> float:
        """The bandwidth in GB/s of a socket with a module of the highest speed on each channel."""
        return channels_gbps(self.channels, self.mts)


#: The EPYC 8004 has the family and model of the EPYC 9004 and half of its channels.
SP6 = (("8",), 6)
#: The SKUs of the EPYC 9006 for the socket SP8 by their first three characters. All others are for SP7.
SP8 = (
    (
        *("901", "911", "917", "925", "927", "933", "935", "937", "945", "947", "952", "953", "957", "964", "967"),
        *("973", "974"),
    ),
    8,
)
#: CPU family, first and last model, memory channels of a socket, MT/s, and GB/s of a CCD's link. The last row, Zen 6,
#: is from the press (StorageReview and Tom's Hardware, September 2026): 16 channels with MRDIMM at 12800 MT/s, or 8 on
#: SP8. Its link is not published.
SOCKETS = (
    (23, 0x00, 0x0F, SocketMemory(8, 2666, 42.6)),
    (23, 0x30, 0x3F, SocketMemory(8, 3200, 37.0)),
    (25, 0x00, 0x0F, SocketMemory(8, 3200, 51.2)),
    (25, 0x10, 0x1F, SocketMemory(12, 4800, 57.6, wide_ccds=4, wide_core_gbps=16.6)),
    (25, 0xA0, 0xAF, SocketMemory(12, 4800, 57.6, small_socket=SP6)),
    (26, 0x00, 0x1F, SocketMemory(12, 6000, 64.0, wide_ccds=8)),
    (26, 0x50, 0x57, SocketMemory(16, 12800, None, is_paper=True, small_socket=SP8)),
)
#: A host without a fault reads more than this share of what its memory modules and its CCDs allow.
LEAST_SHARE = 0.6
#: GB/s that are assumed for a socket of an unknown CPU.
ASSUMED_SOCKET_GBPS = 100.0
#: Patterns of the channel in the bank name of a slot (P0_Node0_Channel0_Dimm0, P0 CHANNEL A), and in the name of a slot
#: (DIMM_P0_A0, P1-DIMMA1, DIMMA1).
BY_BANK = re.compile(r"(.*CHANNEL[ _]?[0-9A-Z]+)", re.IGNORECASE)
BY_NAME = re.compile(r"(.*DIMM_?(?:P\d_)?[A-Z])\d", re.IGNORECASE)
#: Slot names of Dell: a letter for the socket, and a number that counts the channels of the socket once or twice.
BY_NUMBER = re.compile(r"([A-H])(\d+)")
#: The largest number of slots on one channel.
MAX_SLOTS_PER_CHANNEL = 2


class FilledChannels:
    """The channels of a host that have a module.

    ``filled`` and ``total`` are numbers of channels, ``empty_slots`` the names of slots on channels without a module,
    ``are_named`` whether slots are named by channel, ``mts`` the speed in MT/s of the slowest module; 0 is unknown.
    """

    def __init__(self, filled: int, total: int, empty_slots: list[str], are_named: bool, mts: int) -> None:
        self.filled = filled
        self.total = total
        self.empty_slots = empty_slots
        self.are_named = are_named
        self.mts = mts


def channels_gbps(channels: int, mts: int) -> float:
    """Return the bandwidth in GB/s of a number of channels, each of 8 bytes."""
    return channels * mts * 8 / 1000


def find_socket_memory(top: Topology) -> SocketMemory | None:
    """Return the memory of one socket by the data sheet; None for an unknown CPU."""
    row = find_row(SOCKETS, top.family, top.model_number) if top.is_amd else None
    if row is None:
        return None
    memory = row[3]
    skus, few = memory.small_socket
    return (
        SocketMemory(few, memory.mts, memory.link_gbps, is_paper=memory.is_paper)
        if top.sku.startswith(skus)
        else memory
    )


def data_sheet_gbps_of_socket(top: Topology) -> float | None:
    """Return the bandwidth in GB/s of one socket with all channels filled; None for an unknown CPU."""
    memory = find_socket_memory(top)
    return memory.gbps if memory else None


def ccd_gbps(top: Topology) -> float | None:
    """Return the GB/s that one CCD of this host reads at most; None where that is not known."""
    memory = find_socket_memory(top)
    if memory is None or memory.link_gbps is None:
        return None
    per_socket = -(-len(top.ccds) // max(1, len(top.sockets)))
    # A virtual machine shows only a part of the CCDs.
    if "hypervisor" in top.flags or not 0 < per_socket <= memory.wide_ccds:
        return memory.link_gbps
    cores = -(-len(top.cores) // len(top.ccds))
    return max(memory.link_gbps, min(2 * memory.link_gbps, memory.wide_core_gbps * cores))


def numbers_of_ccds(top: Topology, cpus: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the CCDs on which some CPUs are."""
    members = set(cpus)
    return tuple(
        number for number, ccd in enumerate(top.ccds) if any(members.intersection(domain.cpus) for domain in ccd)
    )


def count_filled_channels(top: Topology, memory_slots: MemorySlots) -> FilledChannels | None:
    """Return the channels that have a module; None where that cannot be known."""
    memory = find_socket_memory(top)
    if memory is None or memory_slots.missing_reason:
        return None
    slots, modules = memory_slots.slots, memory_slots.filled_slots
    total = memory.channels * len(top.sockets)
    mts = min((slot.configured or slot.rated for slot in modules), default=0)
    names = _find_slot_channels(slots, memory.channels, len(top.sockets))
    if names:
        used = {name for name, slot in zip(names, slots) if slot.has_module}
        empty = [slot.name or slot.bank for name, slot in zip(names, slots) if name not in used]
        return FilledChannels(len(used), total, empty, True, mts)
    if total <= len(modules) < len(slots):
        return None
    empty = [slot.name or slot.bank for slot in slots if not slot.has_module]
    return FilledChannels(min(len(modules), total), total, empty, False, mts)


def count_channels_of_real_modules(top: Topology, memory_slots: MemorySlots) -> FilledChannels | None:
    """Return the channels that have a module; None for modules of a virtual machine, or whose speed is unknown.

    The firmware of a virtual machine describes modules that say nothing about the memory of its host.
    """
    channels = None if "hypervisor" in top.flags else count_filled_channels(top, memory_slots)
    return channels if channels and channels.mts else None


def loses_most_bandwidth(top: Topology, channels: FilledChannels | None) -> bool:
    """Return whether modules allow less than LEAST_SHARE of what the CPU allows: too few, or too slow ones."""
    full = (data_sheet_gbps_of_socket(top) or 0.0) * max(1, len(top.sockets))
    return channels is not None and channels_gbps(channels.filled, channels.mts) < LEAST_SHARE * full


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
