# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units of the agent without a systemd: what they say, what is asked of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _agent
from ansible_collections.sovereign.epyc.plugins.module_utils._agent import SERVICE, SOCKET
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import Outcome, converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import agent_units
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.agent_units import STARTED_BY, AgentUnits
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.host_tools import files
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd

ASKED = {"bind": "10.0.0.11:8407", "allow": ["10.0.0.2", "10.0.1.0/24"], "untuned": "50%", "unknown": "100%"}


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    fake = Systemd(tmp_path, STARTED_BY)
    monkeypatch.setattr(managed_units.command, "run_command", fake.run)
    return fake


def run(systemd: Systemd, asked: dict[str, Any] | None, check: bool = False, cpus: str = "0-3") -> Outcome:
    root = str(systemd.root)
    ledger = Ledger(Store(root, read_only=check), KernelFS(root, read_only=check))
    return converge_knobs([AgentUnits(asked, "/x.prom", 900.0, cpus, root)], ledger, check)


def test_it_listens_and_a_second_run_asks_once(systemd: Systemd) -> None:
    run(systemd, ASKED)
    assert systemd.asked() == [f"show {SOCKET}", f"enable {SOCKET}", f"restart {SOCKET}", f"show {SOCKET}"]
    lines = systemd.file(SOCKET).read_text().splitlines()
    assert {"ListenStream=10.0.0.11:8407", "IPAddressDeny=any", "IPAddressAllow=10.0.0.2/32 10.0.1.0/24"} <= {*lines}
    text = systemd.file(SERVICE).read_text()
    assert "\nCPUAffinity=0-3\n" in text and "\nCapabilityBoundingSet=\n" in text
    wants = json.loads(text.partition(_agent.SECTION)[2])
    assert wants == {
        "allow": ["10.0.0.2/32", "10.0.1.0/24"],
        "oldest": 3000.0,
        "textfile": "/x.prom",
        "unknown": "100%",
        "untuned": "50%",
    }
    assert wants.keys() == _agent.DEFAULTS.keys()
    assert run(systemd, ASKED).changes == []
    assert systemd.asked() == [f"show {SOCKET}"]


def test_a_shutdown_stops_instances_first(systemd: Systemd) -> None:
    """With the dependencies that systemd adds to most units, it would end the agent at the beginning of a shutdown."""
    run(systemd, ASKED)
    assert all("DefaultDependencies=no\n" in systemd.file(name).read_text() for name in (SOCKET, SERVICE))


def test_what_is_changed_restarts_the_unit_that_has_it(systemd: Systemd) -> None:
    run(systemd, ASKED)
    systemd.active[SERVICE] = "active"
    for asked, again in (({**ASKED, "untuned": "out"}, SERVICE), ({**ASKED, "bind": "10.0.0.12:8407"}, SOCKET)):
        systemd.asked()
        run(systemd, asked)
        assert f"try-restart {again}" in systemd.asked()


def test_nothing_is_left_of_it(systemd: Systemd) -> None:
    before = files(systemd)
    assert run(systemd, None).changes == []
    run(systemd, ASKED)
    systemd.active[SERVICE] = "active"
    there = files(systemd)
    systemd.asked()
    checked = run(systemd, None, check=True)
    assert files(systemd) == there
    assert run(systemd, None).to_diff() == checked.to_diff()
    assert files(systemd) == before and "active" not in systemd.active.values()
    assert f"stop {SOCKET} {SERVICE}" in systemd.asked()
    assert run(systemd, None).changes == []
    assert systemd.asked() == []


def test_a_socket_that_was_stopped_is_found_and_started(systemd: Systemd) -> None:
    run(systemd, ASKED)
    systemd.run(["systemctl", "stop", SOCKET])
    assert run(systemd, ASKED).to_diff()["before"] == {f"host_tool:{SOCKET}/active": "inactive"}
    assert systemd.active[SOCKET] == "active"


@pytest.mark.parametrize(
    ("bind", "listens"),
    [("*:8407", "8407"), ("0.0.0.0:8407", "8407"), ("[::]:8407", "8407"), ("[fd00::1]:84", "[fd00::1]:84")],
)
def test_where_it_listens(systemd: Systemd, bind: str, listens: str) -> None:
    run(systemd, {**ASKED, "bind": bind})
    assert f"\nListenStream={listens}\n" in systemd.file(SOCKET).read_text()


def test_on_the_loopback_it_needs_no_list(systemd: Systemd) -> None:
    run(systemd, {**ASKED, "bind": "127.0.0.1:8407", "allow": []})
    assert "IPAddressAllow=127.0.0.0/8 ::1/128\n" in systemd.file(SOCKET).read_text()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"bind": "8407"}, "agent_bind is '8407': say an address and a port"),
        ({"bind": "host:8407"}, "agent_bind is 'host:8407': say an address and a port"),
        ({"bind": "10.0.0.300:8407"}, "say an address and a port"),
        ({"bind": "10.0.0.1:70000"}, "say an address and a port"),
        ({"bind": "10.0.0.1:1\nExecStart=x"}, "say an address and a port"),
        ({"allow": []}, "where every host could connect: name the gateways in agent_allow"),
        ({"bind": "*:8407", "allow": []}, "where every host could connect"),
        ({"allow": ["gateway-01"]}, "agent_allow has 'gateway-01': say addresses or networks"),
        ({"untuned": "half"}, "agent_untuned is 'half': say a share from 0% to 100%, or out"),
        ({"unknown": "101%"}, "agent_unknown is '101%': say a share"),
    ],
)
def test_what_is_refused_before_anything_is_written(systemd: Systemd, changed: dict[str, Any], said: str) -> None:
    before = files(systemd)
    with pytest.raises(BadRequest) as error:
        run(systemd, {**ASKED, **changed})
    assert said in str(error.value)
    assert files(systemd) == before


def test_a_share_may_be_a_number(systemd: Systemd) -> None:
    run(systemd, {**ASKED, "untuned": 25})
    assert '"untuned": "25%"' in systemd.file(SERVICE).read_text()


def test_it_runs_on_the_cpus_for_the_system(tmp_path: Path) -> None:
    """By the intent that is given, or else by the stored one; without a plan, on any."""
    tree = hosts.small(tmp_path)
    store = Store(str(tmp_path))
    intent = {"housekeeping": {"cores": 1, "per": "node"}}
    given = agent_units.format_planned_housekeeping_cpus(Host(tree.fs, intent), store, intent)
    assert given
    store.save_document("desired.json", {"intent": intent, "requests": {}})
    assert agent_units.format_planned_housekeeping_cpus(Host(tree.fs), store, None) == given
    store.save_document("desired.json", {"intent": {"housekeeping": {"cores": 99, "per": "node"}}, "requests": {}})
    assert agent_units.format_planned_housekeeping_cpus(Host(tree.fs), store, None) == ""
