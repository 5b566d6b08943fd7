# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy at its sockets: which servers there are, in which state, on how many requests they work, and commands for it.

After a reload the worker before goes on until its last request has ended, so it is asked and told the same.

Source: management.txt of HAProxy, "show servers state", "show stat", "set server"; "show proc" of the master's socket.
"""

from __future__ import annotations

from .._errors import Absent, TuningError
from .._io import unix_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Bits of srv_admin_state: forced into maintenance, disabled in the configuration, forced into drain.
MAINT, CONFIGURED, DRAIN = 1, 4, 8
#: What HAProxy says of servers only: of all processes, type 4, all of them.
COUNTERS = "show stat -1 4 -1"


class Server:
    """A server of a backend. ``fields`` are those of "show servers state"."""

    __slots__ = ("admin", "backend", "fields", "name")

    def __init__(self, fields: dict[str, str]) -> None:
        self.fields = fields
        self.backend = fields["be_name"]
        self.name = fields["srv_name"]
        self.admin = int(fields["srv_admin_state"])

    @property
    def command_name(self) -> str:
        """How commands name it."""
        return f"{self.backend}/{self.name}"

    @property
    def host(self) -> str:
        """The host of the inventory, which stands before the name of the instance."""
        return self.name.rpartition(":")[0]

    @property
    def is_drained_by_configuration(self) -> bool:
        """Whether the configuration keeps it out of service, and nobody has put it back since."""
        return bool(self.admin & CONFIGURED and self.admin & MAINT)

    @property
    def state(self) -> str:
        """The administrative state, in the word of HAProxy's command."""
        return "maint" if self.admin & MAINT else "drain" if self.admin & DRAIN else "ready"


class ServerLoad:
    """What a server has to do now, and whether it takes requests."""

    __slots__ = ("takes_requests", "waiting", "working")

    def __init__(self, fields: dict[str, str]) -> None:
        self.working = int(fields["scur"] or 0)
        self.waiting = int(fields["qcur"] or 0)
        self.takes_requests = fields["status"].startswith(("UP", "no check")) and int(fields["weight"] or 0) > 0


class Haproxy:
    """The HAProxy of this host."""

    def __init__(self, socket: str, master: str) -> None:
        """``socket`` is the one of its worker, with the level admin; ``master`` that of the master, if there is one."""
        self.socket = socket
        self.master = master

    def list_servers(self) -> list[Server]:
        """Return all servers."""
        try:
            text = unix_socket.query_socket(self.socket, "show servers state")
        except Absent as error:
            raise Absent(
                f"{error} Is HAProxy running (systemctl status haproxy), and is this a host of the group gateway on"
                " which gateway.yml has run?"
            ) from None
        found = [Server(fields) for fields in _parse_table(text, " ") if "srv_admin_state" in fields]
        if not found:
            raise TuningError(f"HAProxy shows no servers at {self.socket}. It says: {text.strip() or 'nothing'}")
        return found

    def read_loads(self) -> dict[str, ServerLoad]:
        """Return what each server has to do for the worker that takes requests now, by its address."""
        return dict(_parse_loads(unix_socket.query_socket(self.socket, COUNTERS)))

    def count_requests(self, servers: Iterable[str]) -> int:
        """Return on how many requests these servers work, or are to work, also for workers before a reload."""
        tables = [self.read_loads(), *(dict(_parse_loads(text)) for text in self._ask_old_workers(COUNTERS))]
        found = [table[one] for one in servers for table in tables if one in table]
        return sum(one.working + one.waiting for one in found)

    def set_server_state(self, server: str, state: str) -> None:
        """Set the administrative state of a server."""
        command = f"set server {server} state {state}"
        said = unix_socket.query_socket(self.socket, command).strip()
        if said:
            raise TuningError(f"HAProxy refuses '{command}'. It says: {said}")
        # One before a reload may still have requests in its queue. It ends by itself, and may just have.
        self._ask_old_workers(command)

    def _ask_old_workers(self, command: str) -> list[str]:
        """Return what the workers say that go on after a reload until their last request has ended."""
        answers = []
        try:
            listed = (
                unix_socket.query_socket(self.master, "show proc").partition("# old workers")[2].partition("\n#")[0]
            )
            for line in listed.splitlines():
                if line[:1].isdecimal():
                    answers.append(unix_socket.query_socket(self.master, f"@!{line.split()[0]} {command}"))
        except Absent:
            return answers
        return answers


def _parse_table(text: str, separator: str) -> Iterator[dict[str, str]]:
    """Yield the lines of a table below the one that names its fields; quotes come later than what is read here."""
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith("# "):
            names = line[2:].split(separator)
        elif names and line.strip():
            yield dict(zip(names, line.split(separator)))


def _parse_loads(text: str) -> Iterator[tuple[str, ServerLoad]]:
    for fields in _parse_table(text, ","):
        if fields.get("type") == "2":
            yield f"{fields['pxname']}/{fields['svname']}", ServerLoad(fields)
