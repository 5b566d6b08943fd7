# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keepalived is told of the address that gateways share, and each address that they cannot share."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.filter import gateway_vrrp

VRRP = gateway_vrrp.FilterModule().filters()["gateway_vrrp"]
SETTINGS = {
    "bind": "*:443",
    "metrics_bind": "127.0.0.1:8405",
    "peers_bind": "10.0.0.12:8406",
    "virtual_address": "192.0.2.10",
    "virtual_router_id": "84",
}
GATEWAYS = [
    {"inventory_hostname": "one", "epyc_gateway_peers_bind": "10.0.0.11:8406"},
    {"inventory_hostname": "two", "epyc_gateway_peers_bind": "10.0.0.12:8406"},
    {"inventory_hostname": "three", "epyc_gateway_peers_bind": "10.0.0.13:8406"},
]
SIX = [
    {"inventory_hostname": "one", "epyc_gateway_peers_bind": "[fd00::11]:8406"},
    {"inventory_hostname": "two", "epyc_gateway_peers_bind": "[fd00::12]:8406"},
]


def interface(name: str, *addresses: str, flags: tuple[str, ...] = ("UP",)) -> dict[str, Any]:
    """Return an interface as `ip -json address show` does, with no more than what is read."""
    parted = [one.partition("/") for one in addresses]
    return {
        "ifname": name,
        "flags": list(flags),
        "addr_info": [{"local": address, "prefixlen": int(length)} for address, dummy, length in parted],
    }


INTERFACES = [
    interface("lo", "127.0.0.1/8", "192.0.2.9/24", flags=("LOOPBACK", "UP")),
    interface("eth0", "192.0.2.2/24"),
    interface("eth1", "10.0.0.12/16", "fd00::12/64", "2001:db8::2/64"),
]


def made(
    interfaces: list[dict[str, Any]] | None = None, gateways: list[dict[str, Any]] | None = None, **settings: Any
) -> dict[str, Any]:
    """Return what the filter makes of these interfaces and gateways, or of the usual ones."""
    interfaces = INTERFACES if interfaces is None else interfaces
    gateways = GATEWAYS if gateways is None else gateways
    return dict(VRRP(interfaces, "two", {**SETTINGS, **settings}, gateways))


def refused(**asked: Any) -> str:
    """Return why this is refused, which is one sentence."""
    with pytest.raises(AnsibleFilterError) as error:
        made(**asked)
    said = str(error.value)
    assert said.endswith(".") and len(re.findall(r"\.(?= |$)", said)) == 1, said
    return said


def test_traffic_between_gateways_has_an_interface_of_its_own() -> None:
    assert made() == {
        "address": "192.0.2.10/32",
        "device": "eth0",
        "interface": "eth1",
        "source": "10.0.0.12",
        "peers": ["10.0.0.11", "10.0.0.13"],
        "priority": 240,
        "id": 84,
        "check": {"address": "127.0.0.1", "port": 8405},
    }


def test_version_six() -> None:
    asked = {"bind": "[::]:443", "peers_bind": "[fd00::12]:8406", "virtual_address": "2001:db8::a"}
    found = made(gateways=SIX, metrics_bind="[::1]:8405", **asked)
    assert (found["address"], found["device"], found["source"]) == ("2001:db8::a/128", "eth1", "fd00::12")
    assert found["check"] == {"address": "::1", "port": 8405}


def test_the_smallest_subnet_decides() -> None:
    nested = [*INTERFACES, interface("eth2", "192.0.2.33/27"), interface("eth3", "192.0.2.3/28")]
    assert made(nested)["device"] == "eth3"


def test_who_holds_the_address_is_told_the_same() -> None:
    holding = [INTERFACES[0], interface("eth0", "192.0.2.2/24", "192.0.2.10/32"), INTERFACES[2]]
    assert made(holding) == made()


def test_metrics_on_every_address_are_asked_on_the_loopback() -> None:
    assert made(metrics_bind="*:9000")["check"] == {"address": "127.0.0.1", "port": 9000}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gateways": GATEWAYS[1:2]}, "epyc_gateway_virtual_address needs a second gateway"),
        ({"gateways": []}, "epyc_gateway_virtual_address needs a second gateway"),
        ({"peers_bind": "127.0.0.1:8406"}, "epyc_gateway_peers_bind of two is '127.0.0.1:8406'"),
        ({"peers_bind": "10.0.0.99:8406"}, "epyc_gateway_peers_bind names 10.0.0.99, which no interface of two has"),
        ({"virtual_address": "198.51.100.1"}, "epyc_gateway_virtual_address is 198.51.100.1, and no interface of two"),
        ({"virtual_address": "127.0.0.9"}, "epyc_gateway_virtual_address is 127.0.0.9, and no interface of two"),
        (
            {"virtual_address": "192.0.2.10/24"},
            "epyc_gateway_virtual_address is '192.0.2.10/24': say an address without",
        ),
        ({"virtual_address": "10.0.0.11"}, "epyc_gateway_virtual_address is 10.0.0.11, which one of the gateways has"),
        (
            {"virtual_address": "2001:db8::a"},
            "epyc_gateway_virtual_address is 2001:db8::a and epyc_gateway_peers_bind has",
        ),
        ({"bind": "192.0.2.2:443"}, "epyc_gateway_bind is '192.0.2.2:443', where nobody is served at 192.0.2.10"),
        ({"bind": "[::]:443"}, "epyc_gateway_bind is '[::]:443', where nobody is served at 192.0.2.10"),
        ({"virtual_router_id": 256}, "epyc_gateway_virtual_router_id is '256': say a number from 1 to 255"),
        ({"virtual_router_id": "x"}, "epyc_gateway_virtual_router_id is 'x'"),
    ],
)
def test_what_cannot_be_shared_is_refused(asked: dict[str, Any], said: str) -> None:
    assert refused(**asked).startswith(said)
