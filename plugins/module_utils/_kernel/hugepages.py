# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools of huge pages, and the memory of nodes, as the kernel shows them.

Source: Documentation/admin-guide/mm/hugetlbpage.rst and Documentation/ABI/testing/sysfs-devices-node.
"""

from __future__ import annotations

from .._errors import BadRequest
from .._io.paths import INSTANCE_HEAD, NODES, UNIT_FOLDER
from .._notation.cpulist import format_cpulist, parse_cpulist
from .._notation.sizes import UNITS
from .cgroups import CGROUPS, read_unreclaimable_bytes
from .partitions import SLICE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS

    Table = dict[tuple[int, int], int]

SIZES = "/sys/kernel/mm/hugepages"
#: A page of 1 GiB, in kB.
GIGANTIC = 1 << 20
#: The smallest page in bytes; /proc/buddyinfo counts blocks of 1, 2, 4 and more of them.
SMALL = 4096


def list_page_sizes(fs: KernelFS) -> list[int]:
    """Return the sizes of huge pages that this host offers, in kB, ascending."""
    return sorted(int(name[len("hugepages-") : -len("kB")]) for name in fs.list_names(SIZES))


def nodes_with_memory(fs: KernelFS) -> tuple[int, ...]:
    """Return the numbers of the nodes with memory."""
    return parse_cpulist(fs.read_if_present(f"{NODES}/has_memory") or "")


def nodes_for_pools(fs: KernelFS) -> tuple[int, ...]:
    """Return the nodes with memory and CPUs, where a pool belongs unless its node is named.

    Memory without CPUs, such as memory on a CXL device, is slow. On a kernel that shows no node with CPUs, all nodes
    with memory are returned.
    """
    with_cpus = parse_cpulist(fs.read_if_present(f"{NODES}/has_cpu") or "")
    nodes = nodes_with_memory(fs)
    return tuple(node for node in nodes if node in with_cpus) or nodes


def default_page_kb(fs: KernelFS) -> int:
    """Return the default size of huge pages in kB."""
    words = (fs.read_if_present("/proc/meminfo") or "").split()
    return int(words[words.index("Hugepagesize:") + 1]) if "Hugepagesize:" in words else 2048


def list_hugetlbfs_mounts(fs: KernelFS, with_other_kinds: bool = False) -> list[tuple[str, int]]:
    """Return mount point and page size in kB of every hugetlbfs; on request, other file systems too, with size 0."""
    mounts = []
    default_kb = default_page_kb(fs)
    units = {"K": 1, "M": 1 << 10, "G": 1 << 20}
    for line in (fs.read_if_present("/proc/self/mounts") or "").splitlines():
        dummy, point, kind, options = line.split()[:4]
        size = next((word[len("pagesize=") :] for word in options.split(",") if word.startswith("pagesize=")), "")
        kb = int(size[:-1]) * units[size[-1]] if size[-1:] in units and size[:-1].isdecimal() else default_kb
        if kind == "hugetlbfs" or with_other_kinds:
            mounts.append((point, kb if kind == "hugetlbfs" else 0))
    return mounts


def pool_file_path(node: int, page_kb: int, name: str) -> str:
    """Return the path of a file of a node's pool of huge pages."""
    return f"{NODES}/node{node}/hugepages/hugepages-{page_kb}kB/{name}"


def read_pool_size_and_use(fs: KernelFS, node: int, page_kb: int) -> tuple[int, int] | None:
    """Return the pages of a node's pool without surplus pages, and those in use; None where the pool does not exist.

    The kernel makes surplus pages beyond the pool and removes them when they are freed. nr_hugepages includes them when
    it is read, but not when it is written.
    """
    numbers = []
    for name in ("nr_hugepages", "surplus_hugepages", "free_hugepages"):
        text = fs.read_if_present(pool_file_path(node, page_kb, name))
        if text is None:
            return None
        numbers.append(int(text))
    total, surplus, free = numbers
    return total - surplus, total - free


def read_free_pages(fs: KernelFS, node: int, page_kb: int) -> int:
    """Return the free pages of a node's pool, 0 where the pool does not exist."""
    return int(fs.read_if_present(pool_file_path(node, page_kb, "free_hugepages")) or 0)


