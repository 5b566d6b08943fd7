# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who has a port, as the kernel of this machine shows it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import tcp_sockets

FS = KernelFS(read_only=True)
UNIT = "llama-chat.service"


def inode(server: socket.socket) -> int:
    return os.fstat(server.fileno()).st_ino


@pytest.mark.parametrize(
    ("bound", "asked", "found"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("::1", "::1", True),
        ("::1", "127.0.0.1", False),
        ("::", "127.0.0.1", True),
    ],
)
def test_a_socket_at_a_port_is_found_where_it_is_in_the_way(bound: str, asked: str, found: bool) -> None:
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    try:
        server = socket.create_server((bound, 0), family=family)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        port = server.getsockname()[1]
        assert (inode(server) in tcp_sockets.list_socket_inodes_at_port(FS, asked, port)) is found
        assert inode(server) not in tcp_sockets.list_socket_inodes_at_port(FS, asked, port - 1)


def test_the_sockets_of_a_unit_are_those_of_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    processes = {UNIT: [os.getpid(), 2**22 + 1], "other.service": [other.pid]}

    def list_processes(fs: KernelFS, unit: str) -> list[int]:
        if unit not in processes:
            raise BadRequest("it does not run")
        return processes[unit]

    monkeypatch.setattr(tcp_sockets, "list_processes", list_processes)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert inode(server) in tcp_sockets.list_socket_inodes_of_units(FS, ["stopped.service", UNIT])
        assert inode(server) not in tcp_sockets.list_socket_inodes_of_units(FS, ["other.service"])
    other.communicate()
