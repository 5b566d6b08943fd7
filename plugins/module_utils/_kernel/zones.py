# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory zones of a node: below which number of free pages the kernel turns to others, and the lists of CPUs.

Source: /proc/zoneinfo in proc(5); mm/vmstat.c and mm/page_alloc.c of the Linux kernel.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS


class Zone:
    """A zone of memory, in pages of 4 KiB.

    With fewer than ``low_pages`` free pages the kernel takes new pages from another zone or node. Each CPU keeps up to
    ``pages_per_cpu_list`` free pages on a list of its own, which do not count as free.
    """

    __slots__ = ("low_pages", "pages_per_cpu_list")

    def __init__(self) -> None:
        self.low_pages = 0
        self.pages_per_cpu_list = 0


def read_zones(fs: KernelFS, node: int) -> list[Zone]:
    """Return the zones of a node; an empty list where the kernel shows none."""
    zones: list[Zone] = []
    is_of_node = False
    for line in (fs.read_if_present("/proc/zoneinfo") or "").splitlines():
        words = line.split()
        if words[:1] == ["Node"]:
            is_of_node = words[1] == f"{node},"
            if is_of_node:
                zones.append(Zone())
        elif is_of_node and words[0] == "low":
            zones[-1].low_pages = int(words[1])
        # Since Linux 6.7 lists grow up to high_max. Those of earlier kernels keep the length that they call high.
        elif is_of_node and words[0] in ("high:", "high_max:"):
            zones[-1].pages_per_cpu_list = max(zones[-1].pages_per_cpu_list, int(words[1]))
    return zones
