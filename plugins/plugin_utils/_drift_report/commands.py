# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines that the end of a run and the drift report show: repairs, and a run in check mode without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.next_step import choose_next_repair, is_playbook
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import escaping

if TYPE_CHECKING:
    from collections.abc import Sequence

    Document = dict[str, Any]


class RunWithoutCheck:
    """The command line that makes the changes which a run in check mode reported: the same run without --check.

    ``extra_variables`` is True where the run had variables that the command line here leaves out.
    """

    def __init__(self, words: Sequence[str], extra_variables: bool = False) -> None:
        self.command_words = words
        self.extra_variables = extra_variables

    def format_command_for_hosts(self, hosts: Sequence[str]) -> str:
        """Return the command line, limited to these hosts."""
        return " ".join(map(escaping.quote_for_shell, [*self.command_words, "-l", ",".join(hosts)]))

    def build_next_step_field(self, hosts: Sequence[str]) -> Document | None:
        """Return the field ``next`` of the report: the command line for some hosts, or None for no hosts."""
        return (
            {"command": self.format_command_for_hosts(hosts), "extra_variables": self.extra_variables}
            if hosts
            else None
        )


def format_repair_command(repair: str, hosts: Sequence[str], inventory: Sequence[str], hosts_pattern: str = "") -> str:
    """Return the command line that repairs a finding on these hosts; "" for a finding without a repair.

    ``hosts_pattern`` is the extra variable epyc_hosts of the run that found it.
    """
    where = [word for name in inventory for word in ("-i", name)]
    if not repair:
        return ""
    if is_playbook(repair):
        playbook, *options = repair.split()
        chosen = ["-e", f"epyc_hosts={hosts_pattern}"] if hosts_pattern else []
        words = ["ansible-playbook", *where, playbook, *chosen, "-l", ",".join(hosts), *options]
    else:
        words = ["ansible", ",".join(hosts), *where, "--become", "-m", "ansible.builtin.command", "-a", repair]
    return " ".join(map(escaping.quote_for_shell, words))


def build_next_repair_field(findings: Sequence[Document], inventory: Sequence[str], pattern: str) -> Document | None:
    """Return the field ``next`` of a report on drift: the repair to make first, or None where nothing repairs."""
    repair, covered = choose_next_repair([finding["repair"] for finding in findings])
    hosts = {host: None for finding in findings if finding["repair"] in covered for host in finding["hosts"]}
    command = format_repair_command(repair, list(hosts), inventory, pattern)
    return {"command": command, "extra_variables": False} if command else None
