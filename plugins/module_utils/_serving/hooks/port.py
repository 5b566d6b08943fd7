# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waits until a server can bind its port, which ended connections of another server may block for a minute.

Linux keeps an ended connection for 60 seconds in TIME_WAIT, and a new socket may only have the same port if both
sockets have SO_REUSEADDR, or both have SO_REUSEPORT. The server of ik_llama.cpp sets SO_REUSEPORT. The server of
llama.cpp sets SO_REUSEADDR, and with --reuse-port both. So a server of the one project cannot follow a server of the
other at once, unless the one of llama.cpp has --reuse-port.

Source: tools/server/server-http.cpp of llama.cpp; default_socket_options() in vendor/cpp-httplib/httplib.cpp of
ik_llama.cpp; inet_bind_conflict() in net/ipv4/inet_connection_sock.c of the Linux kernel.
"""

from __future__ import annotations

import errno
import socket
import time

from ..._errors import BadRequest, TuningError
from ..._notation.numbers import parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The socket option by its name on the command line.
REUSE_OPTIONS = {"address": socket.SO_REUSEADDR, "port": socket.SO_REUSEPORT}
PAUSE_SECONDS = 0.2


def wait_for_free_port(
    endpoint: str, reuse: str, timeout: float, report: Callable[[str], None], clock: Any = time
) -> str:
    """Wait until a socket with this reuse option can be bound, as ADDRESS:PORT; return a sentence with the time.

    ``report`` gets a line when there is something to wait for. TuningError after the timeout.
    """
    address, port = _parse_endpoint(endpoint)
    if reuse not in REUSE_OPTIONS:
        raise BadRequest(f"--reuse: '{reuse}' is unknown; use {' or '.join(REUSE_OPTIONS)}.")
    started_at = clock.monotonic()
    is_reported = False
    while not _can_bind(address, port, REUSE_OPTIONS[reuse]):
        seconds = clock.monotonic() - started_at
        if seconds >= timeout:
            raise TuningError(
                f"{endpoint} is still taken after {timeout:g} s. 'ss -tanp' shows by which program or connections."
            )
        if not is_reported:
            report(
                f"{endpoint} cannot be taken yet: another server has it, or its connections ended less than a minute "
                f"ago. The start waits for at most {timeout:g} s."
            )
            is_reported = True
        clock.sleep(PAUSE_SECONDS)
    return f"{endpoint} is free after {clock.monotonic() - started_at:.1f} s."


def _parse_endpoint(endpoint: str) -> tuple[str, int]:
    address, dummy, text = endpoint.rpartition(":")
    port = parse_whole_number(text)
    if not address or port is None:
        raise BadRequest(f"'{endpoint}' is no address with a port; write it like 127.0.0.1:8080 or [::1]:8080.")
    return address.strip("[]"), port


def _can_bind(address: str, port: int, option: int) -> bool:
    """Return whether a port can be bound; True also for an address that cannot, because the server says why."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
