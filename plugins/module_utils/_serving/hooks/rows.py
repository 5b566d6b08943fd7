# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a model so that each slice of rows lies on the node of the thread that will read it.

A page of a file stays on the node where it was first read, whoever maps it later. So there is one thread for each node,
and the memory policy of that thread is its node while it reads the slices of that node. What is cached on wrong nodes
is dropped first, and what cannot be dropped, because another process uses it, is moved.

The pages are those of the page cache: there is no second copy of the model and nothing is left behind, and a run that
was killed has read a part, from which the next one goes on. When the kernel takes pages back, the thread that misses
them reads them onto its own node again.
Source: mbind(2), set_mempolicy(2); filemap_alloc_folio() in mm/filemap.c of the Linux kernel.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from ..._errors import TuningError
from ..._kernel import memory_calls, page_cache
from ..._kernel.hugepages import SMALL
from ..._models.weight_locality import list_matrices, list_pages_by_node, measure_locality, read_file_headers
from ..._notation.sizes import format_bytes_short
from . import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..._io.kernelfs import KernelFS

CHUNK = 4 << 20
#: How many times the progress is told.
PROGRESS_STEPS = 10


class ReadProgress:
    """Tells how much of a file was read by all threads."""

    def __init__(self, path: str, size: int, tell: Callable[[str], None]) -> None:
        self._path = path
        self._size = size
        self._tell = tell
        self._lock = threading.Lock()
        self._read = self._told = 0

    def add_bytes_read(self, count: int) -> None:
        """Count bytes as read."""
        with self._lock:
            self._read += count
            step = PROGRESS_STEPS * self._read // self._size
            if step > self._told:
                self._told = step
                self._tell(f"{self._path}: {100 * step // PROGRESS_STEPS} % of {format_bytes_short(self._size)} read.")


def read_rows_onto_nodes(fs: KernelFS, path: str, threads: int, nodes: int, tell: Callable[[str], None]) -> str:
    """Bring a model to the nodes of its threads and return a sentence on it; does nothing when it is there already.

    Where a node has too little memory for its rows, all of it stays where it is: a server that reads across nodes is
    better than none, and its check says so. Raises TuningError when a file cannot be read.
    """
    parts = read_file_headers(path)
    before = measure_locality(parts, threads, nodes)
    if not before.by_tensor:
        return f"{path} has no tensor that is large enough to be cut for {threads} threads."
    if before.is_local_enough and before.all.is_complete:
        return f"{path} is where its threads read it already: {before}."
    plans = {part.path: list_pages_by_node(list_matrices(part, threads, nodes), nodes) for part in parts}
    lacking = _shortage_message(fs, list(plans.values()))
    if lacking:
        return f"{path} stays where it is: {lacking}"
    for file, runs in plans.items():
        if not before.all.is_local_enough:
            cache.evict_file(file)
        _read_pages_onto_nodes(file, runs, tell)
    return f"{path}: {measure_locality(parts, threads, nodes)}."


def _shortage_message(fs: KernelFS, plans: Sequence[Sequence[Sequence[tuple[int, int]]]]) -> str:
    """Return which node has too little memory for its rows, and what helps; empty where each has enough."""
    for node in range(len(plans[0])):
        need = SMALL * sum(end - first for runs in plans for first, end in runs[node])
        there = page_cache.read_available_bytes(fs, node)
        if need > there:
            return (
                f"node {node} has {format_bytes_short(there)} available, and {format_bytes_short(need)} of the rows "
                "belong there. Free memory of that node, or take memory interleave."
            )
    return ""


def _read_pages_onto_nodes(path: str, runs: Sequence[Sequence[tuple[int, int]]], tell: Callable[[str], None]) -> None:
    """Read the pages of each node by a thread of its own."""
    with page_cache.open_for_reading(path) as (fd, size), ThreadPoolExecutor(len(runs)) as pool:
        # Without it the kernel reads ahead, and puts what comes next on the same node.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        whole = sum(min(end * SMALL, size) - first * SMALL for one in runs for first, end in one)
        progress = ReadProgress(path, whole, tell)
        jobs = [
            pool.submit(_read_pages_onto_node, path, fd, size, node, one, progress) for node, one in enumerate(runs)
        ]
        for job in jobs:
            job.result()


def _read_pages_onto_node(
    path: str, fd: int, size: int, node: int, runs: Sequence[tuple[int, int]], progress: ReadProgress
) -> None:
    view = memoryview(bytearray(CHUNK))
    with memory_calls.memory_policy("bind", (node,)):
        for first, end in runs:
            at, stop = first * SMALL, min(end * SMALL, size)
            while at < stop:
                try:
                    count = os.preadv(fd, [view[: min(CHUNK, stop - at)]], at)
                except OSError as error:
                    raise TuningError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from None
                if not count:
                    raise TuningError(f"{path} became shorter while it was read. Start it when it is complete.")
                at += count
                progress.add_bytes_read(count)
            memory_calls.move_file_to_node(fd, first * SMALL, (end - first) * SMALL, node)
