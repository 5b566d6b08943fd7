# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""System calls on memory that Python lacks: mappings by address, page cache residency, nodes of pages, memory policy.

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
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Numbers of system calls on x86-64.
MBIND, SET_MEMPOLICY, MOVE_PAGES = 237, 238, 279
DEFAULT = 0
POLICIES = {"bind": 2, "interleave": 3}
#: Moves pages that other processes map too.
MOVE_ALL = 4
READ, WRITE, SHARED, PRIVATE, ANONYMOUS, POPULATE, NORESERVE, RANDOM = 1, 2, 1, 2, 0x20, 0x8000, 0x4000, 1
#: The bytes that are written between two looks at the state of a node.
FILL_STEP = 16 << 20
FAILED = ctypes.c_void_p(-1).value
#: The bits of a mask of nodes: no kernel is built for more nodes.
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
    """Map a file from offset ``begin`` on for reading during the block, and yield the address."""
    address = _libc.mmap(None, size, READ, SHARED | flags, fd, begin)
    if address in (None, FAILED):
        raise _system_call_error("mmap")
    try:
        _libc.madvise(address, size, RANDOM)
        yield int(address)
    finally:
        _libc.munmap(address, size)


def is_page_cached(address: int) -> bool:
    """Return whether the mapped page at an address is in the page cache.

    To a process that may not write the file, the kernel reports all pages as cached.
    """
    answer = ctypes.c_ubyte()
    if _libc.mincore(address, SMALL, ctypes.byref(answer)):
        raise _system_call_error("mincore")
    return bool(answer.value & 1)


def read_nodes_of_pages(addresses: Iterable[int]) -> list[int | None]:
    """Return the node of the mapped page at each address, None where it is unknown; each page is read first."""
    page_addresses = list(addresses)
    if not page_addresses:
        return []
    for address in page_addresses:
        ctypes.c_ubyte.from_address(address).value  # noqa: B018 - the read maps the page into this process
    count = ctypes.c_ulong(len(page_addresses))
    status = (ctypes.c_int * len(page_addresses))()
    pages = (ctypes.c_void_p * len(page_addresses))(*page_addresses)
    if _libc.syscall(ctypes.c_long(MOVE_PAGES), ctypes.c_long(0), count, pages, None, status, ctypes.c_long(0)):
        raise _system_call_error("move_pages")
    return [node if node >= 0 else None for node in status]


def move_file_to_node(fd: int, begin: int, size: int, node: int) -> None:
    """Move a part of a file in the page cache to a node, for all processes; pages in use at the moment may stay.

    ``begin`` is a multiple of the page size. Parts that are not in the page cache are read. Needs root.
    """
    with map_file(fd, size, begin, POPULATE) as address:
        area = ctypes.c_void_p(address), ctypes.c_ulong(size), ctypes.c_long(POLICIES["bind"])
        if _libc.syscall(ctypes.c_long(MBIND), *area, *_node_mask((node,)), ctypes.c_ulong(MOVE_ALL)):
            raise _system_call_error(f"mbind to node {node}")


def fill_memory_of_node(node: int, most: int, goes_on: Callable[[int], bool]) -> None:
    """Write up to ``most`` bytes of new memory on a node, as long as ``goes_on`` is true, and free that memory.

    ``goes_on`` is called with the bytes that are written so far, before each step.
    """
    address = _libc.mmap(None, most, READ | WRITE, PRIVATE | ANONYMOUS | NORESERVE, -1, 0)
    if address in (None, FAILED):
        raise _system_call_error("mmap")
    try:
        area = ctypes.c_void_p(address), ctypes.c_ulong(most), ctypes.c_long(POLICIES["bind"])
        if _libc.syscall(ctypes.c_long(MBIND), *area, *_node_mask((node,)), ctypes.c_ulong(0)):
            raise _system_call_error(f"mbind to node {node}")
        for begin in range(0, most, FILL_STEP):
            if not goes_on(begin):
                break
            ctypes.memset(address + begin, 0, min(FILL_STEP, most - begin))
    finally:
        _libc.munmap(address, most)


def _node_mask(nodes: Sequence[int]) -> tuple[ctypes.Array[ctypes.c_ulong], ctypes.c_ulong]:
    """Return nodes as a bit mask for the kernel, and its number of bits, of which the kernel uses one less."""
    mask = (ctypes.c_ulong * (MOST_NODES // 64))()
    for node in nodes:
        mask[node // 64] |= 1 << node % 64
    return mask, ctypes.c_ulong(MOST_NODES)


@contextmanager
def memory_policy_in_block(kind: str | None, nodes: Sequence[int]) -> Iterator[None]:
    """Set the memory policy "bind" or "interleave" to these nodes during the block; None leaves the policy as it is."""
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
    """Return the page size in bytes of the hugetlbfs that has a folder, None where it is on another file system."""
    answer = (ctypes.c_ulong * 32)()
    if _libc.statfs(os.fsencode(folder), answer):
        raise TuningError(f"{folder} cannot be looked at: {os.strerror(ctypes.get_errno())}.")
    return int(answer[1]) if answer[0] == HUGETLBFS_MAGIC else None
