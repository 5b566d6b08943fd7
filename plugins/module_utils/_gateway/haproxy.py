# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy through its sockets: its servers, their states and loads, and commands that set states.

After a reload, the old worker process runs until its last request has ended, so both workers get the commands.

Source: management.txt of HAProxy, "show servers state", "show stat", "set server"; "show proc" of the master's socket.
"""

from __future__ import annotations

from .._errors import Absent, TuningError
from .._io import unix_socket
from .._io.blocks import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Bits of srv_admin_state: forced into maintenance, disabled in the configuration, forced into drain.
MAINT, CONFIGURED, DRAIN = 1, 4, 8
#: The command for statistics of all servers (type 4) of all proxies.
COUNTERS = "show stat -1 4 -1"


class Server:
    """A server of a backend, from the fields of "show servers state"."""

    def __init__(self, fields: dict[str, str]) -> None:
        self.fields = fields
        self.backend = fields["be_name"]
        self.name = fields["srv_name"]
        self.admin = int(fields["srv_admin_state"])

    @property
    def backend_and_server_name(self) -> str:
        """The server's name in commands: BACKEND/NAME."""
        return f"{self.backend}/{self.name}"

    @property
    def host(self) -> str:
        """The host of the inventory, which is the first part of the server's name."""
        return self.name.rpartition(":")[0]

    @property
    def is_out_of_service_by_configuration(self) -> bool:
        """Whether the configuration takes the server out of service, and no command has put it back since."""
        return bool(self.admin & CONFIGURED and self.admin & MAINT)

    @property
    def state(self) -> str:
        """The administrative state, in HAProxy's word: maint, drain or ready."""
        return "maint" if self.admin & MAINT else "drain" if self.admin & DRAIN else "ready"


class ServerLoad:
    """The numbers of requests that a server works on and that wait for it, and whether it takes requests."""

    def __init__(self, fields: dict[str, str]) -> None:
        self.working = int(fields["scur"] or 0)
        self.waiting = int(fields["qcur"] or 0)
        self.takes_requests = fields["status"].startswith(("UP", "no check")) and int(fields["weight"] or 0) > 0


class Haproxy:
    """The HAProxy of this host."""

    def __init__(self, socket: str, master: str) -> None:
        """``socket`` is the worker's socket, with level admin; ``master`` is the socket of the master process."""
        self.socket = socket
        self.master = master

    def list_servers(self) -> list[Server]:
        """Return all servers."""
        try:
            text = unix_socket.query_socket(self.socket, "show servers state")
        except Absent as error:
            raise Absent(
                f"{error} Is HAProxy running (systemctl status haproxy), and is this a host of the group epyc_gateway "
                "on which gateway.yml has run?"
            ) from None
        servers = [Server(fields) for fields in _parse_haproxy_table(text, " ") if "srv_admin_state" in fields]
        if not servers:
            raise TuningError(f"HAProxy shows no servers at {self.socket}. It says: {text.strip() or 'nothing'}")
        return servers

    def read_load_by_server(self) -> dict[str, ServerLoad]:
        """Return the load of each server by BACKEND/NAME, in the current worker."""
        return dict(_parse_load_by_server(unix_socket.query_socket(self.socket, COUNTERS)))

    def count_active_and_queued_requests(self, servers: Iterable[str]) -> int:
        """Return the number of requests that servers work on or that wait for them, in all workers."""
        tables = [
            self.read_load_by_server(),
            *(dict(_parse_load_by_server(text)) for text in self._ask_old_workers(COUNTERS)),
        ]
        loads = [table[server] for server in servers for table in tables if server in table]
        return sum(load.working + load.waiting for load in loads)

    def set_administrative_state(self, server: str, state: str) -> None:
        """Set the administrative state of a server."""
        command = f"set server {server} state {state}"
        message = unix_socket.query_socket(self.socket, command).strip()
        if message:
            raise TuningError(f"HAProxy refuses '{command}'. It says: {message}")
        # An old worker may still have requests in its queue.
        self._ask_old_workers(command)

    def _ask_old_workers(self, command: str) -> list[str]:
        """Send a command to the workers from before a reload, and return the answers of those that still run."""
        answers = []
        with suppress(Absent):
            processes = unix_socket.query_socket(self.master, "show proc")
            for line in processes.partition("# old workers")[2].partition("\n#")[0].splitlines():
                if line[:1].isdecimal():
                    answers.append(unix_socket.query_socket(self.master, f"@!{line.split()[0]} {command}"))
        return answers


def _parse_haproxy_table(text: str, separator: str) -> Iterator[dict[str, str]]:
    """Yield each row of a table by field. Fields that HAProxy quotes, and fields after these, are not parsed right."""
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith("# "):
            names = line[2:].split(separator)
        elif names and line.strip():
            yield dict(zip(names, line.split(separator)))


def _parse_load_by_server(text: str) -> Iterator[tuple[str, ServerLoad]]:
    for fields in _parse_haproxy_table(text, ","):
        if fields.get("type") == "2":
            yield f"{fields['pxname']}/{fields['svname']}", ServerLoad(fields)
