# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two gateways with the real HAProxy and the real keepalived of the distribution, joined by a cable.

Clients are on the second one. Servers that stand in for llama-server are on both, and serve both.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from vepyc.container import Container, running_container
from vepyc.images import debian_packages
from vepyc.playbook_runs import PlaybookRun, run_playbook, write_inventory

from ..fixtures.gateways import PROGRAM_FOLDER, PROGRAMS

pytestmark = pytest.mark.slow

#: keepalived, and what the Debian of the containers lacks for it.
KEEPALIVED = (
    *("keepalived", "libnftnl11", "libnl-3-200", "libnl-genl-3-200", "libglib2.0-0t64", "libsnmp40t64", "libsnmp-base"),
    *("libsensors5", "libsensors-config", "libpci3", "pci.ids", "libperl5.40", "perl-modules-5.40"),
    *("libgdbm6t64", "libgdbm-compat4t64"),
)
SHARED = "10.8.0.100"
KEYS = {"team": "key-of-the-team", "slow": "key-of-the-slow"}
ASKED = {
    "epyc_gateway_bind": "*:8443",
    "epyc_gateway_plain_http": True,
    "epyc_gateway_virtual_address": SHARED,
    "epyc_gateway_tenants": [
        {"name": name, "sha256": [hashlib.sha256(key.encode()).hexdigest()], **limit}
        for (name, key), limit in zip(KEYS.items(), ({}, {"requests_per_minute": 3}), strict=True)
    ],
}
STATE = (
    "find /etc/haproxy /etc/keepalived -type f -printf '%p %m %T@ ' -exec sha256sum {} ';' | sort; "
    "systemctl show --property=MainPID,NRestarts,UnitFileState haproxy keepalived"
)


class Pair:
    """Both gateways."""

    def __init__(self, boxes: list[Container], folder: Path) -> None:
        self.boxes = boxes
        self.folder = folder
        own = [f"10.8.0.{number}" for number in (1, 2)]
        gateways = {
            box.name: {**box.inventory_variables(), "epyc_gateway_peers_bind": f"{address}:8406"}
            for box, address in zip(boxes, own, strict=True)
        }
        members = {
            f"m{address[-1]}": {
                "epyc_llama_instances": [
                    {"name": "a", "alias": "chat", "model": "/m.gguf", "host": address, "port": 8081, "slots": 2}
                ]
            }
            for address in own
        }
        write_inventory(folder, members, epyc_gateway=gateways)

    def play(self, *arguments: str, **changed: Any) -> PlaybookRun:
        (self.folder / "asked.json").write_text(json.dumps({**ASKED, **changed}))
        variables = ("--extra-vars", f"@{self.folder}/asked.json")
        return run_playbook(self.folder, "playbooks/gateway.yml", *variables, *arguments)

    def both(self, command: str) -> list[str]:
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda box: box.run(command, check=False).stdout, self.boxes))

    def holder(self) -> Container | None:
        """Return the one that has the address."""
        held = [bool(said) for said in self.both(f"ip -oneline address show to {SHARED}")]
        return self.boxes[held.index(True)] if sum(held) == 1 else None

    def other(self, box: Container) -> Container:
        return next(one for one in self.boxes if one is not box)

    def ask(self, host: str, *requests: dict[str, Any]) -> list[dict[str, Any]]:
        asked = json.dumps({"host": host, "port": 8443, "plain": True, "clients": 1, "requests": requests})
        return list(json.loads(self.boxes[1].run(f"python3 {PROGRAMS}/gateway_client.py", input=asked).stdout))

    def served_by(self, host: str, *requests: dict[str, Any]) -> list[str]:
        return [json.loads(answer["text"]).get("server", answer["text"]) for answer in self.ask(host, *requests)]


def chat_request(first: str, key: str = KEYS["team"]) -> dict[str, Any]:
    text = json.dumps({"model": "chat", "messages": [{"role": "user", "content": first}]})
    headers = [("Authorization", f"Bearer {key}")]
    return {"method": "POST", "path": "/v1/chat/completions", "headers": headers, "text": text}


