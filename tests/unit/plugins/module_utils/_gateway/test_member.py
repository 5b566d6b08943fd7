# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host taken out of service at a HAProxy that answers at real sockets, and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, BadRequest, NotApplied, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import gateway_lock, server_state_file
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.haproxy import Haproxy
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.member import PAUSE, GatewayMember
from ansible_collections.sovereign.epyc.plugins.modules import gateway_member
from ansible_collections.sovereign.epyc.tests.unit.fakes.haproxies import FakeHaproxy, FakeServer

LINE = "4 model_chat 1 h1:a 10.9.0.1 2 1 100 100 0 0 0 0 0 0 0 0 - 8081 -"


class Clock:
    """A clock whose pauses take no time; ``later`` is called in each."""

    def __init__(self, later: Callable[[], None] = lambda: None) -> None:
        self.now = 0.0
        self.later = later

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.later()


class Gateway:
    """The fake, and the file of those who stay out of service."""

    def __init__(self, folder: Path) -> None:
        self.haproxy = FakeHaproxy(
            folder,
            {
                "model_chat/h1:a": FakeServer(),
                "model_chat/h2:a": FakeServer(),
                "model_code/h1:b": FakeServer(),
                "model_code/h10:b": FakeServer(),
            },
        )
        self.file = folder / "servers.state"

    def bring(self, state: str | None, host: str = "h1", seconds: float = 10, **more: Any) -> dict[str, Any]:
        clock = more.pop("clock", Clock())
        member = GatewayMember(Haproxy(self.haproxy.socket, self.haproxy.master), str(self.file), host, clock)
        return member.move_servers_to_state_and_report(
            state, seconds, more.get("last", False), more.get("check", False)
        )

    @property
    def states(self) -> list[int]:
        return [one.admin for one in self.haproxy.servers.values()]


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(gateway_lock, "LOCK", str(tmp_path / "run/gateway.lock"))
    made = Gateway(tmp_path)
    yield made
    made.haproxy.close()


def test_all_servers_of_the_host_go_and_come_back(gateway: Gateway) -> None:
    """A host whose name begins in the same way is another one. The worker from before a reload is told, too."""
    gone = gateway.bring("maint")
    assert gone["changed"] and gone["out"] and gateway.states == [1, 0, 1, 0]
    assert gone["diff"]["before"] == {"model_chat/h1:a": "ready", "model_code/h1:b": "ready"}
    assert gateway.haproxy.said[:2] == ["model_chat/h1:a maint", "old model_chat/h1:a maint"]
    assert gateway.file.read_text().splitlines()[2:] == [
        LINE,
        LINE.replace("chat 1 h1:a 10.9.0.1", "code 3 h1:b 10.9.0.3"),
    ]
    again = gateway.bring("maint")
    assert not again["changed"] and again["out"]
    back = gateway.bring("ready")
    assert back["changed"] and not back["out"] and gateway.states == [0, 0, 0, 0]
    assert gateway.file.read_text() == server_state_file.HEAD
    assert not gateway.bring("ready")["changed"]


def test_who_is_out_of_service_otherwise_stays_in_the_file(gateway: Gateway) -> None:
    gateway.bring("drain", "h10")
    gateway.bring("maint", last=True)
    gateway.bring("ready")
    assert [line.split()[3:7:3] for line in gateway.file.read_text().splitlines()[2:]] == [["h10:b", "8"]]
    assert gateway.states == [0, 0, 0, 8]


@pytest.mark.parametrize("state", ["maint", "ready", None])
def test_a_check_and_a_look_write_nothing(gateway: Gateway, state: str | None) -> None:
    gateway.haproxy.servers["model_chat/h1:a"].working = 3
    told = gateway.bring(state, check=True)
    assert told["changed"] is (state == "maint")
    assert told["in_work"] == {"before": 3, "after": 3}
    assert gateway.haproxy.said == [] and not gateway.file.exists()


def test_it_waits_for_what_is_in_work_also_before_a_reload(gateway: Gateway) -> None:
    one = gateway.haproxy.servers["model_chat/h1:a"]
    one.working, one.waiting, one.old = 1, 1, 1
    steps = iter(("working", "waiting", "old"))
    clock = Clock(lambda: setattr(one, next(steps, "up"), 0))
    told = gateway.bring("maint", clock=clock)
    assert told["in_work"] == {"before": 3, "after": 0}
    assert clock.now == 5 * PAUSE, "three times some, and twice none"


