# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unix sockets with paths of any length, and one JSON object per line over them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from ..errors import VepycError


def connect_unix_socket(path: Path) -> socket.socket:
    """Connect to a Unix socket. The kernel limits the path to 107 bytes, so it is taken relative to its directory."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    return connection


def wait_for_server(path: Path, server: subprocess.Popen[bytes], seconds: float) -> socket.socket:
    """Connect as soon as that process listens; its socket exists a moment before that and refuses connections."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return connect_unix_socket(path)
        except (FileNotFoundError, ConnectionRefusedError):
            if server.poll() is not None:
                raise VepycError(
                    f"the program behind {path.name} ended with {server.returncode} instead of listening"
                ) from None
            if time.monotonic() > deadline:
                raise VepycError(f"the program behind {path.name} did not listen in {seconds:g} seconds") from None
        time.sleep(0.02)


class JsonLines:
    """A connection that carries a JSON object per line in each direction."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = b""

    def send_message(self, message: dict[str, Any]) -> None:
        """Send one object."""
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive_message(self) -> dict[str, Any]:
        """Wait for one object."""
        while b"\n" not in self._buffer:
            try:
                received = self.connection.recv(65536)
            except ConnectionResetError:  # closed by the other side with data that it had not read
                received = b""
            if not received:
                raise VepycError("the other side closed the connection before it answered; see the supervisor's log")
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\n", 1)
        message = json.loads(line)
        assert isinstance(message, dict)
        return message
