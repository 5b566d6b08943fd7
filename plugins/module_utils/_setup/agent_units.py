# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent's socket and service: systemd listens, and starts the service when a gateway connects.

Addresses are as in host_tool.py. A service runs until a minute has passed without a request: a new service for each
request would need a new control group and write two records into the audit log each time.
Source: systemd.socket(5), systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

import ipaddress
import json
import os
import re

from .. import _agent
from .._agent import OUT, SERVICE, SOCKET
from .._errors import BadRequest, TuningError
from .._host.host import Host
from .._io import textfile as textfiles
from .._io.paths import HOST_TOOL_FOLDER, UNIT_FOLDER
from .._knobs.managed_files import ManagedFiles
from .._knobs.managed_units import ManagedUnits, unit_property_address
from .._knobs.protocol.stored_requests import load_stored_requests
from .._notation.cpulist import format_cpulist
from .host_tool_files import choose_python_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .._io.store import Store
    from .._knobs.protocol.knob import Change, Settings

PREFIX = "host_tool"
STARTED_BY = {SOCKET: "sockets.target"}
#: Default dependencies would stop the units at the begin of a shutdown. Without them, the agent answers until its end.
UNITS = {
    SOCKET: """# Installed by sovereign.epyc: do not change it here.

[Unit]
Description=Listen for gateways that ask how many requests this host can take
DefaultDependencies=no
After=sysinit.target

[Socket]
ListenStream={listen}
# The host may get the address after the socket is started.
FreeBind=yes
IPAddressDeny=any
IPAddressAllow={allow}

[Install]
WantedBy=sockets.target
""",
    SERVICE: """# Installed by sovereign.epyc: do not change it here.

[Unit]
Description=Answer gateways how many requests this host can take
DefaultDependencies=no
Requires={socket}
After={socket}
StartLimitIntervalSec=0

[Service]
ExecStart={python} -IS -c "import sys; sys.path.insert(0, '{engine}'); from sovereign_epyc._agent import serve; serve()"
{cpus}# Only root reaches systemd without D-Bus, which a shutdown ends; so this runs as root, without capabilities.
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateDevices=yes
PrivateTmp=yes
# The service gets its socket from systemd, and needs no other network.
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077

{section}{options}
""",
}
PLACE = re.compile(r"(\*|[0-9.]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})\Z", re.ASCII)
LOOPBACKS = ("127.0.0.0/8", "::1/128")
EVERYWHERE = ("*", "0.0.0.0", "::")
SHARE = re.compile(r"(100|[0-9]{1,2})%?\Z", re.ASCII)
#: A check is too old after this number of intervals and the longest time of a boot in seconds.
MISSED, BOOT_SECONDS = 3, 300.0


class AgentUnits(ManagedUnits, ManagedFiles):
    """The units of the agent; without options they are to be removed from the host."""

    prefix = PREFIX
    started_by = STARTED_BY

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        textfile: str = "",
        interval: float = 0.0,
        cpus: str = "",
        root: str = "/",
    ) -> None:
        """``options`` are those of the agent. The units run on ``cpus``, or on all CPUs.

        ``textfile`` is the path of the file to which the check of the host writes its metrics every ``interval``
        seconds. Raises BadRequest for options that cannot be written to a unit, or not safely.
        """
        super().__init__(_render_agent_units(options, textfile, interval, cpus) if options else {}, root)

    def wanted_settings(self) -> Settings:
        """Return the wanted files, and the socket as enabled and active; without files, all units as absent."""
        if self.files:
            on = {
                unit_property_address(PREFIX, SOCKET, "enabled"): "enabled",
                unit_property_address(PREFIX, SOCKET, "active"): "active",
            }
            return {**super().wanted_settings(), **on}
        files = {name: f"{UNIT_FOLDER}/{name}" for name in UNITS}
        present = [name for name, path in files.items() if os.path.lexists(textfiles.path_in_tree(self.root, path))]
        wanted: Settings = {f"{PREFIX}:{files[name]}": None for name in present}
        wanted.update({unit_property_address(PREFIX, name, "active"): None for name in present})
        wanted.update({unit_property_address(PREFIX, name, "enabled"): None for name in present if name == SOCKET})
        return wanted

    def list_outdated_units(self, files: Sequence[Change]) -> list[str]:
        """Return the units to restart after these changes of files; the service is restarted with its socket."""
        written = [
            name
            for name in UNITS
            if any(change.address == _address_of_unit_file(name) and change.after for change in files)
        ]
        return written[:1]


