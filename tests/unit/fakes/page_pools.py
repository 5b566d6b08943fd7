# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of the pools of huge pages: what a node gives, and which pages it cannot take back.

Source: mm/hugetlb.c of Linux 6.12.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import NODES
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.hugepages import GIGANTIC, SIZES, pool_file_path
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel, refuse

KB = (2048, GIGANTIC)
#: The files of a node's pool, and those of all nodes together.
OF_NODE = ("nr", "free", "surplus")
OF_ALL = ("nr", "free", "surplus", "resv")


class Pool:
    """The pages of a size on a node: all of them, those in use, those beyond what was asked for, and the most."""

    def __init__(self, most: int) -> None:
        self.pages = 0
        self.used = 0
        self.surplus = 0
        self.most = most


class PagePools:
    """The pools of all nodes, which are empty, in a kernel that gives ``most`` pages of 2 MiB on a node."""

    def __init__(self, kernel: Kernel, nodes: int = 4, most: int = 250) -> None:
        self.kernel = kernel
        self.pools = {(node, kb): Pool(most if kb == KB[0] else 0) for node in range(nodes) for kb in KB}
        #: Pages that programs have mapped and not touched yet, by size.
        self.promised = dict.fromkeys(KB, 0)
        kernel.put("/proc/buddyinfo", "")
        self._show()
        kernel.fs.add_rule(rf"{NODES}/node\d+/hugepages/hugepages-\d+kB/nr_hugepages", self._resize)

    @contextmanager
    def use(self, node: int, touched: int, mapped: int) -> Iterator[None]:
        """Have a program that maps pages of 2 MiB of the pools, and touches some of them on a node."""
        self._count_use(node, touched, mapped - touched)
        yield
        self._count_use(node, -touched, touched - mapped)

    def _count_use(self, node: int, touched: int, promised: int) -> None:
        self.pools[node, KB[0]].used += touched
        self.promised[KB[0]] += promised
        self._show()

    def _resize(self, path: str, text: str) -> None:
        """Take free pages that nobody was promised, and count what cannot be taken as surplus."""
        if not text.strip().isdecimal():
            raise refuse(errno.EINVAL)
        words = path.split("/")
        kb = int(words[-2][len("hugepages-") : -len("kB")])
        pool, wanted = self.pools[int(words[-4][len("node") :]), kb], int(text)
        free = sum(one.pages - one.used for key, one in self.pools.items() if key[1] == kb)
        takable = min(pool.pages - pool.used, free - self.promised[kb])
        pool.pages = max(min(wanted, pool.most), pool.pages - max(takable, 0), 0)
        pool.surplus = max(pool.pages - wanted, 0)
        self._show()

    def _show(self) -> None:
        for (node, kb), pool in self.pools.items():
            for name, number in zip(OF_NODE, (pool.pages, pool.pages - pool.used, pool.surplus)):
                self.kernel.put(pool_file_path(node, kb, f"{name}_hugepages"), number)
        for kb in KB:
            pools = [pool for key, pool in self.pools.items() if key[1] == kb]
            totals = [sum(numbers) for numbers in zip(*((p.pages, p.pages - p.used, p.surplus) for p in pools))]
            for name, number in zip(OF_ALL, [*totals, self.promised[kb]]):
                self.kernel.put(f"{SIZES}/hugepages-{kb}kB/{name}_hugepages", number)
