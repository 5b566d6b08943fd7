# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file by which servers stay out of service when HAProxy is reloaded or started: its own server-state-file.

It has the servers that were taken out, and no others: the state of all others is what HAProxy finds out anew. HAProxy
takes the port of a server from it too, so it has to be the port of the configuration.

Source: load-server-state-from-file in configuration.txt of HAProxy; srv_state_srv_update() for what it makes of a line.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .haproxy import Server

HEAD = (
    "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight"
    " srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state"
    " bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord\n"
)
#: Where fields are in a line.
BACKEND, NAME, ADDRESS, PORT, COUNT = 1, 3, 4, 18, 20
RUNNING = "2"


def format_line(server: Server, admin_state: int) -> str:
    """Return the line that has a server in this administrative state, and says nothing of its checks."""
    its = server.fields
    weight = its["srv_iweight"]
    begin = [its["be_id"], server.backend, its["srv_id"], server.name, its["srv_addr"], RUNNING, str(admin_state)]
    return " ".join([*begin, weight, weight, *["0"] * 8, "-", its["srv_port"], "-"])


def parse_lines(text: str | None) -> dict[str, str]:
    """Return the lines by backend and server; what is no such line is left out."""
    rows = [line.split() for line in (text or "").splitlines() if not line.startswith("#")]
    return {f"{row[BACKEND]}/{row[NAME]}": " ".join(row) for row in rows if len(row) == COUNT}


def render_file(lines: Mapping[str, str]) -> str:
    """Return the whole file."""
    return HEAD + "".join(f"{line}\n" for line in lines.values())


def replace_servers(text: str | None, removed: Collection[str], added: Mapping[str, str]) -> str:
    """Return the file without the lines of some servers, and with others."""
    return render_file({**{key: line for key, line in parse_lines(text).items() if key not in removed}, **added})


def move_servers(text: str, addresses: Mapping[str, str]) -> str:
    """Return the file for a new configuration that has each server ``where``, as an address with a port.

    Servers that are no more in it are left out.
    """
    lines = {}
    for key, line in parse_lines(text).items():
        if key in addresses:
            row = line.split()
            host, dummy, row[PORT] = addresses[key].rpartition(":")
            row[ADDRESS] = host.strip("[]")
            lines[key] = " ".join(row)
    return render_file(lines)
