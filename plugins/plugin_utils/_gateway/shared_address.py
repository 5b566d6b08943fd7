# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several gateways: the addresses of peers, and the values for keepalived of the address that they share.

Peers send conversations and rates to each other. A single gateway is its own peer, because HAProxy sends them to its
new process in a reload.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import parse_port
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Address = IPv4Address | IPv6Address

#: IP version -> the addresses in a bind of HAProxy that stand for all addresses of that version.
EVERYWHERE = {4: ("", "*", "0.0.0.0"), 6: ("::", "[::]")}


def list_peers(gateway: str, bind: object, hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return ``name`` and ``bind`` of each gateway, in the order of ``hosts``, which are their variables.

    ``bind`` is that of ``gateway`` itself; those of the others are in their variables.
    """
    binds = {str(host["inventory_hostname"]): str(host.get("epyc_gateway_peers_bind") or "") for host in hosts}
    binds[gateway] = str(bind)
    if len(binds) > 1:
        owners: dict[str, str] = {}
        for name, peer_bind in binds.items():
            _require_peer_address(name, peer_bind)
            if owners.setdefault(peer_bind, name) != name:
                raise BadRequest(
                    f"{owners[peer_bind]} and {name} have the same epyc_gateway_peers_bind: give each its own."
                )
    return [{"name": haproxy_name(name), "bind": peer_bind} for name, peer_bind in binds.items()]


def haproxy_name(gateway: str) -> str:
    """Return the name of a gateway in characters that HAProxy accepts."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", gateway)


def plan_vrrp(
    interfaces: Sequence[Mapping[str, Any]],
    gateway: str,
    settings: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the values for the template of keepalived, as the filter gateway_vrrp documents them.

    ``interfaces`` is the output of `ip -json address show` on the host. BadRequest where the address cannot be shared.
    """
    binds = {peer["name"]: peer["bind"] for peer in list_peers(gateway, settings["peers_bind"], hosts)}
    if len(binds) < 2:
        raise BadRequest(
            "epyc_gateway_virtual_address needs a second gateway: put another host into the group epyc_gateway."
        )
    place = list(binds).index(haproxy_name(gateway))
    own = _require_peer_address(gateway, binds.pop(haproxy_name(gateway)))
    others = [_require_peer_address(name, one) for name, one in binds.items()]
    shared = _require_shared_address(settings, own, [own, *others])
    number = parse_whole(settings["virtual_router_id"])
    if number is None or not 1 <= number <= 255:
        raise BadRequest(
            f"epyc_gateway_virtual_router_id is '{settings['virtual_router_id']}': say a number from 1 to 255."
        )
    between = _find_interface(interfaces, own, exactly=True)
    if between is None:
        raise BadRequest(
            f"epyc_gateway_peers_bind names {own}, which no interface of {gateway} has: correct it, or set up the "
            "interface."
        )
    device = _find_interface(interfaces, shared, exactly=False)
    if device is None:
        raise BadRequest(
            f"epyc_gateway_virtual_address is {shared}, and no interface of {gateway} has a subnet with it: take a free"
            " address of a network that all gateways are in."
        )
    check, dummy, word = str(settings["metrics_bind"]).rpartition(":")
    port = parse_port(word)
    if port is None:
        raise BadRequest(
            f"epyc_gateway_metrics_bind is '{settings['metrics_bind']}': say an address and a port, as 127.0.0.1:8405."
        )
    return {
        "address": f"{shared}/{shared.max_prefixlen}",
        "device": device,
        "interface": between,
        "source": str(own),
        "peers": [str(address) for address in others],
        "priority": max(250 - 10 * place, 1),
        "id": number,
        "check": {"address": check.strip("[]") if check not in EVERYWHERE[4] else "127.0.0.1", "port": port},
    }


def _require_peer_address(name: str, bind: str) -> Address:
    """Return the address of epyc_gateway_peers_bind; BadRequest where other gateways cannot reach it."""
    host, dummy, port = bind.rpartition(":")
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        address = None
    if address is None or address.is_loopback or address.is_unspecified or parse_port(port) is None:
        raise BadRequest(
            f"epyc_gateway_peers_bind of {name} is '{bind}', where no other gateway reaches it: set it in the "
            "inventory to"
            f" a private address of {name} and a port, as 10.0.0.11:8406, or set epyc_gateway_peers to [] for "
            "gateways that know nothing of each other."
        )
    return address


def _require_shared_address(settings: Mapping[str, Any], own: Address, taken: Sequence[Address]) -> Address:
    """Return the virtual address; BadRequest where the gateways cannot share it."""
    text = str(settings["virtual_address"])
    try:
        address = ip_address(text)
    except ValueError:
        raise BadRequest(f"epyc_gateway_virtual_address is '{text}': say an address without a prefix.") from None
    if address in taken:
        raise BadRequest(
            f"epyc_gateway_virtual_address is {address}, which one of the gateways has: take a free address."
        )
    if address.version != own.version:
        raise BadRequest(
            f"epyc_gateway_virtual_address is {address} and epyc_gateway_peers_bind has {own}: VRRP wants the same "
            "version of IP for both."
        )
    bind = str(settings["bind"]).rpartition(":")[0]
    if bind not in EVERYWHERE[address.version]:
        every = "*" if address.version == 4 else "[::]"
        raise BadRequest(
            f"epyc_gateway_bind is '{settings['bind']}', where nobody is served at {address}: set it to {every} and a "
            "port."
        )
    return address


def _find_interface(interfaces: Sequence[Mapping[str, Any]], wanted: Address, exactly: bool) -> str | None:
    """Return the interface that has an address ``exactly``, or else the interface with the smallest subnet for it."""
    matches: list[tuple[int, str]] = []
    for interface in interfaces:
        if "LOOPBACK" in (interface.get("flags") or ()):
            continue
        for entry in interface.get("addr_info") or ():
            own = ip_interface(f"{entry['local']}/{entry['prefixlen']}")
            # The current holder of the shared address has it without its subnet.
            if own.ip == wanted if exactly else own.ip != wanted and wanted in own.network:
                matches.append((own.network.prefixlen, str(interface["ifname"])))
    return max(matches)[1] if matches else None
