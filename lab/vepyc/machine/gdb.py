# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client for the few commands of the gdb remote protocol that patching the kernel needs."""

from __future__ import annotations

import socket

from ..errors import VepycError

_CHUNK = 1024
_RIP = 16  # number of the instruction pointer in gdb's x86-64 register file


class Gdb:
    """A client of QEMU's gdb stub. Connecting stops the guest, `detach` lets it run."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = b""
        self._run_command("?")
        # QEMU accepts a write to a single register only after the client has read its description of the registers.
        self._run_command("qXfer:features:read:target.xml:0,10")

    def run_until(self, address: int) -> None:
        """Let the guest run until it executes this address for the first time."""
        self._expect_ok(f"Z1,{address:x},1")
        stop = self._run_command("c")
        if not stop.startswith(("T05", "S05")):
            raise VepycError(f"the guest stopped with {stop!r} instead of reaching its breakpoint")
        self._expect_ok(f"z1,{address:x},1")

    def write_memory(self, address: int, data: bytes) -> None:
        """Write guest memory, read-only or not."""
        for start in range(0, len(data), _CHUNK):
            chunk = data[start : start + _CHUNK]
            self._expect_ok(f"M{address + start:x},{len(chunk):x}:{chunk.hex()}")

    def set_instruction_pointer(self, address: int) -> None:
        """Set the address at which the guest continues."""
        self._expect_ok(f"P{_RIP:x}={address.to_bytes(8, 'little').hex()}")

    def detach(self) -> None:
        """Let the guest run on and close the connection."""
        self._expect_ok("D")
        self._socket.close()

    def _expect_ok(self, command: str) -> None:
        answer = self._run_command(command)
        if answer != "OK":
            raise VepycError(f"QEMU's gdb stub answered {answer!r} to {command[:40]!r}")

    def _run_command(self, command: str) -> str:
        payload = command.encode()
        self._socket.sendall(b"$" + payload + b"#%02x" % (sum(payload) & 255))
        while True:
            start = self._buffer.find(b"$")
            end = self._buffer.find(b"#", start)
            if start >= 0 and 0 <= end <= len(self._buffer) - 3:
                break
            received = self._socket.recv(65536)
            if not received:
                raise VepycError("QEMU closed its gdb socket; see the supervisor's log")
            self._buffer += received
        answer = self._buffer[start + 1 : end].decode()
        self._buffer = self._buffer[end + 3 :]
        self._socket.sendall(b"+")
        return answer
