# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""System calls on memory that Python does not have: mappings by address, residency, nodes of pages, memory policy.

Source: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/linux/mempolicy.h of the Linux kernel.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager

from .._errors import TuningError
from .hugepages import SMALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Numbers of system calls on x86-64.
MBIND, SET_MEMPOLICY, MOVE_PAGES = 237, 238, 279
DEFAULT = 0
POLICIES = {"bind": 2, "interleave": 3}
#: Pages that other processes map too are moved.
MOVE_ALL = 4
READ, SHARED, POPULATE, RANDOM = 1, 1, 0x8000, 1
FAILED = ctypes.c_void_p(-1).value
#: A mask must have room for as many nodes as any kernel is built for.
MOST_NODES = 1024
HUGETLBFS_MAGIC = 0x958458F6

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_libc.statfs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
_libc.syscall.restype = ctypes.c_long


def _system_call_error(call: str) -> TuningError:
    return TuningError(f"{call} failed: {os.strerror(ctypes.get_errno())}.")


@contextmanager
def map_file(fd: int, size: int, begin: int = 0, flags: int = 0) -> Iterator[int]:
    """Map a file from ``begin`` on to be read, for as long as the block lasts, and yield the address."""
    address = _libc.mmap(None, size, READ, SHARED | flags, fd, begin)
    if address in (None, FAILED):
        raise _system_call_error("mmap")
    try:
        _libc.madvise(address, size, RANDOM)
        yield int(address)
    finally:
        _libc.munmap(address, size)


def is_page_cached(address: int) -> bool:
    """Return whether the mapped page is in the page cache.

    The kernel shows it only to a process that may write to the file; for others it calls all pages cached.
    """
    answer = ctypes.c_ubyte()
    if _libc.mincore(address, SMALL, ctypes.byref(answer)):
        raise _system_call_error("mincore")
    return bool(answer.value & 1)


def read_nodes_of_pages(addresses: Iterable[int]) -> list[int | None]:
    """Return the node of each mapped page, None where it is unknown. Each page is read first."""
    places = list(addresses)
    if not places:
        return []
    for place in places:
        ctypes.c_ubyte.from_address(place).value  # noqa: B018 - the read makes the page one of this process
    count = ctypes.c_ulong(len(places))
    status = (ctypes.c_int * len(places))()
    pages = (ctypes.c_void_p * len(places))(*places)
    if _libc.syscall(ctypes.c_long(MOVE_PAGES), ctypes.c_long(0), count, pages, None, status, ctypes.c_long(0)):
        raise _system_call_error("move_pages")
    return [node if node >= 0 else None for node in status]


def move_file_to_node(fd: int, begin: int, size: int, node: int) -> None:
    """Move a part of a file to a node, page by page, whoever maps it; pages that are in use at the moment may stay.

    ``begin`` is a multiple of the page size. What is not in the page cache is read. Must be root.
    """
    with map_file(fd, size, begin, POPULATE) as address:
        where = ctypes.c_void_p(address), ctypes.c_ulong(size), ctypes.c_long(POLICIES["bind"])
        if _libc.syscall(ctypes.c_long(MBIND), *where, *_node_mask((node,)), ctypes.c_ulong(MOVE_ALL)):
            raise _system_call_error(f"mbind to node {node}")


def _node_mask(nodes: Sequence[int]) -> tuple[ctypes.Array[ctypes.c_ulong], ctypes.c_ulong]:
    """Return a set of nodes as the kernel takes it, and its number of bits, of which it uses one less."""
    mask = (ctypes.c_ulong * (MOST_NODES // 64))()
    for node in nodes:
        mask[node // 64] |= 1 << node % 64
    return mask, ctypes.c_ulong(MOST_NODES)


@contextmanager
def memory_policy(kind: str | None, nodes: Sequence[int]) -> Iterator[None]:
    """Set the memory policy to these nodes for as long as the block lasts; without a kind, leave it alone."""
    if kind is not None and _libc.syscall(
        ctypes.c_long(SET_MEMPOLICY), ctypes.c_long(POLICIES[kind]), *_node_mask(nodes)
    ):
        raise _system_call_error(f"set_mempolicy to {kind}")
    try:
        yield
    finally:
        if kind is not None:
            _libc.syscall(ctypes.c_long(SET_MEMPOLICY), ctypes.c_long(DEFAULT), None, ctypes.c_ulong(0))


def read_hugetlbfs_page_size(folder: str) -> int | None:
    """Return the page size in bytes of the hugetlbfs that a folder is on, None where it is on no hugetlbfs."""
    answer = (ctypes.c_ulong * 32)()
    if _libc.statfs(os.fsencode(folder), answer):
        raise TuningError(f"{folder} cannot be looked at: {os.strerror(ctypes.get_errno())}.")
    return int(answer[1]) if answer[0] == HUGETLBFS_MAGIC else None
