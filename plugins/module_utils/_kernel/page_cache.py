# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nodes on which the page cache holds the pages of a file, the memory of nodes, and dropping the cache of one node.

A cached page (mincore) is mapped by reading a byte, which does not move it, and then the kernel reports its node
(move_pages without a destination).

Kernels since 6.17 reclaim the page cache of one node on request (``reclaim`` in the folder of the node). On older ones
a process fills memory that is bound to the node: the kernel then reclaims the page cache of this node and of no other.
Both take pages that no program maps first, and stop before the kernel would have to take other pages.
Source: mincore(2), move_pages(2); mm/mincore.c, mm/migrate.c and mm/vmscan.c of the Linux kernel.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from .._errors import Refused, TuningError
from .._io.paths import NODES
from .._io.safe_open import open_file
from .._notation.sizes import UNITS
from . import memory_calls
from .cgroups import CGROUPS
from .hugepages import SMALL
from .zones import read_zones

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .._io.kernelfs import KernelFS

#: Interleaved pages go to the nodes in turn; steps by this fraction of a stride do not follow the same cycle.
GOLDEN = 0.6180339887498949
#: The page cache of a node that is never dropped, at least these bytes and this part of the node's memory: near its end
#: the kernel takes other pages too, and its counters are late.
KEPT_BYTES, KEPT_PART = 64 << 20, 64
#: A filling process ends where so many bytes of swap were taken meanwhile.
KEPT_SWAP = 64 << 20
#: The bytes that one write to a file ``reclaim`` asks for at most, so that a start can be stopped meanwhile.
RECLAIM_STEP = 1 << 30


@contextmanager
def open_with_size(path: str) -> Iterator[tuple[int, int]]:
    """Open a file for reading during the block, and yield its descriptor and its size in bytes."""
    try:
        fd = open_file(path)
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        yield fd, os.fstat(fd).st_size
    finally:
        os.close(fd)


def read_nodes_of_cached_pages(path: str, pages: Iterable[int]) -> dict[int, int]:
    """Return page -> node for those of a file's pages (numbers of 4 KiB pages) that are in the page cache.

    Raises TuningError where the file cannot be read, or where the kernel hides from this user which pages are cached.
    """
    with open_with_size(path) as (fd, size):
        if os.geteuid() not in (0, os.fstat(fd).st_uid) and not os.access(path, os.W_OK):
            raise TuningError(
                f"{path}: only root, and users who may write to the file, can see what of it is in the page cache. "
                "In a unit, begin the line with '+'."
            )
        if not size:
            return {}
        with memory_calls.map_file(fd, size) as address:
            cached = [page for page in pages if memory_calls.is_page_cached(address + page * SMALL)]
            nodes = memory_calls.read_nodes_of_pages(address + page * SMALL for page in cached)
        return {page: node for page, node in zip(cached, nodes) if node is not None}


def read_available_bytes(fs: KernelFS, node: int) -> int:
    """Return the available bytes of a node: free and reclaimable memory."""
    return _sum_of_meminfo_fields(fs, node, ("MemFree:", "Active(file):", "Inactive(file):", "SReclaimable:"))


def read_free_bytes(fs: KernelFS, node: int) -> int:
    """Return the free bytes of a node."""
    return _sum_of_meminfo_fields(fs, node, ("MemFree:",))


