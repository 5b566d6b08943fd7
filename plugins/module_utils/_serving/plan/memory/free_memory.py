# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The free memory of a host by NUMA node, and the check that this memory is enough for an instance."""

from __future__ import annotations

from ...._errors import BadRequest
from ...._kernel import partitions
from ...._kernel.hugepages import default_page_kb, list_hugetlbfs_mounts, read_free_pages
from ...._kernel.page_cache import read_available_bytes
from ...._notation.cpulist import format_cpulist
from ...._notation.gguf_parts import unfinished_copy_path
from ...._notation.sizes import UNITS, format_bytes, format_bytes_short, format_pages
from ..instance_plan import staged_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...._host.host import Host
    from ...._io.kernelfs import KernelFS
    from ...._models.model import Model
    from ...options.option_table import OptionTable
    from ..instance_plan import MemoryNeed, Placement

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
#: The largest size in kB of the huge pages of a pool. With larger pages, small buffers would waste most of a page.
LARGEST_POOL = 2048


class NotEnoughMemory(BadRequest):
    """The nodes of an instance have too little memory for it; other nodes may have enough."""


class FreeMemory:
    """The free memory of a host, and other facts of the host's state that a plan needs.

    ``available`` has the free bytes by node, without huge pages, and ``free`` the free huge pages by node and page
    size in kB. ``default_kb`` is the size of the huge pages that a program gets by default. ``hugetlbfs_kb`` is the
    page size of the chosen hugetlbfs, None without one. ``thp`` is the mode of transparent huge pages. ``staged`` has
    the files that are on the hugetlbfs already, or are being copied there, and ``partition`` the CPUs of the cpuset
    partition for instances. ``computing_cpus`` are the CPUs on which other instances compute, and ``present_nodes`` the
    nodes of the running version of the instance that is planned.
    """

    __slots__ = (
        *("available", "computing_cpus", "default_kb", "free", "hugetlbfs_kb", "isolated", "partition"),
        *("present_nodes", "staged", "thp"),
    )

    def __init__(
        self,
        available: Mapping[int, int],
        free: Mapping[tuple[int, int], int] | None = None,
        default_kb: int = 2048,
        hugetlbfs_kb: int | None = None,
        isolated: Iterable[int] = (),
        thp: str = "madvise",
        staged: Iterable[str] = (),
        partition: Iterable[int] = (),
    ) -> None:
        self.available = dict(available)
        self.free = dict(free or {})
        self.default_kb = default_kb
        self.hugetlbfs_kb = hugetlbfs_kb
        self.isolated = frozenset(isolated)
        self.thp = thp
        self.staged = frozenset(staged)
        self.partition = frozenset(partition)
        self.computing_cpus: frozenset[int] = frozenset()
        self.present_nodes: tuple[int, ...] = ()

    def copy(self) -> FreeMemory:
        """Return a copy, from which memory can be reserved without a change of this one."""
        twin = FreeMemory(
            *(self.available, self.free, self.default_kb, self.hugetlbfs_kb, self.isolated, self.thp, self.staged),
            self.partition,
        )
        twin.computing_cpus, twin.present_nodes = self.computing_cpus, self.present_nodes
        return twin

    def reserve(self, size: int, nodes: Sequence[int], pages: int = 0, kb: int = 0) -> None:
        """Subtract bytes from the free memory, evenly on these nodes, and a number of huge pages from each node."""
        huge_pages = {(node, kb): -pages for node in nodes} if pages else {}
        self.add_free_memory(dict.fromkeys(nodes, -size // len(nodes)), huge_pages)

    def count_free_bytes(self, nodes: Sequence[int], even: bool) -> int:
        """Return the free bytes of these nodes; with ``even``, a node counts as much as the node with least free."""
        return _sum_over_nodes([self.available.get(node, 0) for node in nodes], even)

    def count_free_huge_pages(self, nodes: Sequence[int], kb: int, even: bool) -> int:
        """Return the number of free huge pages of a size on these nodes; ``even`` as for ``count_free_bytes``."""
        return _sum_over_nodes([self.free.get((node, kb), 0) for node in nodes], even)

    def add_free_memory(self, memory: Mapping[int, int], pages: Mapping[tuple[int, int], int]) -> None:
        for node, size in memory.items():
            self.available[node] = self.available.get(node, 0) + size
        for key, count in pages.items():
            self.free[key] = self.free.get(key, 0) + count


def _sum_over_nodes(amounts: Sequence[int], even: bool) -> int:
    return min(amounts) * len(amounts) if even else sum(amounts)


def read_free_and_staged_memory(host: Host, options: OptionTable, models: Sequence[Model]) -> FreeMemory:
    """Return the free memory of this host, with the files of these models that are staged for an instance already."""
    fs = host.fs
    default_kb = default_page_kb(fs)
    available = {}
    free = {}
    for node in host.topology.nodes:
        available[node.id] = read_available_bytes(fs, node.id)
        for kb in node.hugepages:
            free[node.id, kb] = read_free_pages(fs, node.id, kb)
    partition = partitions.read_active_partition(fs)[1]
    isolated = partitions.read_isolated_cpus(fs)
    modes = (fs.read_if_present(THP) or "[never]").split("[")[1].split("]")[0]
    staged = [path for model in models for path in staged_paths(options, model) if _has_pages_of_copy(fs, path)]
    mount_kb = _find_hugetlbfs_page_kb(fs, options.hugetlbfs)
    return FreeMemory(available, free, default_kb, mount_kb, isolated, modes, staged, partition)


def _has_pages_of_copy(fs: KernelFS, path: str) -> bool:
    """Return whether a copy of a file has its pages, which are all allocated before the file is copied."""
    return any(fs.read_status(name) is not None for name in (path, unfinished_copy_path(path)))


def _find_hugetlbfs_page_kb(fs: KernelFS, path: str) -> int | None:
    nearest: tuple[str, int] = ("", 0)
    for point, kb in list_hugetlbfs_mounts(fs, with_other_kinds=True):
        inside = path == point or path.startswith(f"{point.rstrip('/')}/")
        if inside and len(point) >= len(nearest[0]):
            nearest = (point, kb)
    return nearest[1] or None


def count_pages_for_bytes(size: int, kb: int) -> int:
    return -(-size // (kb * UNITS["KiB"]))


def require_enough_memory(
    options: OptionTable, required: MemoryNeed, placement: Placement, free: FreeMemory, staged: Sequence[Model]
) -> None:
    """Raise BadRequest when the memory or the huge pages of the nodes are too little for an instance.

    ``staged`` are the models whose files are copied to a hugetlbfs.
    """
    if options.hugepages == "pool":
        if free.default_kb > LARGEST_POOL:
            raise BadRequest(
                f"hugepages pool: this host gives programs pages of {format_bytes(free.default_kb * UNITS['KiB'])}, "
                "and the server takes at least one for each of its buffers. Boot with default_hugepagesz=2M, or use "
                "thp."
            )
        # With an empty pool, glibc silently takes ordinary pages. Where a process is bound to nodes without free huge
        # pages, and other nodes have some, the kernel kills the process.
        subject = f"the parts of the instance ({required.format_parts_with_sizes()})"
        _require_huge_pages(
            count_pages_for_bytes(required.total, free.default_kb), free.default_kb, placement, free, subject
        )
        return
    if options.hugepages == "hugetlbfs":
        kb = free.hugetlbfs_kb
        if kb is None:
            raise BadRequest(
                f"hugepages hugetlbfs: {options.hugetlbfs} is not on a hugetlbfs. Mount one there, or set hugetlbfs to "
                "one, such as /dev/hugepages."
            )
        files = [(part, path) for model in staged for part, path in zip(model.parts, staged_paths(options, model))]
        pages = sum(count_pages_for_bytes(part.size, kb) for part, path in files if path not in free.staged)
        _require_huge_pages(pages, kb, placement, free, "the staged files")
    require_ordinary_memory(required, placement, free, "The instance", _count_staged_bytes(staged))


def _count_staged_bytes(staged: Sequence[Model]) -> int:
    return sum(part.data_bytes for model in staged for part in model.parts)


def count_spare_bytes(
    options: OptionTable, required: MemoryNeed, placement: Placement, free: FreeMemory, staged: Sequence[Model]
) -> int:
    """Return the bytes that the nodes have beyond the need of an instance; negative where they have too little.

    With a pool of huge pages, they are bytes of the pool.
    """
    nodes, even = placement.nodes, placement.policy == "interleave"
    if options.hugepages == "pool":
        pages = free.count_free_huge_pages(nodes, free.default_kb, even)
        return pages * free.default_kb * UNITS["KiB"] - required.total
    return free.count_free_bytes(nodes, even) - (required.total - _count_staged_bytes(staged))


def require_ordinary_memory(
    required: MemoryNeed, placement: Placement, free: FreeMemory, subject: str, staged_bytes: int = 0
) -> None:
    """Raise NotEnoughMemory when the nodes have too little ordinary memory.

    ``staged_bytes`` of the weights need no ordinary memory, because they are in huge pages.
    """
    nodes, even = placement.nodes, placement.needs_even_memory
    rest = required.total - staged_bytes
    available = free.count_free_bytes(nodes, even)
    if rest > available:
        raise NotEnoughMemory(
            f"{subject} needs {format_bytes_short(rest)} ({required.format_parts_with_sizes(staged_bytes)}); nodes "
            f"{format_cpulist(nodes)} have {format_bytes_short(available)} {'evenly ' if even else ''}available. Take "
            f"{_ways_to_need_less_memory(required)}, or more nodes."
        )


def _ways_to_need_less_memory(required: MemoryNeed) -> str:
    ways = ["a smaller context or model", "a quantized KV cache"]
    ways += ["a smaller prompt_cache"] if required.prompt_cache else []
    return ", ".join([*ways, *(["fewer checkpoints"] if required.checkpoints else [])])


def _require_huge_pages(pages: int, kb: int, placement: Placement, free: FreeMemory, subject: str) -> None:
    nodes, even = placement.nodes, placement.needs_even_memory
    free_count = free.count_free_huge_pages(nodes, kb, even)
    if pages > free_count:
        raise NotEnoughMemory(
            f"hugepages: {subject} need {format_pages(pages, kb)} on nodes {format_cpulist(nodes)}, and "
            f"{free_count} are free there{' evenly' if even else ''}. Make the pool larger with the module hugepages, "
            f"{-(-pages // len(nodes))} pages for each node, or take hugepages thp."
        )
