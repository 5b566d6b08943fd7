# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A HAProxy that answers at real sockets as versions 2.6 and 3.0 do, and a worker of it from before a reload."""

from __future__ import annotations

import socketserver
import threading
from pathlib import Path

FIELDS = (
    "be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight"
    " srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state"
    " bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr"
    " srv_agent_addr srv_agent_port"
)
OLD = "4711"


class FakeServer:
    """One server of a backend, with requests in work: for the worker of now, and for the one before."""

    def __init__(self, admin: int = 0, up: bool = True, working: int = 0, waiting: int = 0, old: int = 0) -> None:
        self.admin = admin
        self.up = up
        self.working = working
        self.waiting = waiting
        self.old = old


class FakeHaproxy:
    """``servers`` by backend and name. ``said`` are the commands that change something, with their worker."""

    def __init__(self, folder: Path, servers: dict[str, FakeServer]) -> None:
        self.servers = servers
        self.said: list[str] = []
        #: Answers in place of the usual ones, by the beginning of a command.
        self.instead: dict[str, str] = {}
        #: What an agent of the hosts makes of each state that is set.
        self.agent_undoes = False
        self.socket = str(folder / "admin.sock")
        self.master = str(folder / "master.sock")
        self._listeners = [self._listen(self.socket), self._listen(self.master)]

    def close(self) -> None:
        """Answer no more."""
        for one in self._listeners:
            one.shutdown()
            one.server_close()

    def _listen(self, path: str) -> socketserver.ThreadingUnixStreamServer:
        haproxy = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(haproxy.answer(path, self.rfile.readline().decode().rstrip("\n")).encode())

        listener = socketserver.ThreadingUnixStreamServer(path, Handler)
        listener.daemon_threads = True
        threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        return listener

    def answer(self, path: str, command: str) -> str:
        """Return what HAProxy says to a command."""
        old = path == self.master
        if old and command == "show proc":
            head = "#<PID>          <type>          <reloads>       <uptime>        <version>\n"
            old_ones = f"# old workers\n{OLD}            worker          1   0d00h00m09s   2.6.12\n# programs\n\n"
            return f"{head}1     master    1 [failed: 0]   0d00h00m09s\n# workers\n8 worker 0 0d00h00m02s\n{old_ones}"
        if old:
            target, dummy, command = command.partition(" ")
            if target != f"@!{OLD}":
                return "Can't find the target PID matching the prefix '@!'\n"
        for begin, text in self.instead.items():
            if command.startswith(begin):
                return text
        if command == "show servers state":
            return self._states()
        if command == "show stat -1 4 -1":
            return self._stat(old)
        return self._set(command, old)

    def _set(self, command: str, old: bool) -> str:
        dummy, dummy, name, dummy, state = command.split(" ")
        self.said.append(f"{'old ' if old else ''}{name} {state}")
        if name not in self.servers:
            return "No such server.\n"
        if not old and not self.agent_undoes:
            one = self.servers[name]
            one.admin = one.admin & ~9 | {"ready": 0, "maint": 1, "drain": 8}[state]
        return "\n"

    def _states(self) -> str:
        lines = ["1", f"# {FIELDS}"]
        for number, (name, one) in enumerate(self.servers.items(), 1):
            backend, dummy, server = name.partition("/")
            lines.append(
                f"4 {backend} {number} {server} 10.9.0.{number} {2 if one.up else 0} {one.admin} 100 100"
                " 7 15 3 4 6 0 0 0 - 8081 - 0 0 - - 0"
            )
        return "\n".join(lines) + "\n\n"

    def _stat(self, old: bool) -> str:
        lines = ["# pxname,svname,qcur,qmax,scur,status,weight,type,last_chk,"]
        for name, one in self.servers.items():
            status = "MAINT" if one.admin & 1 else "DOWN" if not one.up else "DRAIN" if one.admin & 8 else "UP"
            counts = f"0,9,{one.old}" if old else f"{one.waiting},9,{one.working}"
            lines.append(f'{name.replace("/", ",")},{counts},{status},{0 if one.admin & 9 else 100},2,"a, b",')
        return "\n".join(lines) + "\n\n"
