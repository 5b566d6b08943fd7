# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent of a host, at a socket of a real systemd, and the real HAProxy that asks it.

The first server is an instance of the container, with its drain; the agent of the second one never answers.
"""

from __future__ import annotations

import csv
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vepyc.playbook_runs import PlaybookRun, run_playbook, write_inventory

from ..fixtures.gateways import (
    MEMBERS,
    PROGRAMS,
    VARIABLES,
    Gateway,
    build_request,
    build_turns,
    generate_load,
    run_gateway_container,
)

pytestmark = pytest.mark.slow

AGENT = "10.9.0.1:8407"
FILE = "/var/lib/node-exporter/epyc.prom"
PLAYBOOK = """
- hosts: epyc_gateway
  gather_facts: false
  roles:
    - role: sovereign.epyc.epyc_base
    - role: sovereign.epyc.epyc_gateway
      when: with_gateway
"""
UNIT = f"""# Written by the collection sovereign.epyc: do not change it here.
[Service]
ExecStart=/usr/bin/python3 {PROGRAMS}/llama_stub.py first 10.9.0.1 8081 of-the-servers
ExecStop=/usr/sbin/sovereign-epyc llama drain http://10.9.0.1:8081 --timeout 60
TimeoutStopSec=70
"""
CHECKED = "sovereign_epyc_check_success 1\n"
DRIFTED = (
    f'{CHECKED}sovereign_epyc_drift{{layer="sysfs",what="NUMA balancing",where="",status="drift",live="drift",'
    'persistent="ok",role="numa",pending_reboot="false"} 1\n'
)
#: Sends a line to a socket, and prints what comes.
SEND = """
import socket, sys
kind, place, source, text = sys.argv[1:]
if kind == "unix":
    to = socket.socket(socket.AF_UNIX)
    to.connect(place)
else:
    host, port = place.split(":")
    to = socket.create_connection((host, int(port)), 2, (source, 0))
to.sendall(text.encode() + b"\\n")
while data := to.recv(65536):
    sys.stdout.write(data.decode())
