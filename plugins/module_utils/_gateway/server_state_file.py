# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy's server-state-file, which keeps servers out of service when HAProxy is reloaded or started.

The file has only the servers that were taken out of service; HAProxy finds the state of other servers by its checks.
HAProxy also takes the port of a server from this file, so the file must have the port of the configuration.

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
#: Indexes of fields in a line, and the number of fields.
BACKEND, NAME, ADDRESS, PORT, COUNT = 1, 3, 4, 18, 20
RUNNING = "2"


def format_server_state_line(server: Server, admin_state: int) -> str:
    """Return the line of a server with this administrative state, without results of its health checks."""
    fields = server.fields
    weight = fields["srv_iweight"]
    names = [fields["be_id"], server.backend, fields["srv_id"], server.name, fields["srv_addr"]]
    return " ".join([*names, RUNNING, str(admin_state), weight, weight, *["0"] * 8, "-", fields["srv_port"], "-"])


def parse_lines_by_server(text: str | None) -> dict[str, str]:
    """Return the line of each server by BACKEND/SERVER; lines without a server are left out."""
    rows = [line.split() for line in (text or "").splitlines() if not line.startswith("#")]
    return {f"{row[BACKEND]}/{row[NAME]}": " ".join(row) for row in rows if len(row) == COUNT}


def render_server_state_file(lines: Mapping[str, str]) -> str:
    return HEAD + "".join(f"{line}\n" for line in lines.values())


def replace_servers_in_state_file(text: str | None, removed: Collection[str], added: Mapping[str, str]) -> str:
    """Return the text of a file without the ``removed`` servers, and with the ``added`` lines by BACKEND/SERVER."""
    return render_server_state_file(
        {**{key: line for key, line in parse_lines_by_server(text).items() if key not in removed}, **added}
    )


def update_addresses_in_state_file(text: str, addresses: Mapping[str, str]) -> str:
    """Return the text of a file for a new configuration: ``addresses`` maps BACKEND/SERVER to ADDRESS:PORT.

    Servers that the new configuration does not have are left out.
    """
    lines = {}
    for key, line in parse_lines_by_server(text).items():
        if key in addresses:
            row = line.split()
            host, dummy, row[PORT] = addresses[key].rpartition(":")
            row[ADDRESS] = host.strip("[]")
            lines[key] = " ".join(row)
    return render_server_state_file(lines)
