# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Huge pages as people ask for them, and as the kernel tells of them.

Asked for are pages, an amount of memory or the size of a file; the kernel wants a number of pages per node and size.
Source: Documentation/admin-guide/mm/hugetlbpage.rst and Documentation/ABI/testing/sysfs-devices-node.
"""

from __future__ import annotations

from . import _cpulist
from ._cbm import UNITS, size_text
from ._errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._kernelfs import KernelFS

    Table = dict[tuple[int, int], int]

NODES = "/sys/devices/system/node"
SIZES = "/sys/kernel/mm/hugepages"
#: The sizes of x86-64, in kB, as people write them.
GIGANTIC = 1 << 20
PAGE_SIZES = {"2MiB": 2048, "1GiB": GIGANTIC}
#: The kernel's smallest page, of which /proc/buddyinfo counts blocks of 1, 2, 4 and so on.
SMALL = 4096


# What people write


def bytes_of(text: object, what: str) -> int:
    """Return the bytes of an amount such as 40GiB."""
    words = str(text).strip()
    unit = words[-3:]
    number = words[:-3].strip()
    if unit not in UNITS or not number.replace(".", "", 1).isdecimal():
        raise BadRequest(f"{what}: '{text}' is no amount of memory; say it as 40GiB or 512MiB.")
    return int(float(number) * UNITS[unit])


def whole(value: object, what: str) -> int:
    """Return a number that counts something."""
    text = str(value).strip()
    if not text.isdecimal():
        raise BadRequest(f"{what}: '{value}' is no whole number from 0 up.")
    return int(text)


def about(count: int) -> str:
    """Return bytes as a person would say them: exact where that is short, else with one decimal."""
    exact = size_text(count)
    if len(exact.split()[0]) <= 4:
        return exact
    unit = "GiB" if count >= UNITS["GiB"] else "MiB"
    return f"{count / UNITS[unit]:.1f} {unit}"


def pages_text(count: int, kb: int) -> str:
    """Return a number of pages with their size in words."""
    return f"{count} page{'' if count == 1 else 's'} of {size_text(kb * UNITS['KiB'])}"


# What the kernel tells


def offered(fs: KernelFS) -> list[int]:
    """Return the page sizes of this kernel on this CPU, in kB."""
    return sorted(int(name[len("hugepages-") : -len("kB")]) for name in fs.names(SIZES))


def nodes_with_memory(fs: KernelFS) -> tuple[int, ...]:
    """Return the nodes that can have pools."""
    return _cpulist.parse(fs.find(f"{NODES}/has_memory") or "")


def pool_file(node: int, kb: int, name: str) -> str:
    """Return the path of a file of a node's pool."""
    return f"{NODES}/node{node}/hugepages/hugepages-{kb}kB/{name}"


def pool(fs: KernelFS, node: int, kb: int) -> tuple[int, int] | None:
    """Return a pool's pages and how many pages of the node are in use, None where there is no such pool.

    Surplus pages, which the kernel made beyond the pool and takes back when they are freed, are no part of it: a number
    that is written and the number of all pages differ by them.
    """
    numbers = []
    for name in ("nr_hugepages", "surplus_hugepages", "free_hugepages"):
        text = fs.find(pool_file(node, kb, name))
        if text is None:
            return None
        numbers.append(int(text))
    total, surplus, free = numbers
    return total - surplus, total - free


def free_pages(fs: KernelFS, node: int, kb: int) -> int:
    """Return the pages of a node's pool that nobody uses, 0 where there is no such pool."""
    return int(fs.find(pool_file(node, kb, "free_hugepages")) or 0)


def promised(fs: KernelFS, kb: int) -> tuple[int, int]:
    """Return the free pages of a size on all nodes, and how many of them are promised to somebody who mapped them."""
    numbers = [int(fs.find(f"{SIZES}/hugepages-{kb}kB/{name}_hugepages") or 0) for name in ("free", "resv")]
    return numbers[0], numbers[1]


def memory(fs: KernelFS, node: int) -> tuple[int, int]:
    """Return the bytes of a node, all and free."""
    words = fs.read(f"{NODES}/node{node}/meminfo").split()
    total, free = (int(words[words.index(key) + 1]) * UNITS["KiB"] for key in ("MemTotal:", "MemFree:"))
    return total, free


