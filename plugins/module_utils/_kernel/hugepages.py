# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools of huge pages, and the nodes that can have them, as the kernel shows them.

Source: Documentation/admin-guide/mm/hugetlbpage.rst and Documentation/ABI/testing/sysfs-devices-node.
"""

from __future__ import annotations

from .._errors import BadRequest
from .._io.paths import NODES
from .._notation.cpulist import format_cpulist, parse_cpulist
from .._notation.sizes import UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS

    Table = dict[tuple[int, int], int]

SIZES = "/sys/kernel/mm/hugepages"
#: A page of 1 GiB, in kB.
GIGANTIC = 1 << 20
#: The kernel's smallest page, of which /proc/buddyinfo counts blocks of 1, 2, 4 and so on.
SMALL = 4096


def list_page_sizes(fs: KernelFS) -> list[int]:
    """Return the page sizes of this kernel on this CPU, in kB."""
    return sorted(int(name[len("hugepages-") : -len("kB")]) for name in fs.list_names(SIZES))


def nodes_with_memory(fs: KernelFS) -> tuple[int, ...]:
    """Return the nodes that can have pools."""
    return parse_cpulist(fs.read_if_present(f"{NODES}/has_memory") or "")


def default_page_kb(fs: KernelFS) -> int:
    """Return the default size of huge pages, in kB."""
    words = (fs.read_if_present("/proc/meminfo") or "").split()
    return int(words[words.index("Hugepagesize:") + 1]) if "Hugepagesize:" in words else 2048


def list_hugetlbfs_mounts(fs: KernelFS, with_other_kinds: bool = False) -> list[tuple[str, int]]:
    """Return the mount points of every hugetlbfs with the size of its pages in kB; of other kinds, if asked for, 0."""
    found = []
    default_kb = default_page_kb(fs)
    units = {"K": 1, "M": 1 << 10, "G": 1 << 20}
    for line in (fs.read_if_present("/proc/self/mounts") or "").splitlines():
        dummy, point, kind, options = line.split()[:4]
        size = next((word[len("pagesize=") :] for word in options.split(",") if word.startswith("pagesize=")), "")
        kb = int(size[:-1]) * units[size[-1]] if size[-1:] in units and size[:-1].isdecimal() else default_kb
        if kind == "hugetlbfs" or with_other_kinds:
            found.append((point, kb if kind == "hugetlbfs" else 0))
    return found


def pool_file_path(node: int, page_kb: int, name: str) -> str:
    """Return the path of a file of a node's pool."""
    return f"{NODES}/node{node}/hugepages/hugepages-{page_kb}kB/{name}"


def read_pool(fs: KernelFS, node: int, page_kb: int) -> tuple[int, int] | None:
    """Return a pool's pages and how many pages of the node are in use, None where there is no such pool.

    Surplus pages, which the kernel made beyond the pool and takes back when they are freed, do not count: the number of
    all pages includes them, a number that is written does not.
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
    """Return the free pages of a node's pool, 0 where there is no such pool."""
    return int(fs.read_if_present(pool_file_path(node, page_kb, "free_hugepages")) or 0)


def read_free_and_reserved_pages(fs: KernelFS, page_kb: int) -> tuple[int, int]:
    """Return the free pages of a size on all nodes, and how many of them are promised to programs that mapped them."""
    numbers = [
        int(fs.read_if_present(f"{SIZES}/hugepages-{page_kb}kB/{name}_hugepages") or 0) for name in ("free", "resv")
    ]
    return numbers[0], numbers[1]


def read_node_memory(fs: KernelFS, node: int) -> tuple[int, int]:
    """Return the bytes of a node, all and free."""
    words = fs.read(f"{NODES}/node{node}/meminfo").split()
    total, free = (int(words[words.index(key) + 1]) * UNITS["KiB"] for key in ("MemTotal:", "MemFree:"))
    return total, free


def free_bytes_in_large_blocks(buddyinfo: str, node: int, page_kb: int) -> tuple[int, int]:
    """Return the free bytes of a node in blocks that hold a page of this size, and the size of such a block.

    Blocks end at a few MiB. For pages beyond that the largest ones are counted, of which the kernel must find many in a
    row.
    """
    found = block = 0
    for line in buddyinfo.splitlines():
        words = line.replace(",", " ").split()
        if words[:2] != ["Node", str(node)]:
            continue
        counts = [int(word) for word in words[4:]]
        order = min((page_kb * UNITS["KiB"] // SMALL).bit_length(), len(counts)) - 1
        block = SMALL << order
        found += sum(count * (SMALL << at) for at, count in enumerate(counts) if at >= order)
    return found, block


# Requests


def parse_nodes(fs: KernelFS, text: object, option: str) -> tuple[int, ...]:
    """Return the nodes that a text names, all of which have memory."""
    there = nodes_with_memory(fs)
    if not there:
        raise BadRequest(f"{NODES}/has_memory names no node with memory: this kernel knows of no nodes.")
    if str(text) == "all":
        return there
    try:
        nodes = parse_cpulist(str(text))
    except ValueError:
        nodes = ()
    if not nodes:
        raise BadRequest(f"{option}: '{text}' names no node; say a number, a list such as 0,2-3, or 'all'.")
    unknown = sorted(set(nodes) - set(there))
    if unknown:
        raise BadRequest(
            f"{option}: there is no node {unknown[0]} with memory on this host, only {format_cpulist(there)}. How many "
            "there are is set in the BIOS (nodes per socket, NPS)."
        )
    return nodes
