# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a model so that each slice of rows lies on the node of the thread that will use the slice.

A page of a file stays on the node where it was first read, whoever maps it later. So one thread for each node reads the
slices of this node, with a memory policy for this node. Pages that are cached on wrong nodes are evicted first, and
pages that another process uses are moved.

The pages are those of the page cache: no second copy of the model is made, and a run that was killed leaves pages that
the next run need not read again. When the kernel reclaims pages, the thread that needs them reads them onto its own
node again.

Source: mbind(2), set_mempolicy(2); filemap_alloc_folio() in mm/filemap.c of the Linux kernel.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from ..._errors import TuningError
from ..._kernel import memory_calls, page_cache
from ..._kernel.hugepages import SMALL
from ..._models.weight_locality import (
    list_page_ranges_by_node,
    measure_locality,
    read_headers_of_all_files,
    slice_matrices_for_threads,
)
from ..._notation.sizes import format_bytes_short
from . import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..._io.kernelfs import KernelFS

CHUNK = 4 << 20
#: In how many steps the progress is reported.
PROGRESS_STEPS = 10


class ReadProgress:
    """Reports how much of a file all threads together have read."""

    def __init__(self, path: str, size: int, report: Callable[[str], None]) -> None:
        self._path = path
        self._size = size
        self._report = report
        self._lock = threading.Lock()
        self._read = self._reported_step = 0

    def count_and_report_bytes_read(self, count: int) -> None:
        """Count bytes as read, and report each new step."""
        with self._lock:
            self._read += count
            step = PROGRESS_STEPS * self._read // self._size
            if step > self._reported_step:
                self._reported_step = step
                self._report(
                    f"{self._path}: {100 * step // PROGRESS_STEPS} % of {format_bytes_short(self._size)} read."
                )


def read_rows_onto_nodes(fs: KernelFS, path: str, threads: int, nodes: int, report: Callable[[str], None]) -> str:
    """Read a model onto the nodes of its threads and return a sentence on the result.

    A model that is in place is not read. Where a node has too little memory for its rows, no page is moved: a server
    that reads across nodes is better than no server, and the check of the instance reports the misplacement.
    TuningError for a file that cannot be read.
    """
    parts = read_headers_of_all_files(path)
    before = measure_locality(parts, threads, nodes)
    if not before.by_tensor:
        return f"{path} has no tensor that is large enough to be cut for {threads} threads."
    if before.is_local_enough and before.all.is_in_memory_and_local:
        return f"{path} is where its threads read it already: {before}."
    plans = {
        part.path: list_page_ranges_by_node(slice_matrices_for_threads(part, threads, nodes), nodes) for part in parts
    }
    shortage = _node_memory_shortage_message(fs, list(plans.values()))
    if shortage:
        return f"{path} stays where it is: {shortage}"
    for file, runs in plans.items():
        if not before.all.is_local_enough:
            cache.evict_file_from_page_cache(file)
        _read_pages_onto_nodes(file, runs, report)
    return f"{path}: {measure_locality(parts, threads, nodes)}."


def _node_memory_shortage_message(fs: KernelFS, plans: Sequence[Sequence[Sequence[tuple[int, int]]]]) -> str:
    """Return which node has too little memory for its rows, and what helps; "" where each has enough."""
    for node in range(len(plans[0])):
        needed = SMALL * sum(end - first for runs in plans for first, end in runs[node])
        available = page_cache.read_available_bytes(fs, node)
        if needed > available:
            return (
                f"node {node} has {format_bytes_short(available)} available, and {format_bytes_short(needed)} of the "
                "rows belong there. Free memory of that node, or take memory interleave."
            )
    return ""


def _read_pages_onto_nodes(
    path: str, runs_by_node: Sequence[Sequence[tuple[int, int]]], report: Callable[[str], None]
) -> None:
    with page_cache.open_with_size(path) as (fd, size), ThreadPoolExecutor(len(runs_by_node)) as pool:
        # Without this advice the kernel reads ahead, and puts the following pages on the same node.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        total_bytes = sum(min(end * SMALL, size) - first * SMALL for runs in runs_by_node for first, end in runs)
        progress = ReadProgress(path, total_bytes, report)
        jobs = [
            pool.submit(_read_pages_onto_node, path, fd, size, node, runs, progress)
            for node, runs in enumerate(runs_by_node)
        ]
        for job in jobs:
            job.result()


def _read_pages_onto_node(
    path: str, fd: int, size: int, node: int, runs: Sequence[tuple[int, int]], progress: ReadProgress
) -> None:
    view = memoryview(bytearray(CHUNK))
    with memory_calls.memory_policy_in_block("bind", (node,)):
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
                progress.count_and_report_bytes_read(count)
            memory_calls.move_file_to_node(fd, first * SMALL, (end - first) * SMALL, node)
