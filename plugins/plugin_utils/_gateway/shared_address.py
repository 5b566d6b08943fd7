# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several gateways: the addresses of the peers, and the settings of keepalived for the address that they share.

Peers send conversations and rates to each other. A single gateway is its own peer, because at a reload HAProxy sends
conversations and rates to its new process.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import parse_port
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Address = IPv4Address | IPv6Address

#: IP version -> the addresses in a bind of HAProxy that stand for all addresses of that version.
EVERYWHERE = {4: ("", "*", "0.0.0.0"), 6: ("::", "[::]")}


def list_gateway_names_and_binds(
    gateway: str, bind: object, hosts: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return ``name`` and ``bind`` of each gateway: its name for HAProxy, and its epyc_gateway_peers_bind.

    ``hosts`` are the variables of all gateways, in the order of the result. ``bind`` is the value for ``gateway``.
    BadRequest where two gateways have the same bind, or where other gateways cannot reach it.
    """
    binds = {str(host["inventory_hostname"]): str(host.get("epyc_gateway_peers_bind") or "") for host in hosts}
    binds[gateway] = str(bind)
    if len(binds) > 1:
        owners: dict[str, str] = {}
        for name, peer_bind in binds.items():
            _parse_reachable_peer_address(name, peer_bind)
            if owners.setdefault(peer_bind, name) != name:
                raise BadRequest(
                    f"{owners[peer_bind]} and {name} have the same epyc_gateway_peers_bind: give each its own."
                )
    return [{"name": gateway_name_for_haproxy(name), "bind": peer_bind} for name, peer_bind in binds.items()]


def gateway_name_for_haproxy(gateway: str) -> str:
    """Return the name of a gateway in characters that HAProxy accepts."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", gateway)


def build_keepalived_template_values(
    interfaces: Sequence[Mapping[str, Any]],
    gateway: str,
    settings: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the values for the template of keepalived, as the filter gateway_vrrp documents them.

    ``interfaces`` is the output of `ip -json address show` on the host. BadRequest where the address cannot be shared.
    """
    binds = {
        peer["name"]: peer["bind"] for peer in list_gateway_names_and_binds(gateway, settings["peers_bind"], hosts)
    }
    if len(binds) < 2:
        raise BadRequest(
            "epyc_gateway_virtual_address needs a second gateway: put another host into the group epyc_gateway."
        )
    place = list(binds).index(gateway_name_for_haproxy(gateway))
    source = _parse_reachable_peer_address(gateway, binds.pop(gateway_name_for_haproxy(gateway)))
    peers = [_parse_reachable_peer_address(name, bind) for name, bind in binds.items()]
    shared = _require_virtual_address(settings, source, [source, *peers])
    number = parse_whole_number(settings["virtual_router_id"])
    if number is None or not 1 <= number <= 255:
        raise BadRequest(
            f"epyc_gateway_virtual_router_id is '{settings['virtual_router_id']}': say a number from 1 to 255."
        )
    peer_interface = _find_interface_for_address(interfaces, source, has_address=True)
    if peer_interface is None:
        raise BadRequest(
            f"epyc_gateway_peers_bind names {source}, which no interface of {gateway} has: correct it, or set up the "
            "interface."
        )
    device = _find_interface_for_address(interfaces, shared, has_address=False)
    if device is None:
        raise BadRequest(
            f"epyc_gateway_virtual_address is {shared}, and no interface of {gateway} has a subnet with it: take a free"
            " address of a network that all gateways are in."
        )
    check_address, dummy, port_text = str(settings["metrics_bind"]).rpartition(":")
    port = parse_port(port_text)
    if port is None:
        raise BadRequest(
            f"epyc_gateway_metrics_bind is '{settings['metrics_bind']}': say an address and a port, as 127.0.0.1:8405."
        )
    return {
        "address": f"{shared}/{shared.max_prefixlen}",
        "device": device,
        "interface": peer_interface,
        "source": str(source),
        "peers": [str(address) for address in peers],
        "priority": max(250 - 10 * place, 1),
        "id": number,
        "check": {
            "address": "127.0.0.1" if check_address in EVERYWHERE[4] else check_address.strip("[]"),
            "port": port,
        },
    }


def _parse_reachable_peer_address(gateway: str, bind: str) -> Address:
    """Return the address of epyc_gateway_peers_bind; BadRequest where other gateways cannot reach it."""
    host, dummy, port = bind.rpartition(":")
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        address = None
    if address is None or address.is_loopback or address.is_unspecified or parse_port(port) is None:
        raise BadRequest(
            f"epyc_gateway_peers_bind of {gateway} is '{bind}', where no other gateway reaches it: set it in the "
            f"inventory to a private address of {gateway} and a port, as 10.0.0.11:8406, or set epyc_gateway_peers to "
            "[] for gateways that exchange nothing."
        )
    return address


def _require_virtual_address(
    settings: Mapping[str, Any], source: Address, gateway_addresses: Sequence[Address]
) -> Address:
    """Return the virtual address; BadRequest where the gateways cannot share it."""
    text = str(settings["virtual_address"])
    try:
        address = ip_address(text)
    except ValueError:
        raise BadRequest(f"epyc_gateway_virtual_address is '{text}': say an address without a prefix.") from None
    if address in gateway_addresses:
        raise BadRequest(
            f"epyc_gateway_virtual_address is {address}, which one of the gateways has: take a free address."
        )
    if address.version != source.version:
        raise BadRequest(
            f"epyc_gateway_virtual_address is {address} and epyc_gateway_peers_bind has {source}: VRRP needs the "
            "same version of IP for both."
        )
    bind = str(settings["bind"]).rpartition(":")[0]
    if bind not in EVERYWHERE[address.version]:
        all_addresses = "*" if address.version == 4 else "[::]"
        raise BadRequest(
            f"epyc_gateway_bind is '{settings['bind']}', where nobody is served at {address}: set it to "
            f"{all_addresses} and a port."
        )
    return address


def _find_interface_for_address(
    interfaces: Sequence[Mapping[str, Any]], address: Address, has_address: bool
) -> str | None:
    """Return the interface that has the address; without ``has_address``, that with the smallest subnet for it."""
    matches: list[tuple[int, str]] = []
    for interface in interfaces:
        if "LOOPBACK" in (interface.get("flags") or ()):
            continue
        for entry in interface.get("addr_info") or ():
            entry_interface = ip_interface(f"{entry['local']}/{entry['prefixlen']}")
            is_address, subnet = entry_interface.ip == address, entry_interface.network
            # The gateway that holds the shared address now has it without a subnet.
            if is_address if has_address else not is_address and address in subnet:
                matches.append((subnet.prefixlen, str(interface["ifname"])))
    return max(matches)[1] if matches else None