def format_planned_housekeeping_cpus(host: Host, store: Store, intent: Mapping[str, Any] | None) -> str:
    """Return the housekeeping CPUs of the plan as a list; an empty text where this host cannot be planned.

    Without an intent, the stored one is used, so that every run gets the same CPUs.
    """
    try:
        return format_cpulist((host if intent else Host(host.fs, load_stored_requests(store)[0])).plan.housekeeping)
    except TuningError:
        return ""


def _render_agent_units(options: Mapping[str, Any], textfile: str, interval: float, cpus: str) -> dict[str, str]:
    """Return the texts of the units by their paths."""
    address, port = _parse_listen_address(str(options["bind"]))
    everywhere = address == "*"
    if not isinstance(options["allow"], (list, tuple)):
        raise BadRequest(f"agent_allow is '{options['allow']}': say a list of addresses or networks of gateways.")
    allow = [_parse_network(str(network)) for network in options["allow"]]
    if not allow:
        if everywhere or not ipaddress.ip_address(address).is_loopback:
            raise BadRequest(
                f"agent_bind is '{options['bind']}', where every host could connect: name the gateways in agent_allow."
            )
        allow = [*LOOPBACKS]
    shares = {key: _parse_share_of_requests(key, str(options[key])) for key in ("untuned", "unknown")}
    section = {
        **_agent.DEFAULTS,
        **shares,
        "allow": allow,
        "textfile": textfile,
        "oldest": MISSED * interval + BOOT_SECONDS,
    }
    fields = {
        "listen": port if everywhere else f"[{address}]:{port}" if ":" in address else f"{address}:{port}",
        "allow": " ".join(allow),
        "socket": SOCKET,
        "python": choose_python_path(),
        "engine": HOST_TOOL_FOLDER,
        "cpus": f"CPUAffinity={cpus}\n" if cpus else "",
        "section": _agent.SECTION,
        "options": json.dumps(section, sort_keys=True),
    }
    return {f"{UNIT_FOLDER}/{name}": text.format(**fields) for name, text in UNITS.items()}


def _parse_listen_address(text: str) -> tuple[str, str]:
    """Return address and port of the socket, from ADDRESS:PORT; the address * means all addresses of the host."""
    match = PLACE.match(text)
    try:
        address = str(ipaddress.ip_address(match[1].strip("[]"))) if match and match[1] != "*" else "*"
    except ValueError:
        match = None
    if not match or not 0 < int(match[2]) < 1 << 16:
        raise BadRequest(f"agent_bind is '{text}': say an address and a port, as 10.0.0.11:8407 or *:8407.")
    return ("*" if address in EVERYWHERE else address), match[2]


def _parse_network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise BadRequest(
            f"agent_allow has '{text}': say addresses or networks of gateways, as 10.0.0.2 or 10.0.0.0/24."
        ) from None


def _parse_share_of_requests(key: str, text: str) -> str:
    """Return a share of requests in HAProxy's notation, such as "50%", or HAProxy's word for no requests."""
    match = SHARE.match(text)
    if not match and text != OUT:
        raise BadRequest(f"agent_{key} is '{text}': say a share from 0% to 100%, or {OUT}.")
    return f"{int(match[1])}%" if match else OUT


def _address_of_unit_file(name: str) -> str:
    return f"{PREFIX}:{UNIT_FOLDER}/{name}"