def in_blocks(buddyinfo: str, node: int, kb: int) -> tuple[int, int]:
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
        order = min((kb * UNITS["KiB"] // SMALL).bit_length(), len(counts)) - 1
        block = SMALL << order
        found += sum(count * (SMALL << at) for at, count in enumerate(counts) if at >= order)
    return found, block


# What was asked


def expand(fs: KernelFS, options: Mapping[str, Any]) -> tuple[Table, list[str]]:
    """Return the pages per node and size (kB) that the options ask of this host, and what was rounded."""
    table: Table = {}
    remarks: list[str] = []
    for number, row in enumerate(options.get("pools") or []):
        what = f"pools[{number}]"
        kb = _size(fs, row.get("size") or "2MiB", what)
        pages = _pages(row, kb, what, remarks)
        _add(table, dict.fromkeys(nodes_of(fs, row.get("node", "all"), what), pages), kb)
    path = options.get("for_file")
    if path:
        kb = _size(fs, options.get("size") or "2MiB", "size")
        nodes = nodes_of(fs, options.get("nodes") or "all", "nodes")
        headroom = whole(options.get("headroom") or 0, "headroom")
        size = _file_bytes(fs, path)
        need = size * (100 + headroom)
        pages = -(-need // (100 * kb * UNITS["KiB"]))
        each = -(-pages // len(nodes))
        _add(table, dict.fromkeys(nodes, each), kb)
        more = f", with {headroom} % headroom {about(need // 100)}" if headroom else ""
        remarks.append(
            f"{path} has {about(size)}{more}: rounded up to {pages_text(each, kb)} on each of the nodes "
            f"{_cpulist.render(nodes)}, {about(each * len(nodes) * kb * UNITS['KiB'])} in all."
        )
    return table, remarks


def _add(table: Table, pages: Mapping[int, int], kb: int) -> None:
    for node, count in pages.items():
        if (node, kb) in table:
            raise BadRequest(
                f"The pool of {size_text(kb * UNITS['KiB'])} pages on node {node} is asked for twice; name each pool "
                "once."
            )
        table[node, kb] = count


def _size(fs: KernelFS, text: object, what: str) -> int:
    kb = PAGE_SIZES.get(str(text).replace(" ", ""))
    if kb is None:
        raise BadRequest(f"{what}: '{text}' is no size of a huge page; say {' or '.join(PAGE_SIZES)}.")
    sizes = offered(fs)
    if not sizes:
        raise BadRequest(
            f"There are no huge page pools here: {SIZES} is absent or empty, so the kernel was built without "
            "CONFIG_HUGETLB_PAGE, or this is a container that does not see it."
        )
    if kb not in sizes:
        raise BadRequest(
            f"{what}: this kernel offers no pages of {text}, only of "
            f"{', '.join(size_text(size * UNITS['KiB']) for size in sizes)}. Pages of 1GiB need the CPU flag pdpe1gb, "
            "which a guest has only when its host passes it on."
        )
    return kb


def nodes_of(fs: KernelFS, text: object, what: str) -> tuple[int, ...]:
    """Return the nodes that a text names, all of which have memory."""
    there = nodes_with_memory(fs)
    if not there:
        raise BadRequest(f"{NODES}/has_memory names no node with memory: this kernel knows of no nodes.")
    if str(text) == "all":
        return there
    try:
        nodes = _cpulist.parse(str(text))
    except ValueError:
        nodes = ()
    if not nodes:
        raise BadRequest(f"{what}: '{text}' names no node; say a number, a list such as 0,2-3, or 'all'.")
    strange = sorted(set(nodes) - set(there))
    if strange:
        raise BadRequest(
            f"{what}: there is no node {strange[0]} with memory on this host, only {_cpulist.render(there)}. How many "
            "there are is set in the BIOS (nodes per socket, NPS)."
        )
    return nodes


def _pages(row: Mapping[str, Any], kb: int, what: str, remarks: list[str]) -> int:
    pages, amount = row.get("pages"), row.get("memory")
    if (pages is None) == (amount is None):
        raise BadRequest(f"{what}: say either pages or memory, one of the two.")
    if pages is not None:
        return whole(pages, f"{what}.pages")
    size = bytes_of(amount, f"{what}.memory")
    count = -(-size // (kb * UNITS["KiB"]))
    if count * kb * UNITS["KiB"] != size:
        remarks.append(f"{what}: {amount} is no whole number of pages: rounded up to {pages_text(count, kb)} each.")
    return count


def parts_of(path: str) -> list[str]:
    """Return all files of a model: a GGUF file may be one of several, called NAME-00001-of-00003.gguf and so on."""
    stem, dot, last = path.rpartition(".")
    tail = stem[-len("-00001-of-00003") :]
    digits = tail[1:6] + tail[-5:]
    if dot and last == "gguf" and tail[:1] + tail[6:10] == "--of-" and digits.isdecimal() and len(digits) == 10:
        count = int(tail[-5:])
        return [f"{stem[: -len(tail)]}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    return [path]


def _file_bytes(fs: KernelFS, path: str) -> int:
    total = 0
    for part in parts_of(path):
        found = fs.status(part)
        if found is None:
            raise BadRequest(
                f"for_file: there is no file {part} on the host. Say its whole path, or copy it there first."
            )
        total += found.st_size
    if total == 0:
        raise BadRequest(f"for_file: {path} is empty, so no pool can be sized from it.")
    return total
