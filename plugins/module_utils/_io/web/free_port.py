# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds a port for a server that runs for a short time."""

from __future__ import annotations


def find_free_port() -> int:
    """Return a port of the loopback at which nobody listens now."""
    # Imported here because most runs of the library start no server.
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
