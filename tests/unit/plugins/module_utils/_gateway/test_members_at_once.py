# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that two controllers take out of service at one gateway at the same time, and such runs that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import gateway_lock
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.haproxy import Haproxy
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.member import GatewayMember
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.server_state_file import parse_lines_by_server
from ansible_collections.sovereign.epyc.tests.unit.fakes.haproxies import FakeHaproxy, FakeServer
from ansible_collections.sovereign.epyc.tests.unit.fakes.killed_runs import killed_runs, standing_run

# The threads of pytest's workers hold nothing that the child needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

#: Each command to HAProxy is a step before which a run may end or stand still.
COMMANDS = [(Haproxy, "set_administrative_state")]
SERVERS = {"chat/h1:a", "chat/h2:a", "chat/h3:a", "code/h1:b", "code/h2:b"}


class Gateway:
    """A HAProxy at real sockets with three hosts, and the file of its servers that are out of service."""

    def __init__(self, folder: Path) -> None:
        self.haproxy = FakeHaproxy(folder, {name: FakeServer() for name in sorted(SERVERS)})
        self.file = folder / "servers.state"

    def move(self, host: str, state: str) -> None:
        member = GatewayMember(Haproxy(self.haproxy.socket, self.haproxy.master), str(self.file), host)
        member.move_servers_to_state_and_report(state, 0, False, False)

    def out_of_service(self) -> set[str]:
        """Return the servers that get no requests; they have to be those in the file, which the next reload follows."""
        names = {name for name, server in self.haproxy.servers.items() if server.admin}
        text = self.file.read_text() if self.file.exists() else ""
        assert set(parse_lines_by_server(text)) == names
        return names


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(gateway_lock, "LOCK", str(tmp_path / "run/gateway.lock"))
    monkeypatch.setattr(gateway_lock, "TIMEOUT", 0.0)
    made = Gateway(tmp_path)
    yield made
    made.haproxy.close()


@pytest.mark.parametrize(("before", "run"), [("ready", "maint"), ("maint", "ready")])
@pytest.mark.parametrize(("then", "out"), [("ready", set()), ("maint", {"chat/h1:a", "code/h1:b"})])
def test_what_a_killed_run_has_left_is_put_right_by_the_next(
    gateway: Gateway, before: str, run: str, then: str, out: set[str]
) -> None:
    turns = 0
    for dummy in killed_runs(lambda: gateway.move("h1", before), lambda: gateway.move("h1", run), COMMANDS):
        turns += 1
        gateway.move("h1", then)
        assert gateway.out_of_service() == out
    assert turns > 5


@pytest.mark.parametrize(("host", "state", "out"), [("h3", "maint", {"chat/h3:a"}), ("h3", "ready", set())])
def test_two_hosts_at_once_are_both_in_the_file(gateway: Gateway, host: str, state: str, out: set[str]) -> None:
    refused = 0
    for turn in count(1):
        gateway.move("h1", "ready")
        gateway.move(host, "ready" if state == "maint" else "maint")
        done = True
        with standing_run(turn, lambda: gateway.move("h1", "maint"), COMMANDS) as stands:
            try:
                gateway.move(host, state)
            except TuningError as error:
                assert "Another program has held the lock" in str(error)
                refused, done = refused + 1, False
        assert gateway.out_of_service() == {"chat/h1:a", "code/h1:b"} | (out if done else {"chat/h3:a"} - out)
        if not stands:
            break
    assert refused > 5


def test_two_runs_at_once_do_not_take_out_all_hosts_of_a_model(gateway: Gateway) -> None:
    def move_or_be_refused(host: str) -> None:
        with suppress(TuningError):
            gateway.move(host, "maint")

    seen = set()
    for turn in count(1):
        for host in ("h1", "h2"):
            gateway.move(host, "ready")
        with standing_run(turn, lambda: move_or_be_refused("h1"), COMMANDS) as stands:
            move_or_be_refused("h2")
        out = gateway.out_of_service()
        assert out in ({"chat/h1:a", "code/h1:b"}, {"chat/h2:a", "code/h2:b"}), turn
        seen |= out
        if not stands:
            break
    assert len(seen) == 4, "each of the two was the first in some of the turns"
