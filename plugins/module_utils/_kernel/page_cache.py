# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nodes on which the page cache holds the pages of a file, and the available memory of nodes.

A cached page (mincore) is mapped by reading a byte, which does not move it, and then the kernel reports its node
(move_pages without a destination).
Source: mincore(2), move_pages(2); mm/mincore.c and mm/migrate.c of the Linux kernel.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from .._errors import TuningError
from .._io.paths import NODES
from .._io.safe_open import open_file
from .._notation.sizes import UNITS
from . import memory_calls
from .hugepages import SMALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .._io.kernelfs import KernelFS

#: Interleaved pages go to the nodes in turn; steps by this fraction of a stride do not follow the same cycle.
GOLDEN = 0.6180339887498949


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
    words = (fs.read_if_present(f"{NODES}/node{node}/meminfo") or fs.read_if_present("/proc/meminfo") or "").split()
    names = ("MemFree:", "Active(file):", "Inactive(file):", "SReclaimable:")
    return sum(int(words[words.index(name) + 1]) * UNITS["KiB"] for name in names if name in words)
