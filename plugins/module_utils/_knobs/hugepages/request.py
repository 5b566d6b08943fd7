# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested huge pages: a number of pages, an amount of memory or the size of a file, for each node and size.

Source: Documentation/admin-guide/mm/hugetlbpage.rst of the Linux kernel.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.hugepages import (
    GIGANTIC,
    SIZES,
    list_page_sizes,
    nodes_for_pools,
    nodes_with_memory,
    parse_nodes,
)
from ..._notation.cpulist import format_cpulist
from ..._notation.gguf_parts import list_gguf_parts
from ..._notation.numbers import require_whole_number
from ..._notation.sizes import UNITS, format_bytes, format_bytes_short, format_pages, parse_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._io.kernelfs import KernelFS
    from ..._kernel.hugepages import Table

#: The page sizes of x86-64 in the notation of people -> kB.
PAGE_SIZES = {"2MiB": 2048, "1GiB": GIGANTIC}


def expand_pools(fs: KernelFS, options: Mapping[str, Any]) -> tuple[Table, list[str]]:
    """Return the requested pages by (node, page size in kB), and remarks on amounts that were rounded."""
    table: Table = {}
    remarks: list[str] = []
    for number, row in enumerate(options.get("pools") or []):
        subject = f"pools[{number}]"
        kb = _parse_page_size(fs, row.get("size") or "2MiB", subject)
        pages = _parse_pages(row, kb, subject, remarks)
        _add_pools(table, dict.fromkeys(_parse_pool_nodes(fs, row.get("node"), subject, remarks), pages), kb)
    path = options.get("for_file")
    if path:
        kb = _parse_page_size(fs, options.get("size") or "2MiB", "size")
        nodes = _parse_pool_nodes(fs, options.get("nodes"), "nodes", remarks)
        headroom = require_whole_number(options.get("headroom") or 0, "headroom")
        size = _read_size_of_model_files(fs, path)
        need = size * (100 + headroom)
        pages = -(-need // (100 * kb * UNITS["KiB"]))
        each = -(-pages // len(nodes))
        _add_pools(table, dict.fromkeys(nodes, each), kb)
        more = f", with {headroom} % headroom {format_bytes_short(need // 100)}" if headroom else ""
        remarks.append(
            f"{path} has {format_bytes_short(size)}{more}: rounded up to {format_pages(each, kb)} on each of the nodes "
            f"{format_cpulist(nodes)}, {format_bytes_short(each * len(nodes) * kb * UNITS['KiB'])} in all."
        )
    return table, remarks


def _parse_pool_nodes(fs: KernelFS, text: object, subject: str, remarks: list[str]) -> tuple[int, ...]:
    """Return the named nodes; for "all", which is the default, the nodes with CPUs, with a remark on the others."""
    nodes = parse_nodes(fs, text or "all", subject)
    if text not in (None, "", "all"):
        return nodes
    nodes = nodes_for_pools(fs)
    others = sorted(set(nodes_with_memory(fs)) - set(nodes))
    if others:
        remark = (
            f"Node {format_cpulist(others)} has memory and no CPU, as is usual for memory on a CXL device, and gets no "
            "pool. Name it as the node of a pool that belongs there."
        )
        remarks += [] if remark in remarks else [remark]
    return nodes


def _add_pools(table: Table, pages: Mapping[int, int], kb: int) -> None:
    for node, count in pages.items():
        if (node, kb) in table:
            raise BadRequest(
                f"The pool of {format_bytes(kb * UNITS['KiB'])} pages on node {node} is asked for twice; name each "
                "pool once."
            )
        table[node, kb] = count


def _parse_page_size(fs: KernelFS, text: object, subject: str) -> int:
    kb = PAGE_SIZES.get(str(text).replace(" ", ""))
    if kb is None:
        raise BadRequest(f"{subject}: '{text}' is no size of a huge page; say {' or '.join(PAGE_SIZES)}.")
    sizes = list_page_sizes(fs)
    if not sizes:
        raise BadRequest(
            f"There are no huge page pools here: {SIZES} is absent or empty, so the kernel was built without "
            "CONFIG_HUGETLB_PAGE, or this is a container that does not see it."
        )
    if kb not in sizes:
        raise BadRequest(
            f"{subject}: this kernel offers no pages of {text}, only of "
            f"{', '.join(format_bytes(size * UNITS['KiB']) for size in sizes)}. Pages of 1GiB need the CPU flag "
            "pdpe1gb, which a guest has only when its host passes it on."
        )
    return kb


def _parse_pages(row: Mapping[str, Any], kb: int, subject: str, remarks: list[str]) -> int:
    pages, amount = row.get("pages"), row.get("memory")
    if (pages is None) == (amount is None):
        raise BadRequest(f"{subject}: say either pages or memory, one of the two.")
    if pages is not None:
        return require_whole_number(pages, f"{subject}.pages")
    size = parse_bytes(amount, f"{subject}.memory")
    count = -(-size // (kb * UNITS["KiB"]))
    if count * kb * UNITS["KiB"] != size:
        remarks.append(
            f"{subject}: {amount} is no whole number of pages: rounded up to {format_pages(count, kb)} each."
        )
    return count


def _read_size_of_model_files(fs: KernelFS, path: str) -> int:
    total = 0
    for part in list_gguf_parts(path):
        status = fs.read_status(part)
        if status is None:
            raise BadRequest(
                f"for_file: there is no file {part} on the host. Say its whole path, or copy it there first."
            )
        total += status.st_size
    if total == 0:
        raise BadRequest(f"for_file: {path} is empty, so no pool can be sized from it.")
    return total
