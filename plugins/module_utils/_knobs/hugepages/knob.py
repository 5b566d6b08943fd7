# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hugepages knob: how many huge pages of a size the kernel keeps on a node, as ``hugepages:node2/2048kB``.

The kernel accepts any number and gives what it can. So every write is counted, helped by compaction and repeated; what
is short after that is a failure, and the engine gives the pages back.
Source: mm/hugetlb.c and Documentation/admin-guide/mm/hugetlbpage.rst of the Linux kernel.
"""

from __future__ import annotations

import time

from ..._errors import BadRequest, NotApplied, Refused
from ..._io.paths import NODES
from ..._kernel import hugepages
from ..._kernel.hugepages import GIGANTIC, pool_file_path, read_pool
from ..._notation.numbers import require_whole
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

#: Seconds to wait before each new attempt: others free memory in time, and compaction goes on in the background.
WAITS = (0.1, 0.3, 0.9, 2.7)
#: Percent of a node's memory that no pool may take, where nothing else is asked for.
RESERVE = 5


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    """Return the pools, and the mounts for them, as knobs."""
    return [HugePages(host, options), Mounts(host, options)]


def describe_setting(rest: str) -> Words:
    """Return the size of a pool and its node, for people; or of a mount."""
    if rest.startswith("mount/"):
        return (
            f"mount for huge pages of {format_bytes(page_size_of_address(f'hugepages:{rest}') * UNITS['KiB'])}",
            "",
            None,
        )
    node, kb = split_pool_address(f"hugepages:{rest}")
    return f"huge pages of {format_bytes(kb * UNITS['KiB'])}", "node", node


def pool_address(node: int, kb: int) -> str:
    """Return the address of a pool."""
    return f"hugepages:node{node}/{kb}kB"


def split_pool_address(name: str) -> tuple[int, int]:
    """Return node and page size in kB of an address."""
    node, dummy, size = name[len("hugepages:node") :].partition("/")
    return int(node), int(size[: -len("kB")])


class HugePages(Knob):
    """The pools of all nodes and sizes."""

    prefix = "hugepages"

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.fs = host.fs
        self.options = options
        self._remarks: list[str] = []

    def wanted_settings(self) -> Settings:
        """Return the pages per pool, refusing what a node cannot hold and what would take pages in use."""
        table, self._remarks = request.expand_pools(self.fs, self.options)
        self._refuse_more_than_memory(table)
        self._refuse_taking_used(table)
        return {pool_address(node, kb): str(pages) for (node, kb), pages in table.items()}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the pages of each pool, without the surplus ones that the kernel takes back."""
        found: Settings = {}
        for name in addresses:
            here = read_pool(self.fs, *split_pool_address(name))
            found[name] = None if here is None else str(here[0])
        return found

    def unreachable_reason(self, address: str) -> str | None:
        """Tell of nodes and page sizes that are no longer there."""
        node, kb = split_pool_address(address)
        if read_pool(self.fs, node, kb) is None:
            return f"node {node} has no memory now, or the kernel has lost pages of {kb} kB"
        return None

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """Pools whose pages are in use stay as they are until these are free."""
        kept = super().unrestorable_reasons(originals)
        table: Table = {}
        for name, pages in originals.items():
            if name in kept:
                continue
            one = {split_pool_address(name): int(pages or 0)}
            try:
                self._refuse_taking_used({**table, **one})
            except BadRequest as error:
                kept[name] = str(error)
            else:
                table.update(one)
        return kept

    def list_remarks(self) -> list[str]:
        """Return what was rounded."""
        return self._remarks

    def owns_address(self, address: str) -> bool:
        """All but the mounts."""
        return address.startswith("hugepages:node")

    # Refusals

    def _refuse_more_than_memory(self, table: Table) -> None:
        reserve = require_whole(self.options.get("reserve", RESERVE), "reserve")
        for node in sorted({node for node, dummy in table}):
            total = hugepages.read_node_memory(self.fs, node)[0]
            limit = total * max(100 - reserve, 0) // 100
            now = {kb: (read_pool(self.fs, node, kb) or (0, 0))[0] for kb in hugepages.list_page_sizes(self.fs)}
            then = {kb: table.get((node, kb), pages) for kb, pages in now.items()}
            asked = sum(kb * UNITS["KiB"] * pages for kb, pages in then.items())
            if asked > limit and any(then[kb] > now[kb] for kb in now):
                pools = " and ".join(format_pages(pages, kb) for kb, pages in then.items() if pages)
                raise BadRequest(
                    f"Node {node} has {format_bytes_short(total)} of memory, of which {reserve} % are left to the "
                    f"system (option reserve): {format_bytes_short(limit)} can be huge pages. {pools} would take "
                    f"{format_bytes_short(asked)}. Ask for less on this node, or spread it over more nodes."
                )

    def _refuse_taking_used(self, table: Table) -> None:
        """Refuse to shrink a pool below what is in use, which would leave pages that belong to no pool."""
        taken: dict[int, int] = {}
        for (node, kb), pages in table.items():
            have, used = read_pool(self.fs, node, kb) or (0, 0)
            if pages < have:
                taken[kb] = taken.get(kb, 0) + have - pages
                if pages < used:
                    raise BadRequest(
                        f"Node {node} has {format_pages(have, kb)}, of which {used} are in use, so it cannot shrink "
                        f"to {pages}. {_page_users_hint(kb)}"
                    )
        for kb, count in taken.items():
            free, reserved = hugepages.read_free_and_reserved_pages(self.fs, kb)
            if free - count < reserved:
                raise BadRequest(
                    f"{format_pages(count, kb)} cannot be taken away: {free} are free, and {reserved} of these are "
                    f"promised to a program that has mapped them and not touched them yet. {_page_users_hint(kb)}"
                )

    # Writing

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Shrink first, because that frees memory; then grow, the largest pages first, with compaction and patience."""
        table = {split_pool_address(change.address): int(change.after or 0) for change in changes}
        self._refuse_taking_used(table)
        before = {key: (read_pool(self.fs, *key) or (0, 0))[0] for key in table}
        for key in sorted(table, key=lambda key: (table[key] > before[key], -key[1])):
            self._write_pool_size(key, table[key])
        short = self._count_missing_pages(table)
        for attempt, wait in enumerate(WAITS):
            if not short:
                return
            if attempt == 0 and self.options.get("drop_caches"):
                self.fs.write("/proc/sys/vm/drop_caches", "3")
            for node in sorted({node for node, dummy in short}):
                self._compact_node(node)
            time.sleep(wait)
            for key in short:
                self._write_pool_size(key, table[key])
            short = self._count_missing_pages(table)
        if short:
            raise self._shortage_error(table, short)

    def _write_pool_size(self, key: tuple[int, int], pages: int) -> None:
        path = pool_file_path(*key, "nr_hugepages")
        try:
            self.fs.write(path, str(pages))
        except Refused as error:
            if key[1] != GIGANTIC:
                raise
            raise Refused(f"{error} {self._boot_parameter_hint({key: pages})}", error.errno, path) from None

    def _count_missing_pages(self, table: Table) -> Table:
        """Return how many pages each pool lacks."""
        lacks = {key: pages - (read_pool(self.fs, *key) or (0, 0))[0] for key, pages in table.items()}
        return {key: count for key, count in lacks.items() if count > 0}

    def _compact_node(self, node: int) -> None:
        """Have the kernel move pages together, on this node where the kernel can do it for one alone."""
        path = f"{NODES}/node{node}/compact"
        if self.fs.read_status(path) is None:
            path = "/proc/sys/vm/compact_memory"
        if self.fs.read_status(path) is not None:
            self.fs.write(path, "1")

    def _shortage_error(self, table: Table, short: Table) -> NotApplied:
        """Return the failure that says what every node gave and why it gave no more."""
        given = {key: pages - short.get(key, 0) for key, pages in table.items()}
        buddyinfo = self.fs.read_if_present("/proc/buddyinfo") or ""
        sentences = []
        for node, kb in sorted(short):
            total, free = hugepages.read_node_memory(self.fs, node)
            large, block = hugepages.free_bytes_in_large_blocks(buddyinfo, node, kb)
            missing = short[node, kb] * kb * UNITS["KiB"]
            if free < missing:
                reason = "its memory is in use"
            elif block < kb * UNITS["KiB"]:
                reason = f"no more of its free memory lies in one piece of {format_bytes(kb * UNITS['KiB'])}"
            elif large < missing:
                reason = "its free memory is fragmented"
            else:
                reason = "the kernel keeps the rest for itself, see vm.min_free_kbytes"
            sentences.append(
                f"Node {node} gave {given[node, kb]} of {format_pages(table[node, kb], kb)}: {reason} "
                f"({format_bytes_short(free)} of {format_bytes_short(total)} free, {format_bytes_short(large)} of "
                f"that in blocks of {format_bytes_short(block)} or more)."
            )
        full = [key for key in sorted(table) if key not in short]
        sentences += [f"Node {node} gave all {format_pages(given[node, kb], kb)}." for node, kb in full]
        sentences.append(f"The kernel was asked {len(WAITS) + 1} times, with compaction between.")
        gigantic = {key: pages for key, pages in table.items() if key[1] == GIGANTIC}
        if any(key in short for key in gigantic):
            sentences.append(self._boot_parameter_hint(gigantic))
        else:
            sentences.append(
                "Ask for less, stop what uses the memory, or set drop_caches to true; memory is least fragmented soon "
                "after a boot."
            )
        first = min(short)
        return NotApplied(
            " ".join(sentences),
            address=pool_address(*first),
            wanted=str(table[first]),
            found=str(given[first]),
            given={pool_address(*key): pages for key, pages in given.items()},
        )

    def _boot_parameter_hint(self, asked: Table) -> str:
        """Return the way out for 1 GiB pages: the boot parameters that make the pools of all nodes."""
        table = {
            node: (read_pool(self.fs, node, GIGANTIC) or (0, 0))[0] for node in hugepages.nodes_with_memory(self.fs)
        }
        table.update({node: pages for (node, dummy), pages in asked.items()})
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
