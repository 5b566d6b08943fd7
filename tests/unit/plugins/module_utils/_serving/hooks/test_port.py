# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for a port that ended connections of another server block: with sockets of this machine."""

from __future__ import annotations

import socket
import threading

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import port as hook

ADDRESS, PORT = socket.SO_REUSEADDR, socket.SO_REUSEPORT


def leave_ended_connection(*options: int) -> int:
    """Return a port of the loopback at which a server with these socket options has just ended a connection."""
    with socket.socket() as server:
        for option in options:
            server.setsockopt(socket.SOL_SOCKET, option, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port: int = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
    return port


@pytest.mark.parametrize(
    ("before", "reuse", "is_free"),
    [
        ([ADDRESS], "address", True),
        ([ADDRESS], "port", False),
        ([PORT], "port", True),
        ([PORT], "address", False),
        ([ADDRESS, PORT], "address", True),
        ([ADDRESS, PORT], "port", True),
    ],
)
def test_who_can_follow_whom(before: list[int], reuse: str, is_free: bool) -> None:
    lines: list[str] = []
    port = leave_ended_connection(*before)
    if is_free:
        assert "is free after" in hook.wait_for_free_port(f"127.0.0.1:{port}", reuse, 0, lines.append)
    else:
        with pytest.raises(TuningError, match=rf"127\.0\.0\.1:{port} is still taken after 0\.1 s\. 'ss -tanp'"):
            hook.wait_for_free_port(f"127.0.0.1:{port}", reuse, 0.1, lines.append)
    assert [line.partition(":")[0] for line in lines] == ([] if is_free else ["127.0.0.1"])


def test_it_goes_on_as_soon_as_the_port_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    endpoint = f"127.0.0.1:{server.getsockname()[1]}"
    timer = threading.Timer(0.3, server.close)
    timer.start()
    assert _cli.main(["llama", "port", endpoint, "--reuse", "address", "--timeout", "60"]) == 0
    timer.join()
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{endpoint} cannot be taken yet") and last.startswith(f"{endpoint} is free after")


def test_an_address_of_another_host_is_left_to_the_server() -> None:
    assert "is free" in hook.wait_for_free_port("192.0.2.1:8080", "address", 0, print)


@pytest.mark.parametrize(
    ("endpoint", "reuse"), [("8080", "port"), ("127.0.0.1:x", "port"), (":8080", "port"), ("127.0.0.1:8080", "both")]
)
def test_what_cannot_be(endpoint: str, reuse: str) -> None:
    with pytest.raises(BadRequest, match=r"no address with a port|--reuse: 'both' is unknown"):
        hook.wait_for_free_port(endpoint, reuse, 0, print)
