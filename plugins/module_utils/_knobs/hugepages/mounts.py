# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hugetlbfs mount for each page size of the requested pools: ``hugepages:mount/1048576kB`` with its folder as value.

systemd mounts a hugetlbfs of the default size. A size that another program has mounted needs no further mount. Source:
Documentation/admin-guide/mm/hugetlbpage.rst of the Linux kernel.
"""

from __future__ import annotations

from ..._kernel import hugepages
from ..._kernel.hugepages import read_pool_size_and_use
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
    """Return the folder of this collection's mount for a page size in kB, such as /dev/hugepages-1GiB."""
    return f"/dev/hugepages-{format_bytes(kb * UNITS['KiB']).replace(' ', '')}"


def page_size_of_address(address: str) -> int:
    return int(address[len(PREFIX) : -len("kB")])


class Mounts(Knob):
    """The hugetlbfs mounts that this host lacks for its pools."""

    prefix = "hugepages"

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.fs = host.fs
        self.options = options

    def owns_address(self, address: str) -> bool:
        return address.startswith(PREFIX)

    def wanted_settings(self) -> Settings:
        """Return a mount for each page size of a requested pool that no other program has mounted."""
        if not self.options.get("mount"):
            return {}
        table = request.expand_pools(self.fs, self.options)[0]
        mounts = hugepages.list_hugetlbfs_mounts(self.fs)
        sizes = sorted({kb for (dummy, kb), pages in table.items() if pages})
        lacking = [kb for kb in sizes if all(size != kb for point, size in mounts if point != mount_folder(kb))]
        return {f"{PREFIX}{kb}kB": mount_folder(kb) for kb in lacking}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the folder of each mount of this collection, None if it is not mounted."""
        mounts = hugepages.list_hugetlbfs_mounts(self.fs)
        sizes = {address: page_size_of_address(address) for address in addresses}
        return {a: mount_folder(kb) if (mount_folder(kb), kb) in mounts else None for a, kb in sizes.items()}

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """Return the mounts whose pages are in use, so that they cannot be unmounted, each with the reason."""
        reasons = super().unrestorable_reasons(originals)
        mounted = self.read_settings(originals)
        for address in originals.keys() - reasons.keys():
            kb = page_size_of_address(address)
            nodes = hugepages.nodes_with_memory(self.fs)
            used = sum((read_pool_size_and_use(self.fs, node, kb) or (0, 0))[1] for node in nodes)
            if used and mounted[address]:
                reasons[address] = (
                    f"{format_pages(used, kb)} are in use, by files there or by programs; stop these first"
                )
        return reasons

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Mount hugetlbfs at a folder, or unmount it and remove the folder."""
        for change in changes:
            kb = page_size_of_address(change.address)
            if change.after is None:
                self.fs.unmount_filesystem(mount_folder(kb))
                self.fs.rmdir(mount_folder(kb))
                continue
            if not self.fs.is_dir(mount_folder(kb)):
                self.fs.mkdir(mount_folder(kb))
            self.fs.mount_filesystem("hugetlbfs", mount_folder(kb), f"pagesize={kb}K")
