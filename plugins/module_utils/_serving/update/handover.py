# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hands the port of a server over to a temporary server, without a connection that is refused or cut.

A table of nftables sends each new connection for the port of the instance to the port of the temporary server. Only the
first packet of a connection is redirected, so connections that are open stay with the server that accepted them. When
the rule is taken out, new connections reach the instance again, while the redirected ones go on: their packets need the
chains of the table, so the table is deleted only after the temporary server has ended.

The hooks of the unit, which must reach the instance itself, mark their packets with a DSCP (see hooks/server_http.py).
Source: nft(8); nf_nat_core.c and nf_conntrack_proto_tcp.c of the Linux kernel.
"""

from __future__ import annotations

import re
import shutil
import socket

from ..._io import command, textfile
from ..._notation.ip_addresses import LOOPBACK
from ..hooks.server_http import HOOK_DSCP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WILDCARDS = ("0.0.0.0", "::")
#: The chain with the redirection of first packets.
FIRST = "first-packets"
#: The old firewall of the kernel lists its tables here; nft does not show them.
LEGACY_TABLES = "/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"
#: A chain in the output of nft: its name, and its rules.
CHAIN = re.compile(r"^\tchain (\S+) \{\n(.*?)^\t\}", re.M | re.S)
JUMP = re.compile(r"\b(?:jump|goto) (\S+)")
#: The rule by which firewalld accepts redirected connections.
ACCEPTS_REDIRECTED = "ct status dnat accept"


class Handover:
    """The redirection of new connections for the port of one instance to the port of a temporary server.

    ``host`` is the address on which both servers listen. ``keeps_states`` is True where a firewall of the host follows
    the states of all connections. Elsewhere the kernel follows them only while the table exists, and what it knows of
    connections at an earlier update is out of date. So each handover has its connections in a zone of its own.
    """

    def __init__(self, instance: str, host: str, port: int, temporary_port: int) -> None:
        self.table = f"sovereign-epyc-{instance}"
        self.host = host
        self.port = port
        self.temporary_port = temporary_port
        self.keeps_states = False

    def redirection_impossible_reason(self) -> str:
        """Return a sentence on why new connections cannot be redirected on this host; "" where they can."""
        program = find_nft_program()
        if not program:
            return "With the package nftables on this host, new connections would be handed over without a gap."
        listing, old_firewall = command.try_command([program, "list", "ruleset"]), _has_legacy_filter()
        self.keeps_states = old_firewall or "ct state" in listing.out
        if self.host not in LOOPBACK and (old_firewall or _drops_redirected_packets(listing.out)):
            return (
                "New connections cannot be handed over, because a firewall of this host would drop them at the port "
                "of the new server."
            )
        result = command.try_command([program, "--check", self.render_table()])
        if result.code:
            reason = " ".join((result.err.strip().splitlines() or ["it says nothing"])[:1])
            return f"New connections cannot be handed over, because nft does not take the rules: {reason}"
        return ""

    def redirect_new_connections(self) -> None:
        """Send each new connection for the port to the temporary server from now on."""
        command.run_command([find_nft_program(), self.render_table()])

    def commands_before_drain(self) -> list[list[str]]:
        """Return the commands that stop the redirection, for the unit of the temporary server before it drains."""
        text = (
            f"add table inet {self.table}; add chain inet {self.table} {FIRST}; flush chain inet {self.table} {FIRST}"
        )
        return [[find_nft_program(), text]]

    def commands_after_stop(self) -> list[list[str]]:
        """Return the commands that delete the table, for the unit of the temporary server after its server ended."""
        return [[find_nft_program(), f"add table inet {self.table}; delete table inet {self.table}"]]

    def render_table(self) -> str:
        """Return the commands of nft that make the table, as one line; a table of this name is replaced."""
        table, port = self.table, self.port
        redirection = "; ".join(
            f"tcp flags & (fin|syn|rst|ack) == syn {address} tcp dport {port} dnat to :{self.temporary_port}"
            for address in _nft_conditions_of_listen_address(self.host)
        )
        chains = [f"chain {FIRST} {{ ip dscp {HOOK_DSCP} return; ip6 dscp {HOOK_DSCP} return; {redirection}; }}"]
        for hook in ("prerouting", "output"):
            chains.append(f"chain nat-{hook} {{ type nat hook {hook} priority -100; jump {FIRST}; }}")
            if not self.keeps_states:
                ports = f"{{ {port}, {self.temporary_port} }}"
                zone = "; ".join(f"tcp {side} {ports} ct zone set {self.temporary_port}" for side in ("dport", "sport"))
                chains.append(f"chain zone-{hook} {{ type filter hook {hook} priority -300; {zone}; }}")
        body = "; ".join(chains)
        return f"add table inet {table}; delete table inet {table}; table inet {table} {{ {body}; }}"


def find_nft_program() -> str:
    """Return the path of nft; "" where the host does not have it."""
    return shutil.which("nft", path=command.PATH) or ""


def _nft_conditions_of_listen_address(host: str) -> list[str]:
    """Return the conditions of nft for packets to a server that listens on this address, also one given as a name."""
    if host in WILDCARDS:
        family = "" if host == "::" else "meta nfproto ipv4 "
        return [f"{family}fib daddr type local"]
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys((family, address[0]) for family, dummy, more, name, address in found)
    return [f"{'ip6' if family == socket.AF_INET6 else 'ip'} daddr {address}" for family, address in addresses]


def _has_legacy_filter() -> bool:
    """Return whether the old firewall of the kernel has a table that filters packets."""
    return any("filter" in (textfile.read_text(path) or "").split() for path in LEGACY_TABLES)


def _drops_redirected_packets(rules: str) -> bool:
    """Return whether the rules drop some of the packets that this host receives, and do not accept redirected ones."""
    return any(
        re.search(r"\b(?:drop|reject)\b", text, re.I) is not None and ACCEPTS_REDIRECTED not in text
        for text in _list_input_rules(rules)
    )


def _list_input_rules(rules: str) -> Iterator[str]:
    """Yield the rules of each chain for received packets, with the rules of the chains to which it jumps."""
    for table in re.split(r"^(?=table )", rules, flags=re.M):
        chains = dict(CHAIN.findall(table))
        for name in [name for name, text in chains.items() if "type filter hook input" in text]:
            reached, waiting = "", [name]
            while waiting:
                text = chains.pop(waiting.pop(), "")
                reached += text
                waiting += JUMP.findall(text)
            yield reached
