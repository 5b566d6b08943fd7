# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for workers, which are sockets on the loopback here; no address of it is one that a user may name."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import ip_addresses
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import rpc_workers


class Clock:
    """Time that passes in pauses only; a worker may come with one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.comes: socket.socket | None = None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.comes and self.now > 3:
            self.comes.listen()


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ip_addresses, "PRIVATE_NETWORKS", ("127.0.0.0/8",))


@pytest.fixture
def two() -> Iterator[list[socket.socket]]:
    """One that listens, and one that only has its port."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.socket() as second:
        second.bind(("127.0.0.1", 0))
        yield [first, second]


def said(*those: socket.socket) -> str:
    return ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in those)


def test_one_that_comes_late_is_waited_for(two: list[socket.socket]) -> None:
    clock = Clock()
    clock.comes = two[1]
    assert rpc_workers.wait_for_workers(said(*two), 60, clock) == f"All of {said(*two)} answer after 3.5 s."


def test_one_that_does_not_come_is_named(two: list[socket.socket]) -> None:
    with pytest.raises(TuningError) as caught:
        rpc_workers.wait_for_workers(said(*two), 5, Clock())
    assert str(caught.value).startswith(f"The RPC worker {said(two[1])} does not answer after 5 s: Connection refused.")
    assert "systemctl status ggml-rpc-worker" in str(caught.value)


def test_the_command(two: list[socket.socket], capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(("llama", "reach", said(two[0]), "--timeout", "1")) == 0
    assert "answer after 0.0 s." in capsys.readouterr().out
    assert _cli.main(("llama", "reach", said(two[1]), "--timeout", "0")) == 1
    assert "does not answer after 0 s" in capsys.readouterr().err


def test_another_address_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"10\.0\.0\.1 is not an address of a private network"):
        rpc_workers.wait_for_workers("10.0.0.1:50052", 1)