def read_free_and_reserved_pages(fs: KernelFS, page_kb: int) -> tuple[int, int]:
    """Return the free pages of a size on all nodes, and how many of them are reserved for mappings of programs."""
    numbers = [
        int(fs.read_if_present(f"{SIZES}/hugepages-{page_kb}kB/{name}_hugepages") or 0) for name in ("free", "resv")
    ]
    return numbers[0], numbers[1]


def read_node_memory(fs: KernelFS, node: int) -> tuple[int, int]:
    """Return total and free memory of a node in bytes."""
    words = fs.read(f"{NODES}/node{node}/meminfo").split()
    total, free = (int(words[words.index(key) + 1]) * UNITS["KiB"] for key in ("MemTotal:", "MemFree:"))
    return total, free


class HostMemory:
    """The memory of a host in bytes: all of it, what programs can still have, and what huge pages take."""

    def __init__(self, total: int, available: int, huge_pages: int) -> None:
        self.total = total
        self.available = available
        self.huge_pages = huge_pages


def read_host_memory(fs: KernelFS) -> HostMemory | None:
    """Return the memory of the host; None where the kernel does not show how much is available."""
    words = (fs.read_if_present("/proc/meminfo") or "").split()
    names = ("MemTotal:", "MemAvailable:", "Hugetlb:")
    total, available, huge = (
        int(words[words.index(name) + 1]) * UNITS["KiB"] if name in words else None for name in names
    )
    return None if total is None or available is None else HostMemory(total, available, huge or 0)


def read_bytes_held_by_system(fs: KernelFS) -> int:
    """Return the bytes that the kernel, its drivers and running services hold and cannot give back.

    Huge pages do not count, and neither does what our instances hold, which may be in huge pages later. 0 is returned
    where the kernel does not show it.
    """
    memory = read_host_memory(fs)
    if memory is None:
        return 0
    folders = [f"{CGROUPS}/{slice_name}" for slice_name in ("system.slice", SLICE)]
    of_instances = sum(
        read_unreclaimable_bytes(fs, f"{folder}/{unit}")
        for folder in folders
        for unit in fs.list_names(folder)
        if (fs.read_if_present(f"{UNIT_FOLDER}/{unit}") or "").startswith(INSTANCE_HEAD.strip())
    )
    return max(0, memory.total - memory.available - memory.huge_pages - of_instances)


def free_bytes_in_large_blocks(buddyinfo: str, node: int, page_kb: int) -> tuple[int, int]:
    """Return the free bytes of a node in blocks large enough for a page of this size, and the size of such a block.

    The largest blocks of the kernel have a few MiB. For larger pages these blocks are counted, though the kernel must
    find many adjacent ones.
    """
    free = block = 0
    for line in buddyinfo.splitlines():
        words = line.replace(",", " ").split()
        if words[:2] != ["Node", str(node)]:
            continue
        counts = [int(word) for word in words[4:]]
        order = min((page_kb * UNITS["KiB"] // SMALL).bit_length(), len(counts)) - 1
        block = SMALL << order
        free += sum(count * (SMALL << power) for power, count in enumerate(counts) if power >= order)
    return free, block


def parse_nodes(fs: KernelFS, text: object, option: str) -> tuple[int, ...]:
    """Return the nodes of an option such as "0,2-3" or "all"; BadRequest where a node has no memory."""
    existing = nodes_with_memory(fs)
    if not existing:
        raise BadRequest(f"{NODES}/has_memory names no node with memory: this kernel knows of no nodes.")
    if str(text) == "all":
        return existing
    try:
        nodes = parse_cpulist(str(text))
    except ValueError:
        nodes = ()
    if not nodes:
        raise BadRequest(f"{option}: '{text}' names no node; say a number, a list such as 0,2-3, or 'all'.")
    unknown = sorted(set(nodes) - set(existing))
    if unknown:
        raise BadRequest(
            f"{option}: there is no node {unknown[0]} with memory on this host, only {format_cpulist(existing)}. How "
            "many there are is set in the BIOS (nodes per socket, NPS)."
        )
    return nodes
