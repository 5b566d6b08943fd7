# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the nodes on which the page cache holds a file, evicts it from wrong nodes, and makes room for new pages.

A page of a file stays on the node where it was first read, whoever maps it later, so a memory policy has no effect on a
model that is already cached. Only a sample of the pages is examined. Source: posix_fadvise(2).

A node whose memory is full of page cache gives no page to a program whose policy allows other nodes too: the page comes
from another node, although the cache could be dropped. Two measurements of that lost 25 and 71 percent of the rate.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..._kernel.hugepages import SMALL
from ..._kernel.page_cache import (
    GOLDEN,
    drop_page_cache_of_nodes,
    open_with_size,
    read_free_bytes,
    read_nodes_of_cached_pages,
    read_reserve_bytes,
)
from ..._notation.cpulist import format_cpulist
from ..._notation.sizes import format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..._io.kernelfs import KernelFS

POLICIES = ("bind", "interleave", "local")
#: A sample of so many pages gives shares within two percent, for a file of any size.
SAMPLE_PAGES = 4096
#: The share of the cached pages that may lie on other nodes than the policy wants.
TOLERATED_SHARE = 0.1


class CacheSample:
    """A sample of the pages of a file: how many were examined, and how many of them are cached on each node."""

    def __init__(self, sampled_pages: int, pages_by_node: dict[int, int]) -> None:
        self.sampled_pages = sampled_pages
        self.pages_by_node = pages_by_node

    @property
    def cached_pages(self) -> int:
        """The number of examined pages that are in the page cache."""
        return sum(self.pages_by_node.values())

    def estimate_bytes_by_node(self, size: int) -> dict[int, int]:
        """Return about how many bytes of a file of ``size`` bytes are cached on each node."""
        return {node: size * count // max(1, self.sampled_pages) for node, count in self.pages_by_node.items()}

    def compute_misplaced_share(self, policy: str, nodes: Sequence[int]) -> float:
        """Return the share of the cached pages that lie on other nodes than the policy wants."""
        if not self.cached_pages:
            return 0.0
        cached = {node: self.pages_by_node.get(node, 0) for node in nodes}
        if policy != "interleave":
            return 1 - sum(cached.values()) / self.cached_pages
        return sum(max(0.0, self.cached_pages / len(nodes) - count) for count in cached.values()) / self.cached_pages

    def __str__(self) -> str:
        shares = [
            f"node {node} {100 * count / self.cached_pages:.0f} %" for node, count in sorted(self.pages_by_node.items())
        ]
        return ", ".join(shares) or "no node"


def evict_misplaced_file(path: str, policy: str, nodes: Sequence[int]) -> str:
    """Evict a file whose cached pages lie on wrong nodes for a policy; return a sentence on the result."""
    wanted_policy = f"{policy} on nodes {format_cpulist(nodes)}"
    cached = sample_page_cache(path)
    if not cached.cached_pages:
        return f"{path} is not in the page cache, so it will be read under the policy ({wanted_policy})."
    share = 100 * cached.cached_pages / cached.sampled_pages
    cached_where = f"{path}: {share:.0f} % of it is in the page cache, of that {cached}"
    if cached.compute_misplaced_share(policy, nodes) <= TOLERATED_SHARE:
        return f"{cached_where}, as the policy wants it ({wanted_policy})."
    evict_file_from_page_cache(path)
    cached_after = sample_page_cache(path)
    misplaced = f"{cached_where}, but the policy wants {wanted_policy}"
    if not cached_after.cached_pages:
        return f"{misplaced}: dropped, it will be read again."
    left_percent = 100 * cached_after.cached_pages / cached_after.sampled_pages
    users = ", ".join(describe_processes_mapping_file(path)) or "processes that this user cannot see"
    return f"{misplaced}: dropped, except for {left_percent:.0f} % that stay because they are in use by {users}."


def make_room_on_nodes(fs: KernelFS, size: int, nodes: Sequence[int], files: Iterable[str]) -> list[str]:
    """Drop page cache until these nodes have free pages for ``size`` bytes in equal parts; return sentences on it.

    Pages of ``files`` that a node has in its page cache already need no free page there. Programs that run are not
    touched: a node stays without room where they hold its memory.
    """
    needed = dict.fromkeys(nodes, size // len(nodes))
    for path in files:
        for node, cached in sample_page_cache(path).estimate_bytes_by_node(os.stat(path).st_size).items():
            if node in needed:
                needed[node] = max(0, needed[node] - cached)
    wanted = {node: part + read_reserve_bytes(fs, node) for node, part in needed.items()}
    before = {node: read_free_bytes(fs, node) for node in nodes}
    drop_page_cache_of_nodes(fs, wanted)
    return [_describe_room(fs, node, needed[node], wanted[node], before[node]) for node in nodes]


def _describe_room(fs: KernelFS, node: int, needed: int, wanted: int, before: int) -> str:
    after = read_free_bytes(fs, node)
    room = f"Node {node} has {format_bytes_short(after)} free, and {format_bytes_short(needed)} are needed there"
    dropped = f": {format_bytes_short(after - before)} of page cache were dropped" if before < wanted else ""
    if after >= wanted:
        return f"{room}{dropped}."
    return f"{room}{dropped}. The rest is in use, so pages will come from other nodes, which is slower."


def sample_page_cache(path: str) -> CacheSample:
    """Return on which nodes a sample of a file's pages is cached."""
    with open_with_size(path) as (dummy, size):
        pages = choose_sample_pages(-(-size // SMALL))
    nodes: dict[int, int] = {}
    for node in read_nodes_of_cached_pages(path, pages).values():
        nodes[node] = nodes.get(node, 0) + 1
    return CacheSample(len(pages), nodes)


def choose_sample_pages(page_count: int) -> list[int]:
    """Return the numbers of all pages of a small file; of a large one, a page from each of many equal parts."""
    if page_count <= SAMPLE_PAGES:
        return list(range(page_count))
    return sorted({int((part + part * GOLDEN % 1) * page_count / SAMPLE_PAGES) for part in range(SAMPLE_PAGES)})


def evict_file_from_page_cache(path: str) -> None:
    """Evict a file from the page cache; pages that a process maps stay."""
    with open_with_size(path) as (fd, dummy):
        with suppress(OSError):  # A read-only file system may not support fsync.
            os.fsync(fd)  # Pages that are not yet written to the disk would stay.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def describe_processes_mapping_file(path: str) -> list[str]:
    """Return the processes that map a file, as in "process 12 (llama-server)"."""
    real_path = os.path.realpath(path)
    processes = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/maps", encoding="utf-8", errors="surrogateescape") as file:
                if any(line.rstrip("\n").endswith(f" {real_path}") for line in file):
                    with open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as comm:
                        processes.append(f"process {name} ({comm.read().strip()})")
        except OSError:
            continue  # The process has ended, or belongs to another user.
    return processes
