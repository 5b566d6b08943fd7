# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The TCP sockets that hold a port of this host, and the sockets of the processes of a unit.

A socket has an inode, which the kernel shows in the list of all sockets and at the descriptors of a process. So the
owner of a port is found by its control group. A connection that has ended and is in TIME_WAIT has no inode.

Source: Documentation/networking/proc_net_tcp.rst of the Linux kernel; proc(5).
"""

from __future__ import annotations

import stat
import sys

from .._errors import TuningError
from .cgroups import list_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from .._io.kernelfs import KernelFS

IPV4_TABLE, IPV6_TABLE = "/proc/net/tcp", "/proc/net/tcp6"
#: A line has 150 characters. Listening sockets come first, so that a limit cuts off connections only.
LARGEST_TABLE = 16 << 20
ANY_ADDRESSES = (bytes(4), bytes(16))
IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"


def list_socket_inodes_at_port(fs: KernelFS, address: str, port: int) -> set[int]:
    """Return the inodes of the sockets at a local port whose address is this one, or that listen at all addresses.

    A host name counts as all addresses.
    """
    wanted = _parse_ip_address(address)
    return {
        inode
        for found, found_port, inode in _list_local_ends(fs)
        if inode and found_port == port and (found == wanted or found in ANY_ADDRESSES or wanted in ANY_ADDRESSES)
    }


def list_socket_inodes_of_units(fs: KernelFS, units: Collection[str]) -> set[int]:
    """Return the inodes of the sockets that processes of these units have open; none for a unit without processes."""
    inodes = set()
    for unit in units:
        try:
            processes = list_processes(fs, unit)
        except TuningError:
            continue
        for process in processes:
            inodes |= _list_socket_inodes_of_process(fs, process)
    return inodes


def _list_socket_inodes_of_process(fs: KernelFS, process: int) -> set[int]:
    folder = f"/proc/{process}/fd"
    try:
        # A descriptor, or the process, may be gone before it is looked at.
        statuses = [fs.read_status(f"{folder}/{name}") for name in fs.list_names(folder)]
    except TuningError:
        return set()
    return {status.st_ino for status in statuses if status is not None and stat.S_ISSOCK(status.st_mode)}


def _list_local_ends(fs: KernelFS) -> Iterator[tuple[bytes, int, int]]:
    """Yield the local address, the local port and the inode of each TCP socket."""
    # A kernel without IPv6 has no table for it.
    tables = [
        fs.read(IPV4_TABLE, LARGEST_TABLE),
        fs.read(IPV6_TABLE, LARGEST_TABLE) if fs.read_status(IPV6_TABLE) else "",
    ]
    for table in tables:
        for line in table.splitlines()[1:]:
            words = line.split()
            if len(words) > 9:
                address, dummy, port = words[1].partition(":")
                yield _parse_kernel_address(address), int(port, 16), int(words[9])


def _parse_kernel_address(text: str) -> bytes:
    """Return the bytes of an address, which the kernel writes as numbers of 32 bits in the order of the CPU."""
    numbers = (int(text[start : start + 8], 16) for start in range(0, len(text), 8))
    return _without_ipv6_prefix(b"".join(number.to_bytes(4, sys.byteorder) for number in numbers))


def _parse_ip_address(text: str) -> bytes:
    # Imported here because most runs of the engine look at no socket.
    import socket

    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return _without_ipv6_prefix(socket.inet_pton(family, text))
        except OSError:
            continue
    return ANY_ADDRESSES[0]


def _without_ipv6_prefix(address: bytes) -> bytes:
    return address[len(IPV4_IN_IPV6) :] if address.startswith(IPV4_IN_IPV6) and len(address) == 16 else address
