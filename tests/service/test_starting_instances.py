# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs that meet an instance whose server still reads its model, or fails at each start: nobody is accused or harmed.

A server that is stopped with SIGSTOP while it reads stands for a server on a slow disk.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from vepyc.playbook_runs import run_playbook

from ..fixtures.containers import ServiceHost, wait_until

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080}
UNIT = "llama-chat.service"
#: A small model is read so soon that all of it may be there when its server is stopped.
PROGRESS = re.compile(r"llama-chat\.service is being started: it has read (?:\d+ % of )?its model")
#: Kills the server, and stops the next one as soon as it listens at its port, before it has read its model.
KILL_AND_STOP_READING_SERVER = """
import os, signal, subprocess

def main_pid():
    return int(subprocess.check_output(["systemctl", "show", "-P", "MainPID", "llama-chat.service"]))

before = main_pid()
subprocess.run(["systemctl", "kill", "--signal=KILL", "llama-chat.service"], check=True)
while (pid := main_pid()) in (0, before):
    pass
while ":1F90 00000000:0000 0A " not in open("/proc/net/tcp").read():
    pass
os.kill(pid, signal.SIGSTOP)
print(pid)
"""
#: Opens connections at a port with one socket option only, and ends them first, so that they are in TIME_WAIT.
LEAVE_ENDED_CONNECTIONS = """
import socket, sys, time

server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, getattr(socket, sys.argv[1]), 1)
server.bind(("127.0.0.1", int(sys.argv[2])))
server.listen()
for dummy in range(4):
    client = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    accepted, dummy = server.accept()
    accepted.close()
    time.sleep(0.1)
    client.close()
"""
#: Listens as the server of ik_llama.cpp does, with SO_REUSEPORT only.
STAND_IN_FOR_IK_LLAMA = """
import socket, time

server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("127.0.0.1", 8099))
server.listen()
print("listens", flush=True)
time.sleep(3600)
"""


@pytest.fixture(scope="module", autouse=True)
def chat_instance(service_host: ServiceHost) -> None:
    service_host.serve(CHAT)


def verify_service(host: ServiceHost) -> dict[str, str]:
    """Return the item of the checklist on whether the instance serves."""
    playbook = host.folder / "verify.yml"
    task = {"name": "Verify", "sovereign.epyc.epyc_verify": {}}
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    items = run_playbook(host.folder, playbook)["Verify"]["checklist"]
    return dict(next(item for item in items if item["name"] == "service/chat"))


def unit_state(host: ServiceHost) -> str:
    return host.run(f"systemctl show --property=ActiveState --value {UNIT}").strip()


@contextmanager
def stopped_reading_server(host: ServiceHost) -> Iterator[int]:
    """Have the server killed and the next one stopped while it reads; yield its process, which goes on afterwards."""
    process = int(host.run("python3 -", text=KILL_AND_STOP_READING_SERVER))
    try:
        assert unit_state(host) == "activating"
        yield process
    finally:
        host.run(f"kill -CONT {process}", check=False)
        wait_until(lambda: unit_state(host) == "active")


@contextmanager
def continued_after(host: ServiceHost, process: int, seconds: float) -> Iterator[list[float]]:
    """Let a stopped server go on after some seconds; yield a list that then has the time of this moment."""
    moments: list[float] = []

    def go_on() -> None:
        moments.append(time.monotonic())
        host.run(f"kill -CONT {process}")

    timer = threading.Timer(seconds, go_on)
    timer.start()
    try:
        yield moments
    finally:
        timer.join()


def test_checks_say_that_it_still_reads(service_host: ServiceHost) -> None:
    with stopped_reading_server(service_host):
        rows = json.loads(service_host.run("sovereign-epyc check --json", check=False))["settings"]
        (row,) = [row for row in rows if row["address"] == f"llama:{UNIT}/active"]
        assert row["live"] == "unknown" and PROGRESS.match(row["reason"]), row
        assert service_host.run("sovereign-epyc check", check=False).count("drift") == 0
        played = run_playbook(service_host.folder, "playbooks/drift.yml")
        findings = played["Check the host"]["findings"]
        assert [finding["status"] for finding in findings if finding["role"] == "llama"] == ["unknown"], findings
        item = verify_service(service_host)
        assert item["verdict"] == "unknown" and PROGRESS.match(item["sentence"]), item
        repaired = run_playbook(service_host.folder, "playbooks/repair.yml")
        assert repaired.changed_results == {} and unit_state(service_host) == "activating", repaired.output


def test_a_run_that_changes_nothing_waits(service_host: ServiceHost) -> None:
    with stopped_reading_server(service_host) as process:
        checked = service_host.run_role("--check", epyc_llama_instances=service_host.with_test_model(CHAT))
        assert checked.returncode == 0 and checked.changed_results == {}, checked.output
        (remark,) = [text for text in checked["Run the instances"]["remarks"] if UNIT in text]
        assert PROGRESS.match(remark) and remark.endswith("A run that is no check waits until it serves."), remark
        with continued_after(service_host, process, 30) as moments:
            played = service_host.serve(CHAT)
            assert moments, "the run ended before the server had read its model"
        assert played.changed_results == {} and service_host.main_pid("chat") == process
        assert service_host.fetch_status(8080, "/health") == 200