def test_work_that_does_not_end_has_it_put_back(gateway: Gateway) -> None:
    gateway.haproxy.servers["model_code/h1:b"].working = 1
    with pytest.raises(TuningError, match=r"still works on 1 request after 10 seconds") as error:
        gateway.bring("maint")
    assert str(error.value).endswith("It was put back into service.") and error.value.details == {"in_work": 1}
    assert gateway.states == [0, 0, 0, 0] and gateway.file.read_text() == server_state_file.HEAD
    assert gateway.bring("maint", seconds=0)["in_work"] == {"before": 1, "after": 1}
    with pytest.raises(TuningError, match=r"It was out of service before, and stays so"):
        gateway.bring("maint")
    assert gateway.states == [1, 0, 1, 0]


def test_the_last_host_of_a_model_is_refused(gateway: Gateway) -> None:
    """One that is down serves nobody, and of a model that nobody serves nothing is lost."""
    gateway.haproxy.servers["model_code/h10:b"].up = False
    with pytest.raises(BadRequest, match=r"No host but h1 serves model_code now.*epyc_gateway_drain_last"):
        gateway.bring("maint")
    assert gateway.haproxy.said == [] and not gateway.file.exists()
    assert gateway.bring("maint", "h10")["changed"]
    assert gateway.bring("maint", last=True)["changed"]


def test_an_agent_that_says_ready_is_found_out(gateway: Gateway) -> None:
    gateway.haproxy.agent_undoes = True
    with pytest.raises(NotApplied, match=r"is ready: something else sets it, too. An agent"):
        gateway.bring("maint")
    assert gateway.file.read_text() == server_state_file.HEAD
    gateway.haproxy.agent_undoes = False
    chat = gateway.haproxy.servers["model_chat/h1:a"]
    with pytest.raises(NotApplied, match=r"is ready"):
        gateway.bring("maint", clock=Clock(lambda: setattr(chat, "admin", 0)))
    assert gateway.states == [0, 0, 0, 0]


def test_who_is_disabled_in_the_configuration_stays_so(gateway: Gateway) -> None:
    gateway.haproxy.servers["model_chat/h1:a"].admin = 5
    assert gateway.bring("maint")["diff"]["before"] == {"model_code/h1:b": "ready"}
    back = gateway.bring("ready")
    assert gateway.states == [5, 0, 0, 0]
    assert ["epyc_gateway_drained" in one for one in back["remarks"]] == [True]


def test_what_cannot_be_is_said(gateway: Gateway, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"no server of h3, but of h1, h10, h2: run gateway.yml"):
        gateway.bring("maint", "h3")
    gateway.haproxy.instead = {"set server": "Permission denied\n"}
    with pytest.raises(
        TuningError, match=r"HAProxy refuses 'set server model_chat/h1:a state maint'. It says: Permission"
    ):
        gateway.bring("maint")
    gateway.haproxy.instead = {"show servers": "Unknown command\n"}
    with pytest.raises(TuningError, match=r"shows no servers at .*. It says: Unknown command"):
        gateway.bring("maint")
    with pytest.raises(Absent, match=r"Nobody answers at .*: No such file or directory. Is HAProxy running"):
        Haproxy(str(tmp_path / "none"), "").list_servers()


def test_a_gateway_without_a_master_has_no_workers_from_before(gateway: Gateway, tmp_path: Path) -> None:
    haproxy = Haproxy(gateway.haproxy.socket, str(tmp_path / "none"))
    gateway.haproxy.servers["model_chat/h1:a"].old = 7
    assert haproxy.count_active_and_queued_requests(["model_chat/h1:a"]) == 0


def test_the_module_hands_its_options_on(gateway: Gateway, tmp_path: Path) -> None:
    options = {
        "socket": gateway.haproxy.socket,
        "master_socket": gateway.haproxy.master,
        "state_file": str(gateway.file),
    }
    asked = {**options, "host": "h2", "state": "maint", "timeout": 0, "allow_last": False}
    assert gateway_member.set_member_state(asked, None, True)["changed"]  # type: ignore[arg-type]
    assert gateway.states == [0, 0, 0, 0]


def test_the_file_follows_a_new_configuration() -> None:
    other = LINE.replace("h1:a", "h2:a")
    text = f"{server_state_file.HEAD}{LINE}\n{other}\nno line at all\n"
    moved = server_state_file.update_addresses_in_state_file(text, {"model_chat/h1:a": "[fd00::1]:9000"})
    assert moved == server_state_file.HEAD + LINE.replace("10.9.0.1", "fd00::1").replace("8081", "9000") + "\n"
