# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of huge pages: the number of huge pages of a size on a node, as ``hugepages:node2/2048kB``.

The kernel accepts any number, and makes as many pages as it can. So every write is checked, repeated, and supported by
compaction. If pages are missing after that, the run fails and gives the pages back. Source: mm/hugetlb.c and
Documentation/admin-guide/mm/hugetlbpage.rst of the Linux kernel.
"""

from __future__ import annotations

import time

from ..._errors import BadRequest, NotApplied, Refused
from ..._io.paths import NODES
from ..._kernel import hugepages
from ..._kernel.hugepages import GIGANTIC, pool_file_path, read_pool_size_and_use
from ..._notation.numbers import require_whole_number
from ..._notation.sizes import UNITS, format_bytes, format_bytes_short, format_pages
from ..protocol.knob import Knob
from . import request
from .mounts import Mounts, page_size_of_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._kernel.hugepages import Table
    from ..protocol.knob import Change, Settings, Words

#: Seconds before each new attempt, in which programs may free memory and compaction goes on.
WAITS = (0.1, 0.3, 0.9, 2.7)
#: The default of the option reserve: percent of a node's memory that no pool may take.
RESERVE = 5


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    return [HugePages(host, options), Mounts(host, options)]


def describe_setting(address_rest: str) -> Words:
    if address_rest.startswith("mount/"):
        return (
            f"mount for huge pages of {format_bytes(page_size_of_address(f'hugepages:{address_rest}') * UNITS['KiB'])}",
            "",
            None,
        )
    node, kb = split_pool_address(f"hugepages:{address_rest}")
    return f"huge pages of {format_bytes(kb * UNITS['KiB'])}", "node", node


def pool_address(node: int, kb: int) -> str:
    return f"hugepages:node{node}/{kb}kB"


def split_pool_address(address: str) -> tuple[int, int]:
    """Return the node and the page size in kB of an address."""
    node, dummy, size = address[len("hugepages:node") :].partition("/")
    return int(node), int(size[: -len("kB")])


class HugePages(Knob):
    """The pools of all nodes and page sizes."""

    prefix = "hugepages"

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.host = host
        self.fs = host.fs
        self.options = options
        self._requested: Table = {}
        self._remarks: list[str] = []

    def wanted_settings(self) -> Settings:
        """Return the wanted pages of each pool, refusing more than fits in memory, and fewer than are in use."""
        table, self._remarks = request.expand_pools(self.fs, self.options)
        self._requested = table
        self._refuse_more_than_memory(table)
        # Available memory changes all the time, and a drift check of stored pools must not refuse them for that.
        if not self.host.stored:
            self._refuse_leaving_too_little(table)
        self._refuse_removing_pages_in_use(table)
        return {pool_address(node, kb): str(pages) for (node, kb), pages in table.items()}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the pages of each pool, without surplus pages, which the kernel removes when they are freed."""
        pools = {name: read_pool_size_and_use(self.fs, *split_pool_address(name)) for name in addresses}
        return {name: None if pool is None else str(pool[0]) for name, pool in pools.items()}

    def unreachable_reason(self, address: str) -> str | None:
        """Return the reason if a node or a page size does not exist any more, else None."""
        node, kb = split_pool_address(address)
        if read_pool_size_and_use(self.fs, node, kb) is None:
            return f"node {node} has no memory now, or the kernel has lost pages of {kb} kB"
        return None

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """Return the pools that cannot be restored, as when pages are in use, each with the reason."""
        reasons = super().unrestorable_reasons(originals)
        table: Table = {}
        for name, pages in originals.items():
            if name in reasons:
                continue
            pool = {split_pool_address(name): int(pages or 0)}
            try:
                self._refuse_removing_pages_in_use({**table, **pool})
            except BadRequest as error:
                reasons[name] = str(error)
            else:
                table.update(pool)
        return reasons

    def owns_address(self, address: str) -> bool:
        return address.startswith("hugepages:node")

    def _refuse_more_than_memory(self, table: Table) -> None:
        reserve = self._reserve_percent()
        for node in sorted({node for node, dummy in table}):
            total = hugepages.read_node_memory(self.fs, node)[0]
            limit = total * max(100 - reserve, 0) // 100
            before = {
                kb: (read_pool_size_and_use(self.fs, node, kb) or (0, 0))[0]
                for kb in hugepages.list_page_sizes(self.fs)
            }
            after = {kb: table.get((node, kb), pages) for kb, pages in before.items()}
            size = sum(kb * UNITS["KiB"] * pages for kb, pages in after.items())
            if size > limit and any(after[kb] > before[kb] for kb in before):
                pools = " and ".join(format_pages(pages, kb) for kb, pages in after.items() if pages)
                raise BadRequest(
                    f"Node {node} has {format_bytes_short(total)} of memory, of which {reserve} % are left to the "
                    f"system (option reserve): {format_bytes_short(limit)} can be huge pages. {pools} would take "
                    f"{format_bytes_short(size)}. Ask for less on this node, or spread it over more nodes."
                )

    def _reserve_percent(self) -> int:
        return require_whole_number(self.options.get("reserve", RESERVE), "reserve")

    def _refuse_leaving_too_little(self, table: Table) -> None:
        """Refuse to grow pools so far that less than the reserve is left of the memory that is available now.

        The kernel, its drivers and running services hold a part of the memory, which no pool of a node shows.
        """
        memory = hugepages.read_host_memory(self.fs)
        growth = sum(
            kb * UNITS["KiB"] * (pages - (read_pool_size_and_use(self.fs, node, kb) or (0, 0))[0])
            for (node, kb), pages in table.items()
        )
        if memory is None or growth <= 0:
            return
        reserve = self._reserve_percent()
        least = memory.total * min(reserve, 100) // 100
        if memory.available - growth < least:
            left = max(0, memory.available - growth)
            raise BadRequest(
                f"{format_bytes_short(growth)} more in huge pages would leave {format_bytes_short(left)} of "
                f"{format_bytes_short(memory.total)} to the system, and {reserve} % must be left (option reserve), "
                f"{format_bytes_short(least)}. Only {format_bytes_short(memory.available)} are available: the kernel, "
                "its drivers and running services hold the rest. Ask for fewer pages, or stop what uses the memory."
            )

    def _refuse_removing_pages_in_use(self, table: Table) -> None:
        """Refuse to shrink a pool below its pages in use, which would leave pages that belong to no pool."""
        taken: dict[int, int] = {}
        for (node, kb), pages in table.items():
            total, used = read_pool_size_and_use(self.fs, node, kb) or (0, 0)
            if pages < total:
                taken[kb] = taken.get(kb, 0) + total - pages
                if pages < used:
                    raise BadRequest(
                        f"Node {node} has {format_pages(total, kb)}, of which {used} are in use, so it cannot shrink "
                        f"to {pages}. {_page_users_hint(kb)}"
                    )
        for kb, count in taken.items():
            free, reserved = hugepages.read_free_and_reserved_pages(self.fs, kb)
            if free - count < reserved:
                raise BadRequest(
                    f"{format_pages(count, kb)} cannot be taken away: {free} are free, and {reserved} of these are "
                    f"promised to a program that has mapped them and not touched them yet. {_page_users_hint(kb)}"
                )

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Shrink pools first, which frees memory; then grow pools, the largest pages first, in several attempts."""
        table = {split_pool_address(change.address): int(change.after or 0) for change in changes}
        self._refuse_removing_pages_in_use(table)
        # A rollback and an undo give back what was there, whatever is left then.
        self._refuse_leaving_too_little({key: n for key, n in table.items() if self._requested.get(key) == n})
        before = {key: (read_pool_size_and_use(self.fs, *key) or (0, 0))[0] for key in table}
        for key in sorted(table, key=lambda key: (table[key] > before[key], -key[1])):
            self._write_pool_size(key, table[key])
        missing = self._count_missing_pages(table)
        for attempt, wait in enumerate(WAITS):
            if not missing:
                return
            if attempt == 0 and self.options.get("drop_caches"):
                self.fs.write("/proc/sys/vm/drop_caches", "3")
            for node in sorted({node for node, dummy in missing}):
                self._compact_node(node)
            time.sleep(wait)
            for key in missing:
                self._write_pool_size(key, table[key])
            missing = self._count_missing_pages(table)
        if missing:
            raise self._shortage_error(table, missing)

    def _write_pool_size(self, key: tuple[int, int], pages: int) -> None:
        path = pool_file_path(*key, "nr_hugepages")
        try:
            self.fs.write(path, str(pages))
        except Refused as error:
            if key[1] != GIGANTIC:
                raise
            raise Refused(f"{error} {self._gigabyte_pages_boot_hint({key: pages})}", error.errno, path) from None

    def _count_missing_pages(self, table: Table) -> Table:
        """Return the number of missing pages of each pool that lacks some."""
        lacks = {key: pages - (read_pool_size_and_use(self.fs, *key) or (0, 0))[0] for key, pages in table.items()}
        return {key: count for key, count in lacks.items() if count > 0}

    def _compact_node(self, node: int) -> None:
        """Have the kernel compact the memory of a node, or of all nodes if it cannot compact a single node."""
        path = f"{NODES}/node{node}/compact"
        if self.fs.read_status(path) is None:
            path = "/proc/sys/vm/compact_memory"
        if self.fs.read_status(path) is not None:
            self.fs.write(path, "1")

    def _shortage_error(self, table: Table, missing: Table) -> NotApplied:
        """Return an error with the pages that every node gave, and the reasons for missing pages."""
        given = {key: pages - missing.get(key, 0) for key, pages in table.items()}
        buddyinfo = self.fs.read_if_present("/proc/buddyinfo") or ""
        sentences = []
        for node, kb in sorted(missing):
            total, free = hugepages.read_node_memory(self.fs, node)
            large, block = hugepages.free_bytes_in_large_blocks(buddyinfo, node, kb)
            shortage = missing[node, kb] * kb * UNITS["KiB"]
            if free < shortage:
                reason = "its memory is in use"
            elif block < kb * UNITS["KiB"]:
                reason = f"no more of its free memory lies in one piece of {format_bytes(kb * UNITS['KiB'])}"
            elif large < shortage:
                reason = "its free memory is fragmented"
            else:
                reason = "the kernel keeps the rest for itself, see vm.min_free_kbytes"
            sentences.append(
                f"Node {node} gave {given[node, kb]} of {format_pages(table[node, kb], kb)}: {reason} "
                f"({format_bytes_short(free)} of {format_bytes_short(total)} free, {format_bytes_short(large)} of "
                f"that in blocks of {format_bytes_short(block)} or more)."
            )
        full = [key for key in sorted(table) if key not in missing]
        sentences += [f"Node {node} gave all {format_pages(given[node, kb], kb)}." for node, kb in full]
        sentences.append(f"The kernel was asked {len(WAITS) + 1} times, with compaction between.")
        gigantic = {key: pages for key, pages in table.items() if key[1] == GIGANTIC}
        if any(key in missing for key in gigantic):
            sentences.append(self._gigabyte_pages_boot_hint(gigantic))
        else:
            sentences.append(
                "Ask for less, stop what uses the memory, or set drop_caches to true; memory is least fragmented soon "
                "after a boot."
            )
        first = min(missing)
        return NotApplied(
            " ".join(sentences),
            address=pool_address(*first),
            wanted=str(table[first]),
            found=str(given[first]),
            given={pool_address(*key): pages for key, pages in given.items()},
        )

    def _gigabyte_pages_boot_hint(self, wanted: Table) -> str:
        """Return the boot parameters that make the pools of 1 GiB pages of all nodes."""
        table = {
            node: (read_pool_size_and_use(self.fs, node, GIGANTIC) or (0, 0))[0]
            for node in hugepages.nodes_with_memory(self.fs)
        }
        table.update({node: pages for (node, dummy), pages in wanted.items()})
        counts = ",".join(f"{node}:{pages}" for node, pages in table.items() if pages)
        return (
            "Pages of 1 GiB can be relied on only at boot, while memory is still whole: give the kernel the boot "
            f"parameters 'hugepagesz=1G hugepages={counts}' in this order with the module kernel_cmdline, and reboot "
            "(kernels before 5.16 know only a total for all nodes, hugepages=N)."
        )


def _page_users_hint(kb: int) -> str:
    return (
        "The kernel does not tell who uses a page; 'grep -lsE \"_Hugetlb: +[1-9]\" /proc/*/smaps_rollup' names the "
        f"processes that map some, and a file on a hugetlbfs of {kb} kB pages holds them without any process. Stop or "
        "remove these first."
    )