"""


class Host(Gateway):
    """The container, as the gateway and as the first host that it asks."""

    def converge(self, *arguments: str, bind: str = AGENT, gateway: bool = True) -> PlaybookRun:
        """Have the agent on the container, and the gateway know of it."""
        base = {"epyc_base_textfile": FILE, "epyc_base_agent_bind": bind, "epyc_base_agent_allow": ["10.9.0.1"]}
        hosts = {
            self.box.name: {**self.box.inventory_variables(), **base},
            "h1": {**MEMBERS["h1"], "epyc_base_agent_bind": AGENT},
            "h2": {**MEMBERS["h2"], "epyc_base_agent_bind": "*:8407"},
        }
        write_inventory(self.folder, hosts, epyc_gateway={self.box.name: {}})
        asked = {**VARIABLES, "epyc_gateway_agent_interval": "500ms", "with_gateway": gateway}
        (self.folder / "asked.json").write_text(json.dumps(asked))
        (self.folder / "play.yml").write_text(PLAYBOOK)
        variables = ("--extra-vars", f"@{self.folder}/asked.json")
        return run_playbook(self.folder, self.folder / "play.yml", *variables, *arguments)

    def send(self, kind: str, place: str, text: str, source: str = "") -> str:
        self.box.run("test -e /run/send.py || cat >/run/send.py", input=SEND)
        return self.run(f"python3 /run/send.py {kind} {place} '{source}' '{text}'", check=False)

    def haproxy(self, server: str = "h1:a") -> dict[str, str]:
        """Return what HAProxy knows of a server."""
        text = self.send("unix", "/run/haproxy/admin.sock", "show stat").lstrip("# ")
        return next(row for row in csv.DictReader(text.splitlines()) if row["svname"] == server)

    def until(self, good: Callable[[], bool], seconds: float = 20) -> float:
        """Wait until something holds, and return after how many seconds it did."""
        begun = time.monotonic()
        while not good():
            assert time.monotonic() - begun < seconds, self.haproxy()
            time.sleep(0.1)
        return time.monotonic() - begun

    def settled(self, server: str = "h1:a") -> dict[str, str]:
        """Return what HAProxy knows of a server once its checks agree: one that is late on a busy machine is UP 1/2."""
        known: dict[str, str] = {}

        def agree() -> bool:
            known.update(self.haproxy(server))
            return "/" not in known["status"]

        self.until(agree)
        return known

    def until_up(self) -> float:
        return self.until(lambda: self.haproxy()["status"] == "UP")

    def until_down(self) -> float:
        return self.until(lambda: self.haproxy()["status"] == "DOWN (agent)")

    def units(self) -> str:
        """Return the units of the agent, and who listens."""
        listens = "ss -Hltn 'sport = 8407' | tr -s ' ' | cut -d' ' -f4"
        return self.run(f"cd /etc/systemd/system && ls *agent* */*agent* 2>/dev/null; {listens}", check=False)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with run_gateway_container("gateway-agent", servers=("second", "code")) as box:
        box.run("cat >/etc/systemd/system/llama-a.service", input=UNIT)
        one = Host(box, tmp_path_factory.mktemp("gateway-agent"))
        played = one.converge()
        assert played.returncode == 0, played.output
        # From here on the tests say what it has found.
        one.run(f"systemctl stop sovereign-epyc-check.timer sovereign-epyc-check.service; rm -f {FILE}")
        one.run(f"mkdir -p {Path(FILE).parent}; systemctl start llama-a")
        one.until_up()
        yield one


def test_what_it_says_and_to_whom(host: Host) -> None:
    """The process has no rights and no network of its own; whoever is no gateway gets no answer."""
    assert host.send("tcp", AGENT, "a", "10.9.0.1") == "up 100% # it has not checked itself yet\n"
    assert host.send("tcp", AGENT, "none", "10.9.0.1") == "stopped # llama-none.service is inactive\n"
    assert [host.send("tcp", AGENT, text, "10.9.0.1") for text in ("", "--version", "a.b", "*")] == [""] * 4
    assert host.send("tcp", AGENT, "a", "127.0.0.1") == ""
    assert host.run("sovereign-epyc agent") == "a: up 100% # it has not checked itself yet\n"
    status = host.run("cat /proc/$(systemctl show -P MainPID sovereign-epyc-agent)/status")
    assert "CapBnd:\t0000000000000000" in status


def test_the_agent_that_is_silent_changes_nothing(host: Host) -> None:
    second = host.settled("h2:a")
    assert (second["status"], second["agent_status"].lstrip("* "), second["weight"]) == ("UP", "L4CON", "100")
    host.run("systemctl stop stub-second")
    host.until(lambda: host.haproxy("h2:a")["status"] == "DOWN")
    host.start_server("second")
    host.until(lambda: host.haproxy("h2:a")["status"] == "UP")


def test_a_stop_under_load_loses_nothing(host: Host) -> None:
    """The stop waits for what is in work, the next turns of its conversations go elsewhere, and it comes back."""
    talk = next(talk for talk in map(build_turns, "abcdef") if host.fetch_servers(talk[0]) == ["first"])
    body = {**json.loads(talk[1]["text"]), "seconds": 5, "prompt": "long"}
    begun: list[dict[str, Any]] = []
    works = threading.Thread(target=lambda: begun.extend(host.send_requests(build_request(body))))
    with generate_load(host) as answers:
        works.start()
        host.until(lambda: "long" in host.fetch_counts("first")["asked"])
        since = time.monotonic()
        stops = threading.Thread(target=host.run, args=("systemctl stop llama-a",))
        stops.start()
        told = host.until_down()
        # Nothing stands there while the next question is under way.
        host.until(lambda: "stopped (llama-a.service is " in host.haproxy()["last_agt"])
        moved = host.fetch_servers(talk[2])
        assert not begun, "the turn before is still in work"
        stops.join()
        stopped = time.monotonic() - since
        host.run("systemctl start llama-a")
        back = host.until_up()
    works.join()
    print(f"told after {told:.1f} s, stopped after {stopped:.1f} s, back after {back:.1f} s, {len(answers)} answers")
    assert Counter(answer["status"] for answer in answers).keys() == {200} and len(answers) >= 60
    assert [json.loads(answer["text"])["server"] for answer in begun] == ["first"]
    assert moved == ["second"]
    assert stopped < 15, "it became idle, which it never does while the gateway sends"


def test_drift_takes_weight_and_repair_gives_it_back(host: Host) -> None:
    host.run(f"cat >{FILE}", text=DRIFTED)
    host.until(lambda: host.haproxy()["weight"] == "50")
    assert host.settled()["status"] == "UP"
    assert "a: up 50% # not as configured: NUMA balancing" in host.run("sovereign-epyc agent a")
    unit = "/etc/systemd/system/sovereign-epyc-agent.service"
    host.run(f'sed -i.kept \'s/"untuned": "50%"/"untuned": "out"/\' {unit}')
    host.until_down()
    host.run(f"mv {unit}.kept {unit}; echo 'sovereign_epyc_check_success 1' >{FILE}")
    host.until_up()
    host.until(lambda: host.haproxy()["weight"] == "100")


def test_what_an_operator_says_at_the_gateway_stands(host: Host) -> None:
    """Whatever the agent goes on to say: "ready" in it would end the drain."""
    host.send("unix", "/run/haproxy/admin.sock", "set server model_chat/h1:a state drain")
    time.sleep(1.5)
    assert host.haproxy()["status"].startswith("DRAIN")
    host.send("unix", "/run/haproxy/admin.sock", "set server model_chat/h1:a state ready")
    host.until_up()


def test_a_host_leaves_and_joins(host: Host) -> None:
    assert "a: stopped" in host.run("sovereign-epyc agent --leave")
    host.until_down()
    assert set(host.fetch_servers(*[build_request()] * 3)) == {"second"}
    host.run("sovereign-epyc agent --join")
    host.until_up()


def test_an_agent_that_goes_leaves_its_last_word_until_the_next_reload(host: Host) -> None:
    host.run("systemctl stop sovereign-epyc-agent.socket")
    time.sleep(1)
    assert host.settled()["status"] == "UP"
    assert host.run("systemctl is-active sovereign-epyc-agent.service", check=False) == "inactive\n"
    host.run("systemctl start sovereign-epyc-agent.socket; sovereign-epyc agent --leave")
    host.until_down()
    host.run("systemctl stop sovereign-epyc-agent.socket; sovereign-epyc agent --join")
    time.sleep(1)
    assert host.haproxy()["status"] == "DOWN (agent)"
    host.run("systemctl reload haproxy")
    host.until_up()
    host.run("systemctl start sovereign-epyc-agent.socket")


def test_it_goes_as_it_came(host: Host) -> None:
    """A check tells of it and writes nothing; the second run has nothing to do."""
    before = host.units()
    assert "sovereign-epyc-agent.socket" in before and "10.9.0.1:8407" in before
    checked = host.converge("--check", bind="", gateway=False)
    assert list(checked.changed_results) == ["Install the host tool and its services"], checked.output
    assert host.units() == before
    played = host.converge(bind="", gateway=False)
    assert (
        played.returncode == 0
        and played["Install the host tool and its services"]["diff"]
        == checked.changed_results["Install the host tool and its services"]["diff"]
    ), played.output
    assert host.units() == ""