def test_a_run_that_changes_the_instance_stops_the_start(service_host: ServiceHost) -> None:
    with stopped_reading_server(service_host) as process:
        played = service_host.serve({**CHAT, "context": 4096})
        assert service_host.main_pid("chat") not in (0, process)
        (remark,) = [text for text in played["Run the instances"]["remarks"] if UNIT in text]
        assert PROGRESS.match(remark) and "It is stopped, because the instance changes." in remark, remark
        assert service_host.fetch_status(8080, "/health") == 200
    service_host.serve(CHAT)


def test_a_run_right_after_a_restart_changes_nothing(service_host: ServiceHost) -> None:
    service_host.run(f"systemctl restart --no-block {UNIT}")
    assert service_host.serve(CHAT).changed_results == {}
    assert service_host.fetch_status(8080, "/health") == 200


def test_another_program_at_the_port_of_a_failing_instance_is_named_as_such(service_host: ServiceHost) -> None:
    service_host.run(f"systemctl stop {UNIT}")
    listen = "import socket, time; server = socket.create_server(('127.0.0.1', 8080)); time.sleep(3600)"
    service_host.run(f'systemd-run --unit=other-program python3 -c "{listen}"')
    wait_until(lambda: ":1F90 " in service_host.run("cat /proc/net/tcp"))
    try:
        service_host.run(f"systemctl start --no-block {UNIT}")
        # The unit goes on failing, so its process changes during the run.
        played = service_host.run_role(epyc_llama_instances=service_host.with_test_model(CHAT))
        assert played.returncode == 2 and played.changed_results == {}, played.output
        assert "port 8080 of 127.0.0.1 is taken by another program" in played.output, played.output
    finally:
        service_host.run(f"systemctl stop other-program.service {UNIT}")
    service_host.serve(CHAT)


def test_a_crash_loop_is_drift_and_a_run_repairs_it(service_host: ServiceHost) -> None:
    service_host.run("cp -a /opt/built/bin /opt/copied")
    binary = "/opt/copied/llama-server"
    service_host.serve(CHAT, epyc_llama_binary=binary)
    service_host.run(f"mv {binary} {binary}.good; printf '#!/bin/sh\\nexit 3\\n' >{binary}; chmod +x {binary}")
    service_host.run(f"systemctl kill --signal=KILL {UNIT}")
    wait_until(lambda: int(service_host.run(f"systemctl show --property=NRestarts --value {UNIT}")) > 2)
    wait_until(lambda: "auto-restart" in service_host.run(f"systemctl show --property=SubState {UNIT}"))
    rows = json.loads(service_host.run("sovereign-epyc check --json", check=False))["settings"]
    states = {row["address"]: (row["live"], row["found"]) for row in rows if row["address"].startswith("llama:")}
    assert states[f"llama:{UNIT}/active"] == ("drift", "auto-restart"), states
    played = service_host.run_role(epyc_llama_instances=service_host.with_test_model(CHAT), epyc_llama_binary=binary)
    assert played.returncode == 2 and "does not answer to --help" in played.output, played.output
    service_host.run(f"mv {binary}.good {binary}")
    service_host.serve(CHAT, epyc_llama_binary=binary)
    assert service_host.fetch_status(8080, "/health") == 200
    service_host.serve(CHAT)


def test_a_server_follows_another_engine_at_its_port(service_host: ServiceHost) -> None:
    """A server of ik_llama.cpp sets SO_REUSEPORT only; its ended connections do not hinder the one of llama.cpp."""
    service_host.run(f"systemctl stop {UNIT}")
    service_host.run("python3 - SO_REUSEPORT 8080", text=LEAVE_ENDED_CONNECTIONS)
    assert service_host.run("ss -tan sport = :8080").count("TIME-WAIT") >= 4
    service_host.serve(CHAT)
    service_host.run(f"systemctl stop {UNIT}")
    probe = "sovereign-epyc llama port 127.0.0.1:8080 --reuse port --timeout"
    assert "is free after" in service_host.run(f"{probe} 1")


def test_a_server_waits_for_the_connections_of_another_engine(service_host: ServiceHost) -> None:
    service_host.run("python3 - SO_REUSEADDR 8099", text=LEAVE_ENDED_CONNECTIONS)
    service_host.write_file("/opt/stand-in.py", STAND_IN_FOR_IK_LLAMA.encode())
    start = "systemd-run --property=DynamicUser=yes --property=Type=exec"
    wait = "ExecStartPre=/usr/sbin/sovereign-epyc llama port 127.0.0.1:8099 --reuse port --timeout 75"
    without = f"{start} --unit=without python3 /opt/stand-in.py; sleep 1; systemctl is-active without.service"
    assert "failed" in service_host.run(without, check=False)
    service_host.run(f"{start} --unit=stand-in --property='{wait}' python3 /opt/stand-in.py")
    told = service_host.run("journalctl --sync; journalctl --output=cat --unit=stand-in.service")
    assert "cannot be taken yet" in told and "127.0.0.1:8099 is free after" in told, told
    wait_until(lambda: "listens" in service_host.run("journalctl --output=cat --unit=stand-in.service"))
    service_host.run("systemctl stop stand-in.service")
