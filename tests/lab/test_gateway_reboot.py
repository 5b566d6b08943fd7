# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two hosts with a real llama-server each, behind a real HAProxy, are rebooted one after the other under load.

REBOOTS has it run, for some ten minutes. Only the network is not real: what the gateway sends to a host goes by ssh.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.saved_states import TUNED
from tests.fixtures.virtual_epyc import ROOT, Guest, guest_of
from vepyc.container import Container, running_container
from vepyc.images import debian_packages
from vepyc.llama.delivery import write_guest_file
from vepyc.llama.llama_cpp import GUEST, ensure_llama
from vepyc.playbook_runs import run_playbook, write_inventory

from ..fixtures.gateways import PROGRAM_FOLDER, PROGRAMS
from . import small_instance
from .random_model import random_model

pytestmark = pytest.mark.slow

MODEL, KEY, PORT = "/srv/model.gguf", "of-the-servers", 8081
ADDRESSES = {"test-gateway-one": "10.9.0.1", "test-gateway-two": "10.9.0.2"}
INSTANCE = {"name": "a", "alias": "chat", "model": MODEL, "host": "0.0.0.0", "port": PORT, "api_key_file": "/etc/key"}
GATEWAY = {
    "epyc_gateway_bind": "127.0.0.1:8080",
    "epyc_gateway_plain_http": True,
    "epyc_gateway_open": True,
    "epyc_gateway_hosts": [*ADDRESSES],
    "epyc_gateway_server_key": KEY,
}
REQUEST = {
    "method": "POST",
    "path": "/v1/completions",
    "headers": [],
    "text": json.dumps({"model": "chat", "prompt": "a", "max_tokens": 4, "ignore_eos": True}),
}


class Wire:
    """What comes to an address of a container goes on to the same port of a guest."""

    def __init__(self, box: Container, address: str, guest: Guest) -> None:
        self.guest = guest
        # A thread has its own network, and a socket stays where it was made.
        maker = threading.Thread(target=self._listen, args=(box.leader, address))
        maker.start()
        maker.join()
        threading.Thread(target=self._accept, daemon=True).start()

    def _listen(self, leader: str, address: str) -> None:
        with open(f"/proc/{leader}/ns/net", "rb") as network:
            os.setns(network.fileno(), os.CLONE_NEWNET)
        self.socket = socket.create_server((address, PORT))

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self.socket.accept()[0]
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        # A connection of its own, which notices that the guest was rebooted.
        machine = self.guest.machine
        words = machine.ssh_command(
            "-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=2", "-W", f"127.0.0.1:{PORT}"
        )
        words = ["ControlPath=wire.sock" if word == "ControlPath=ssh.sock" else word for word in words]
        with (
            client,
            subprocess.Popen(
                words, cwd=machine.run_dir.path, stdin=client, stdout=client, stderr=subprocess.DEVNULL
            ) as carrier,
        ):
            carrier.wait()


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Container, dict[str, Guest], Path]]:
    """The gateway, two tuned hosts that wait for a reboot and serve, and the folder of their inventory."""
    folder = tmp_path_factory.mktemp("fleet")
    binds = {
        debian_packages.fetch_packages("trixie", *debian_packages.HAPROXY)[0].parent: "/srv/packages",
        PROGRAM_FOLDER: PROGRAMS,
    }
    with ExitStack() as stack:
        box = stack.enter_context(running_container("gateway-reboot", binds))
        box.run("dpkg --install /srv/packages/*.deb")
        guests: dict[str, Guest] = {}
        hosts: dict[str, Any] = {}
        for name, address in ADDRESSES.items():
            place = tmp_path_factory.mktemp(name)
            guest = stack.enter_context(guest_of("small", name.removeprefix("test-"), place, prepared=TUNED))
            guest.carry_modules()
            write_guest_file(
                guest.machine, small_instance.BINARY, (ensure_llama(GUEST) / "bin/llama-server").read_bytes(), 755
            )
            write_guest_file(guest.machine, MODEL, random_model(100))
            write_guest_file(guest.machine, "/etc/key", KEY.encode(), 600)
            small_instance.serve_instances(guest, INSTANCE)
            box.run(f"ip address add {address}/32 dev lo")
            Wire(box, address, guest)
            guests[name] = guest
            hosts[name] = {"ansible_port": guest.machine.port, "epyc_gateway_member_address": address}
            hosts[name]["epyc_llama_instances"] = [{**INSTANCE, "slots": 1}]
        write_inventory(folder, hosts, epyc_gateway={box.name: box.inventory_variables()}, small=hosts)
        (folder / "group_vars").symlink_to(ROOT / "inventories/lab/group_vars")
        yield box, guests, folder


def test_every_request_is_answered(fleet: tuple[Container, dict[str, Guest], Path]) -> None:
    box, guests, folder = fleet
    told = ("-e", json.dumps(GATEWAY))
    played = run_playbook(folder, "playbooks/gateway.yml", *told, "-l", "epyc_gateway")
    assert played.returncode == 0, played.output
    before = {name: guest.run("cat /proc/sys/kernel/random/boot_id") for name, guest in guests.items()}
    answers: list[dict[str, Any]] = []
    asked = {"port": 8080, "plain": True, "clients": 2, "requests": [REQUEST] * 8, "until": "/run/stop"}
    client = threading.Thread(
        target=lambda: answers.extend(
            json.loads(box.run(f"python3 {PROGRAMS}/gateway_client.py", input=json.dumps(asked), timeout=1800).stdout)
        )
    )
    client.start()
    try:
        played = run_playbook(
            folder, "playbooks/reboot.yml", *told, "-e", "epyc_reboot_ok=true", "-l", ",".join(ADDRESSES), timeout=1500
        )
    finally:
        box.run("touch /run/stop")
        client.join()
    assert played.returncode == 0, played.output
    for guest in guests.values():
        guest.machine.disconnect()
    after = {name: guest.run("cat /proc/sys/kernel/random/boot_id") for name, guest in guests.items()}
    assert not set(before.values()) & set(after.values())
    counted = Counter(answer["status"] for answer in answers)
    print(f"{len(answers)} requests while both hosts were rebooted, by status: {dict(counted)}")
    assert counted.keys() == {200} and len(answers) >= 20, [one["text"] for one in answers if one["status"] != 200]
    taken = [one["host"] for one in played.results if one["task"] == "Reboot the host"]
    assert taken == [*ADDRESSES], "one after the other"