def wait_until(wanted: Any, what: str, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def prepare_container(box: Container, server: str, address: str) -> None:
    """Install the packages, and start a server."""
    box.run("dpkg --install --force-unsafe-io /srv/packages/*.deb")
    box.run(f"systemd-run --quiet --unit=stub /usr/bin/python3 {PROGRAMS}/llama_stub.py {server} {address} 8081 ''")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    debs = debian_packages.fetch_packages("trixie", *debian_packages.HAPROXY, *KEEPALIVED)[0].parent
    binds = {debs: "/srv/packages", PROGRAM_FOLDER: PROGRAMS}
    with running_container("gateway-one", binds) as one, running_container("gateway-two", binds) as two:
        one.connect_cable(two, "10.8.0.1/24", "10.8.0.2/24")
        with ThreadPoolExecutor() as pool:
            list(pool.map(prepare_container, (one, two), ("first", "second"), ("10.8.0.1", "10.8.0.2")))
        yield Pair([one, two], tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def pair(bare: Pair) -> Pair:
    """Both gateways, when they serve at the shared address."""
    played = bare.play()
    assert played.returncode == 0, played.output
    wait_until(bare.holder, "nobody took the address")
    return bare


def of_first(pair: Pair, host: str, word: str) -> list[dict[str, Any]]:
    """Begin conversations, and return those that the first server has: leastconn alone would have both take turns."""
    begun = [chat_request(f"{word} {number}") for number in range(6)]
    kept = [one for one, server in zip(begun, pair.served_by(host, *begun), strict=True) if server == "first"]
    assert len(kept) > 1
    time.sleep(0.5)  # The other one is told at once, but not before the answer.
    return kept


def test_conversations_and_rates_are_known_to_both(pair: Pair) -> None:
    kept = of_first(pair, "10.8.0.1", "known")
    slow = [answer["status"] for answer in pair.ask("10.8.0.1", *[chat_request("slow", KEYS["slow"])] * 3)]
    assert set(pair.served_by("10.8.0.2", *kept)) == {"first"}
    assert (slow, pair.ask("10.8.0.2", chat_request("slow", KEYS["slow"]))[0]["status"]) == ([200] * 3, 429)


def test_they_listen_to_each_other_on_no_other_address(pair: Pair) -> None:
    listening = pair.both("ss -Hltn 'sport = 8406'")
    assert [line.split()[3] for line in listening] == ["10.8.0.1:8406", "10.8.0.2:8406"]


def test_the_other_one_takes_the_address_when_haproxy_ends(pair: Pair) -> None:
    """Conversations keep their server, also by the first one when it is back, which does not take the address again."""
    first = pair.holder()
    assert first is not None
    second = pair.other(first)
    kept = of_first(pair, SHARED, "moved")
    first.run("systemctl stop haproxy")
    wait_until(lambda: pair.holder() is second, "the address did not move")
    assert set(pair.served_by(SHARED, *kept)) == {"first"}
    first.run("systemctl start haproxy")
    own = f"10.8.0.{pair.boxes.index(first) + 1}"
    wait_until(lambda: pair.ask(own, chat_request("up"))[0]["status"] == 200, "HAProxy did not come back")
    assert set(pair.served_by(own, *kept)) == {"first"}
    assert pair.holder() is second


def test_the_next_run_changes_nothing_and_touches_no_keepalived_of_others(pair: Pair) -> None:
    """The second one looks as if somebody else had configured its keepalived."""
    note = "/etc/keepalived/before-sovereign-epyc.json"
    pair.boxes[1].run(f"mv {note} /run/note")
    before = pair.both(STATE)
    played = pair.play()
    failed = [result["host"] for result in played.results if result["status"] == "failed"]
    assert (played.returncode, played.changed_results, failed) == (2, {}, ["gateway-two"]), played.output
    assert "has a configuration of keepalived that is not from here" in played.output
    assert pair.both(STATE) == before
    pair.boxes[1].run(f"mv /run/note {note}")


def test_it_goes_as_it_came(pair: Pair) -> None:
    played = pair.play(epyc_gateway_state="absent")
    assert played.returncode == 0, played.output
    ours = "find /etc/haproxy /etc/keepalived -name '*sovereign*' -o -name keepalived.conf"
    assert pair.both(f"{ours}; ip -oneline address show to {SHARED}; dpkg --verify haproxy keepalived") == ["", ""]
    said = pair.both("systemctl is-active keepalived haproxy; systemctl is-enabled keepalived haproxy")
    assert said == ["inactive\nactive\nenabled\nenabled\n"] * 2