def read_droppable_bytes(fs: KernelFS, node: int) -> int:
    """Return the bytes of the page cache of a node that can be dropped.

    Pages that a program maps or that wait for the disk cannot, and some are always kept.
    """
    cached = _sum_of_meminfo_fields(fs, node, ("Active(file):", "Inactive(file):"))
    busy = _sum_of_meminfo_fields(fs, node, ("Mapped:", "Dirty:", "Writeback:"))
    return max(0, cached - busy - max(KEPT_BYTES, _sum_of_meminfo_fields(fs, node, ("MemTotal:",)) // KEPT_PART))


def read_reserve_bytes(fs: KernelFS, node: int) -> int:
    """Return the bytes that must stay free on a node: with fewer, the kernel takes new pages from another node."""
    return sum(zone.low_pages for zone in read_zones(fs, node)) * SMALL


def _sum_of_meminfo_fields(fs: KernelFS, node: int, names: Iterable[str]) -> int:
    words = (fs.read_if_present(f"{NODES}/node{node}/meminfo") or fs.read_if_present("/proc/meminfo") or "").split()
    return sum(int(words[words.index(name) + 1]) * UNITS["KiB"] for name in names if name in words)


def drop_page_cache_of_nodes(fs: KernelFS, wanted_free: Mapping[int, int]) -> None:
    """Drop page cache until each node has so many free bytes, or until little is left that can be dropped.

    Nothing happens on a node that has the free bytes already. Needs root.
    """
    short = {node: wanted for node, wanted in wanted_free.items() if _can_drop_more(fs, node, wanted)}
    slow = {node: wanted for node, wanted in short.items() if not _drop_by_reclaim_file(fs, node, wanted)}
    fillers = [_start_filling_process(fs, node, wanted) for node, wanted in slow.items()]
    for process in fillers:
        os.waitpid(process, 0)


def _can_drop_more(fs: KernelFS, node: int, wanted: int, filled: int = 0) -> bool:
    """Return whether a node lacks free bytes and still has page cache to drop, with ``filled`` bytes of our own."""
    return read_free_bytes(fs, node) + filled < wanted and read_droppable_bytes(fs, node) > 0


def _drop_by_reclaim_file(fs: KernelFS, node: int, wanted: int) -> bool:
    """Ask the kernel to reclaim page cache of a node, in steps; return False where this kernel cannot."""
    path = f"{NODES}/node{node}/reclaim"
    if fs.read_status(path) is None:
        return False
    for dummy in range(2 + wanted // RECLAIM_STEP):
        if not _can_drop_more(fs, node, wanted):
            break
        lacking = min(wanted - read_free_bytes(fs, node), read_droppable_bytes(fs, node), RECLAIM_STEP)
        try:
            # With swappiness 0 the kernel takes page cache only.
            fs.write(path, f"{lacking} swappiness=0")
        except Refused:
            break  # The kernel found less than that (EAGAIN), or another program reclaims there (EBUSY).
    return True


def _start_filling_process(fs: KernelFS, node: int, wanted: int) -> int:
    """Start a process that fills memory of a node until page cache was dropped there; return its number.

    A process of its own, because the kernel kills it and not the caller, should memory become short after all.
    """
    process = os.fork()
    if process:
        return process
    try:
        # The page cache that the kernel reclaims and the pages of this process are freed by two CPUs, on whose lists
        # some stay.
        wanted += 2 * sum(zone.pages_per_cpu_list for zone in read_zones(fs, node)) * SMALL
        with suppress(OSError, TuningError):
            _leave_unit_and_volunteer_for_oom()
            swap = _read_free_swap(fs)
            fill_limit = read_free_bytes(fs, node) + read_droppable_bytes(fs, node) - read_reserve_bytes(fs, node)
            memory_calls.fill_memory_of_node(
                node,
                min(wanted, fill_limit),
                lambda filled: _can_drop_more(fs, node, wanted, filled) and _read_free_swap(fs) + KEPT_SWAP >= swap,
            )
    finally:
        os._exit(0)


def _leave_unit_and_volunteer_for_oom() -> None:
    """Let the kernel kill this process first, and count its memory to no unit, whose limit it could exceed."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    # In a container, this group may take no process; then the memory counts to the unit. Mode "r+" makes no file where
    # there is none, as with control groups of version 1.
    with suppress(OSError), open(f"{CGROUPS}/cgroup.procs", "r+", encoding="ascii") as file:
        file.write(str(os.getpid()))


def _read_free_swap(fs: KernelFS) -> int:
    words = (fs.read_if_present("/proc/meminfo") or "").split()
    return int(words[words.index("SwapFree:") + 1]) * UNITS["KiB"] if "SwapFree:" in words else 0
