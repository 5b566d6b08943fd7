# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On which nodes the page cache holds a file, and how to drop the file from it when those are the wrong nodes.

A page of a file stays on the node where it was first read, whoever maps it later. So a memory policy has no effect on
a model that is already cached. We look at a sample of its pages.
Source: posix_fadvise(2).
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..._kernel.hugepages import SMALL
from ..._kernel.page_cache import GOLDEN, open_for_reading, read_nodes_of_cached_pages
from ..._notation.cpulist import format_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

POLICIES = ("bind", "interleave", "local")
#: A sample of this size gives shares within two percent, for a file of any size.
SAMPLE_PAGES = 4096
#: The share of the cached pages that may lie on other nodes.
TOLERATED_SHARE = 0.1


class CacheSample:
    """The sample of a file: how many pages were looked at, and how many of them are cached on each node."""

    def __init__(self, sampled_pages: int, pages_by_node: dict[int, int]) -> None:
        self.sampled_pages = sampled_pages
        self.pages_by_node = pages_by_node

    @property
    def cached_pages(self) -> int:
        """How many of the pages were in the cache."""
        return sum(self.pages_by_node.values())

    def compute_misplaced_share(self, policy: str, nodes: Sequence[int]) -> float:
        """Return the share of the cached pages that would have to move for the policy."""
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
    """Drop a file from the page cache when it is not where a policy wants it, and return a sentence on the result."""
    want = f"{policy} on nodes {format_cpulist(nodes)}"
    cached = sample_page_cache(path)
    if not cached.cached_pages:
        return f"{path} is not in the page cache, so it will be read under the policy ({want})."
    share = 100 * cached.cached_pages / cached.sampled_pages
    found = f"{path}: {share:.0f} % of it is in the page cache, of that {cached}"
    if cached.compute_misplaced_share(policy, nodes) <= TOLERATED_SHARE:
        return f"{found}, as the policy wants it ({want})."
    evict_file(path)
    left = sample_page_cache(path)
    misplaced = f"{found}, but the policy wants {want}"
    if not left.cached_pages:
        return f"{misplaced}: dropped, it will be read again."
    stays = 100 * left.cached_pages / left.sampled_pages
    users = ", ".join(list_mapping_processes(path)) or "processes that this user cannot see"
    return f"{misplaced}: dropped, except for {stays:.0f} % that stay because they are in use by {users}."


def sample_page_cache(path: str) -> CacheSample:
    """Return on which nodes a sample of a file's pages is cached."""
    with open_for_reading(path) as (dummy, size):
        pages = choose_sample_pages(-(-size // SMALL))
    nodes: dict[int, int] = {}
    for node in read_nodes_of_cached_pages(path, pages).values():
        nodes[node] = nodes.get(node, 0) + 1
    return CacheSample(len(pages), nodes)


def choose_sample_pages(count: int) -> list[int]:
    """Return the numbers of all pages, or of one page from each stride when there are many."""
    if count <= SAMPLE_PAGES:
        return list(range(count))
    return sorted({int((at + at * GOLDEN % 1) * count / SAMPLE_PAGES) for at in range(SAMPLE_PAGES)})


def evict_file(path: str) -> None:
    """Drop a file from the page cache; pages that a process maps stay."""
    with open_for_reading(path) as (fd, dummy):
        with suppress(OSError):  # A read-only file system may not support it.
            os.fsync(fd)  # Pages that are not on the disk yet would stay.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def list_mapping_processes(path: str) -> list[str]:
    """Return the processes that map a file."""
    wanted = os.path.realpath(path)
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/maps", encoding="utf-8", errors="surrogateescape") as file:
                if any(line.rstrip("\n").endswith(f" {wanted}") for line in file):
                    with open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as comm:
                        found.append(f"process {name} ({comm.read().strip()})")
        except OSError:
            continue  # It has ended, or belongs to somebody else.
    return found
