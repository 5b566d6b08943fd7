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

import os
import re
import shutil
import socket

from ..._errors import TuningError
from ..._io import command
from ..hooks.server_http import HOOK_DSCP
from ..options.option_table import LOOPBACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WILDCARDS = ("0.0.0.0", "::")
#: The chains with the redirection of first packets, and with the limit for connections that are tracked.
FIRST, TRACK = "first-packets", "track"
#: The kernel forgets a connection that was not redirected after these idle seconds. Its default of five days would have
#: a later connection with the same ports pass by the redirection of a later update.
TRACKED_SECONDS = 300
#: The old firewall of the kernel lists its tables here; nft does not show them.
LEGACY_TABLES = "/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"
#: A chain in the output of nft: its name, and its rules.
CHAIN = re.compile(r"^\tchain (\S+) \{\n(.*?)^\t\}", re.M | re.S)
JUMP = re.compile(r"\b(?:jump|goto) (\S+)")
#: The rule by which firewalld accepts redirected connections.
ACCEPTS_REDIRECTED = "ct status dnat accept"


class Handover:
    """The redirection of new connections for the port of one instance to the port of a temporary server.

    ``host`` is the address on which both servers listen.
    """

    def __init__(self, instance: str, host: str, port: int, temporary_port: int) -> None:
        self.table = f"sovereign-epyc-{instance}"
        self.host = host
        self.port = port
        self.temporary_port = temporary_port

    def find_obstacle(self) -> str:
        """Return a sentence on why new connections cannot be redirected on this host; "" where they can."""
        program = find_nft_program()
        if not program:
            return "With the package nftables on this host, new connections would be handed over without a gap."
        if self.host not in LOOPBACK and _firewall_drops_redirected_packets():
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
        syn = "tcp flags & (fin|syn|rst|ack) == syn"
        chains = [
            f"ip dscp {HOOK_DSCP} return; ip6 dscp {HOOK_DSCP} return; "
            + "; ".join(
                f"{syn} {address} tcp dport {port} dnat to :{self.temporary_port}"
                for address in _match_addresses(self.host)
            ),
            *(f"type nat hook {hook} priority -100; jump {FIRST}" for hook in ("prerouting", "output")),
            "; ".join(
                f'meta nfproto {family} tcp {side} {port} ct timeout set "{family}"'
                for family in ("ipv4", "ipv6")
                for side in ("dport", "sport")
            ),
            *(f"type filter hook {hook} priority 0; jump {TRACK}" for hook in ("prerouting", "output")),
        ]
        names = (FIRST, "redirect-in", "redirect-out", TRACK, "track-in", "track-out")
        timeouts = "; ".join(
            f"ct timeout {name} {{ protocol tcp; l3proto {family}; policy = {{ established : {TRACKED_SECONDS} }}; }}"
            for name, family in (("ipv4", "ip"), ("ipv6", "ip6"))
        )
        body = "; ".join(f"chain {name} {{ {rules}; }}" for name, rules in zip(names, chains))
        return f"add table inet {table}; delete table inet {table}; table inet {table} {{ {timeouts}; {body}; }}"


def find_nft_program() -> str:
    """Return the path of nft; "" where the host does not have it."""
    return shutil.which("nft", path=command.PATH) or ""


def _match_addresses(host: str) -> list[str]:
    """Return the conditions of nft for packets to a server that listens on this address, also one given as a name."""
    if host in WILDCARDS:
        family = "" if host == "::" else "meta nfproto ipv4 "
        return [f"{family}fib daddr type local"]
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys((family, address[0]) for family, dummy, more, name, address in found)
    return [f"{'ip6' if family == socket.AF_INET6 else 'ip'} daddr {address}" for family, address in addresses]


def _firewall_drops_redirected_packets() -> bool:
    """Return whether a firewall filters the packets that this host receives, and does not accept redirected ones."""
    for path in LEGACY_TABLES:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                if "filter" in file.read().split():
                    return True
    try:
        rules = command.run_command([find_nft_program(), "list", "ruleset"])
    except TuningError:
        return True
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
