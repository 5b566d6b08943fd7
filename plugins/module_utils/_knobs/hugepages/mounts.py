# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hugetlbfs for each size of page that a pool is asked of, as ``hugepages:mount/1048576kB`` with the folder as value.

systemd mounts one of the default size. Where somebody has mounted one of a size, ours is not needed.
Source: Documentation/admin-guide/mm/hugetlbpage.rst of the Linux kernel.
"""

from __future__ import annotations

from ..._kernel import hugepages
from ..._kernel.hugepages import read_pool
from ..._notation.sizes import UNITS, format_bytes, format_pages
from ..protocol.knob import Knob
from . import request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings

PREFIX = "hugepages:mount/"


def mount_folder(kb: int) -> str:
    """Return where ours is for pages of so many kB: /dev/hugepages-1GiB."""
    return f"/dev/hugepages-{format_bytes(kb * UNITS['KiB']).replace(' ', '')}"


def page_size_of_address(address: str) -> int:
    """Return the page size of an address, in kB."""
    return int(address[len(PREFIX) : -len("kB")])


class Mounts(Knob):
    """Those that this host lacks for its pools."""

    prefix = "hugepages"

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.fs = host.fs
        self.options = options

    def owns_address(self, address: str) -> bool:
        """Only mounts."""
        return address.startswith(PREFIX)

    def wanted_settings(self) -> Settings:
        """Return a mount for each size that a pool with pages is asked of, and that nobody else has mounted."""
        if not self.options.get("mount"):
            return {}
        table = request.expand_pools(self.fs, self.options)[0]
        there = hugepages.list_hugetlbfs_mounts(self.fs)
        sizes = sorted({kb for (dummy, kb), pages in table.items() if pages})
        lacking = [kb for kb in sizes if all(size != kb for point, size in there if point != mount_folder(kb))]
        return {f"{PREFIX}{kb}kB": mount_folder(kb) for kb in lacking}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the folders of ours that are mounted."""
        there = hugepages.list_hugetlbfs_mounts(self.fs)
        places = {address: mount_folder(page_size_of_address(address)) for address in addresses}
        return {
            address: place if (place, page_size_of_address(address)) in there else None
            for address, place in places.items()
        }

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """A mount stays while files on it hold pages."""
        kept = super().unrestorable_reasons(originals)
        mounted = self.read_settings(originals)
        for address in originals.keys() - kept.keys():
            kb = page_size_of_address(address)
            nodes = hugepages.nodes_with_memory(self.fs)
            used = sum((read_pool(self.fs, node, kb) or (0, 0))[1] for node in nodes)
            if used and mounted[address]:
                kept[address] = f"{format_pages(used, kb)} are in use, by files there or by programs; stop these first"
        return kept

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Mount, or unmount and leave no folder."""
        for change in changes:
            kb = page_size_of_address(change.address)
            if change.after is None:
                self.fs.unmount_filesystem(mount_folder(kb))
                self.fs.rmdir(mount_folder(kb))
                continue
            if not self.fs.is_dir(mount_folder(kb)):
                self.fs.mkdir(mount_folder(kb))
            self.fs.mount_filesystem("hugetlbfs", mount_folder(kb), f"pagesize={kb}K")
