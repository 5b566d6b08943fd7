# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to programs at Unix sockets of this host: a command in one line, and an answer until the connection ends."""

from __future__ import annotations

import os
import socket

from .._errors import Absent, TuningError

#: The time for an answer, in seconds.
LIMIT = 10.0


def query_socket(path: str, command: str) -> str:
    """Send a command to the program at a socket, and return its answer; Absent where no program listens there."""
    parts = []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(LIMIT)
            connection.connect(path)
            connection.sendall(command.encode() + b"\n")
            # Otherwise the master process of HAProxy would wait for more commands.
            connection.shutdown(socket.SHUT_WR)
            part = connection.recv(1 << 16)
            while part:
                parts.append(part)
                part = connection.recv(1 << 16)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise Absent(f"Nobody answers at {path}: {os.strerror(error.errno or 0)}.") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise TuningError(f"{path} does not answer to '{command}': {reason}.") from None
    return b"".join(parts).decode("utf-8", "replace")
