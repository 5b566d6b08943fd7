# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""IP addresses and ports as options give them; a service without authentication may only have a private address.

Source: RFC 1918, RFC 6598 (which overlay networks use), RFC 4193.
"""

from __future__ import annotations

from .._errors import BadRequest
from .numbers import parse_whole_number

LAST_PORT = 65535
#: The addresses and the name of this host that no other host reaches.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PRIVATE_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")


def require_private_address(text: object, option: str) -> str:
    """Return an IP address of a private network in its usual spelling; BadRequest for any other text.

    The error message begins with the name of the option.
    """
    # Imported here because most runs of the library read no address.
    import ipaddress

    try:
        address = ipaddress.ip_address(str(text).strip())
    except ValueError:
        raise BadRequest(
            f"{option}: '{text}' is no IP address. Give an address of a private network, as 10.20.0.2; a name could "
            "lead elsewhere tomorrow."
        ) from None
    networks = [ipaddress.ip_network(network) for network in PRIVATE_NETWORKS]
    if not any(address.version == network.version and address in network for network in networks):
        raise BadRequest(
            f"{option}: {address} is not an address of a private network ({', '.join(PRIVATE_NETWORKS)}), and what "
            "works there runs what anyone sends who can connect. Use a VLAN or WireGuard between the hosts, and its "
            "addresses."
        )
    return str(address)


def parse_port(value: object, lowest: int = 1) -> int | None:
    """Return a port as a number; None for a value that is no port, or a port below the lowest one."""
    number = parse_whole_number(value)
    return number if number is not None and lowest <= number <= LAST_PORT else None


def parse_endpoint(text: object, option: str) -> tuple[str, int]:
    """Split ADDRESS:PORT, or [ADDRESS]:PORT for IPv6, into a private address and a port from 1024 up."""
    host, dummy, port = str(text).strip().rpartition(":")
    number = parse_port(port, lowest=1024)
    if number is None:
        raise BadRequest(f"{option}: '{text}' has no port from 1024 to 65535. Write ADDRESS:PORT, as 10.20.0.2:50052.")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return require_private_address(bare, option), number


def format_endpoint(address: str, port: int) -> str:
    """Return ADDRESS:PORT, or [ADDRESS]:PORT for IPv6."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
