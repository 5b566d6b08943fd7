# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the programs of a group of hosts as one: they begin together, and when one of them or its host ends, all end.

The leader holds a connection to each follower for as long as its program runs. Once all followers are there, each is
sent one byte and starts its program; after that nothing is sent, and a connection that breaks ends the programs at both
ends of it. systemd then starts the units anew.

vLLM over several hosts needs it: its head says that it is healthy when a worker is gone, until the next request, and
its worker waits for ever for a head that is gone.

Source: vllm/v1/executor/multiproc_executor.py of vLLM 0.32, and both ends killed by hand.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time

from ._errors import BadRequest, TuningError
from ._notation.ip_addresses import format_endpoint, parse_endpoint
from ._notation.printable import escape_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Address = tuple[str, int]

USAGE = """usage: sovereign-epyc group COMMAND -- PROGRAM [ARGUMENT]...

  lead WORKERS      wait for the followers at a list of ADDRESS:PORT,ADDRESS:PORT, and run the program with them
  follow ADDRESS:PORT
                    listen there for a leader, and run the program with it

The program ends when another one of the group does. Exit code: that of the program, or 1 where the group broke.
"""
#: What tells a follower to begin.
BEGIN = b"1"
#: Seconds between two attempts to connect, and the limit of an attempt.
PAUSE = 1.0
LONGEST = 5.0
#: A host that vanished is noticed after IDLE + COUNT * BETWEEN seconds.
IDLE, BETWEEN, COUNT = 5, 5, 2


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    if len(arguments) < 4 or arguments[2] != "--" or arguments[0] not in ("lead", "follow"):
        sys.stderr.write(USAGE)
        return 1
    command, where, dummy, *program = arguments
    try:
        if command == "lead":
            return wait_for_followers_and_run([parse_endpoint(word, "workers") for word in where.split(",")], program)
        return wait_for_leader_and_run(parse_endpoint(where, "follow"), program)
    except TuningError as error:
        sys.stderr.write(f"{escape_lines(str(error))}\n")
        return 1


def wait_for_followers_and_run(followers: Sequence[Address], program: Sequence[str], clock: Any = time) -> int:
    """Wait for all followers, as long as it takes, run the program with them, and return the exit code."""
    connections = {_connect_until_accepted(address, clock): address for address in followers}
    for connection in connections:
        connection.sendall(BEGIN)
    _print_line_at_once(f"All of {', '.join(format_endpoint(*address) for address in followers)} are there.")
    return _run_until_connection_breaks(
        program, {connection: format_endpoint(*address) for connection, address in connections.items()}
    )


def wait_for_leader_and_run(address: Address, program: Sequence[str]) -> int:
    """Wait for a leader, run the program with it, and return the exit code."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        server = socket.create_server(address, family=family)
    except OSError as error:
        raise BadRequest(
            f"{format_endpoint(*address)} cannot be listened on: {error.strerror or error}. It is the "
            "epyc_group_address of this host, and a port of the list workers; see that the interface is up."
        ) from None
    with server:
        while True:
            _print_line_at_once(f"It waits for the head of its group on {format_endpoint(*address)}.")
            leader, source = server.accept()
            _enable_tcp_keep_alive(leader)
            try:
                begins = leader.recv(1) == BEGIN
            except OSError:
                begins = False
            if begins:
                break
            leader.close()
    # The port is closed now, so another leader cannot connect, and tries again.
    return _run_until_connection_breaks(program, {leader: source[0]})


def _connect_until_accepted(address: Address, clock: Any) -> socket.socket:
    told = False
    while True:
        try:
            connection = socket.create_connection(address, LONGEST)
            break
        except OSError as error:
            if not told:
                _print_line_at_once(f"It waits for {format_endpoint(*address)}: {error.strerror or error}.")
                told = True
            clock.sleep(PAUSE)
    connection.settimeout(None)
    _enable_tcp_keep_alive(connection)
    return connection


def _enable_tcp_keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, BETWEEN)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, COUNT)


def _run_until_connection_breaks(program: Sequence[str], connections: dict[socket.socket, str]) -> int:
    """Run a program until it ends or a connection breaks. What it has started is ended by systemd, with the unit."""
    try:
        child = subprocess.Popen(list(program))  # pylint: disable=ansible-bad-function
    except OSError as error:
        raise TuningError(f"{program[0]} does not start: {error.strerror or error}.") from None
    signal.signal(signal.SIGTERM, lambda *dummy: child.terminate())
    # The descriptor of a process can be read when the process has ended.
    ended = os.pidfd_open(child.pid)
    # Nothing is sent, so a connection that can be read has broken.
    addresses = {connection.fileno(): address for connection, address in connections.items()}
    broken = [addresses[ready] for ready in select.select([ended, *addresses], [], [])[0] if ready in addresses]
    if broken:
        sys.stderr.write(f"The connection to {broken[0]} broke, so that this part ends too.\n")
        child.kill()
        child.wait()
        return 1
    child.wait()
    # A program that a signal ended has a negative code, which cannot be an exit code.
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _print_line_at_once(text: str) -> None:
    sys.stdout.write(f"{escape_lines(text)}\n")
    sys.stdout.flush()
