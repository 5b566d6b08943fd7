# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of a handover, and when a host cannot have one; tests/service/test_llama_updates.py loads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.update import handover
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.update.handover import Handover

OPEN = """\
table inet docker {
	chain forward {
		type filter hook forward priority filter; policy drop;
	}

	chain input {
		type filter hook input priority filter; policy accept;
	}
}
"""
UFW = """\
table ip filter {
	chain ufw-user-input {
		tcp dport 8080 accept
	}

	chain ufw-reject {
		counter packets 0 bytes 0 REJECT
	}

	chain INPUT {
		type filter hook input priority filter; policy accept;
		jump ufw-user-input
		jump ufw-reject
	}
}
"""
FIREWALLD = """\
table inet firewalld {
	chain filter_INPUT {
		type filter hook input priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		reject with icmpx admin-prohibited
	}
}
"""
POLICY = """\
table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		tcp dport { 22, 8080 } accept
	}
}
"""


class Host:
    """A host with nft and these rules of a firewall."""

    def __init__(self, rules: str = "") -> None:
        self.rules = rules
        self.refusal = ""

    def try_command(self, words: Sequence[str]) -> CommandResult:
        if list(words) == ["/usr/sbin/nft", "list", "ruleset"]:
            return CommandResult(0, self.rules, "")
        assert list(words[:2]) == ["/usr/sbin/nft", "--check"]
        return CommandResult(1 if self.refusal else 0, "", self.refusal)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    fake = Host()
    monkeypatch.setattr(handover, "LEGACY_TABLES", ())
    monkeypatch.setattr(handover, "find_nft_program", lambda: "/usr/sbin/nft")
    monkeypatch.setattr(handover.command, "try_command", fake.try_command)
    return fake


def obstacle(address: str = "0.0.0.0") -> str:
    return Handover("chat", address, 8080, 41000).redirection_impossible_reason()


def test_without_nft_the_package_is_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert obstacle() == ""
    monkeypatch.setattr(handover, "find_nft_program", lambda: "")
    assert "package nftables" in obstacle()


@pytest.mark.parametrize(
    ("rules", "drops"),
    [("", False), (OPEN, False), (UFW, True), (FIREWALLD, False), (POLICY, True), (OPEN + UFW, True)],
)
def test_a_firewall_that_would_drop_redirected_connections_is_an_obstacle(host: Host, rules: str, drops: bool) -> None:
    host.rules = rules
    assert ("a firewall of this host would drop them" in obstacle()) == drops
    assert obstacle("127.0.0.1") == "", "a firewall lets the loopback pass"


def test_the_old_firewall_of_the_kernel_is_an_obstacle(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tmp_path / "ip_tables_names"
    monkeypatch.setattr(handover, "LEGACY_TABLES", (str(names), str(tmp_path / "none")))
    names.write_text("nat\n")
    assert obstacle() == ""
    names.write_text("nat\nfilter\n")
    assert "a firewall of this host would drop them" in obstacle()


def test_rules_that_the_kernel_does_not_take_are_an_obstacle(host: Host) -> None:
    host.refusal = "Error: Could not process rule: Operation not supported\nadd table\n"
    assert obstacle().endswith("does not take the rules: Error: Could not process rule: Operation not supported")


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("127.0.0.1", "ip daddr 127.0.0.1"),
        ("::1", "ip6 daddr ::1"),
        ("0.0.0.0", "meta nfproto ipv4 fib daddr type local"),
        ("::", "fib daddr type local"),
    ],
)
def test_only_first_packets_to_the_address_of_the_instance_are_redirected(address: str, condition: str) -> None:
    text = Handover("chat", address, 8080, 41000).render_table()
    assert f"(fin|syn|rst|ack) == syn {condition} tcp dport 8080 dnat to :41000;" in text
    assert "ip dscp 43 return; ip6 dscp 43 return; tcp flags" in text, "hooks reach the instance itself"
    assert text.startswith("add table inet sovereign-epyc-chat; delete table inet sovereign-epyc-chat; table inet")
    assert "\n" not in text


@pytest.mark.parametrize(("rules", "has_zone"), [(OPEN, True), (FIREWALLD, False)])
def test_what_the_kernel_knows_of_an_earlier_update_is_left_aside(host: Host, rules: str, has_zone: bool) -> None:
    host.rules = rules
    one = Handover("chat", "0.0.0.0", 8080, 41000)
    assert one.redirection_impossible_reason() == ""
    assert ("tcp dport { 8080, 41000 } ct zone set 41000" in one.render_table()) == has_zone
