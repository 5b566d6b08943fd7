# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines at the end of a run and in the drift report: the run again, without check mode, and repairs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ansible import constants, context
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.next_step import choose_next_repair, is_playbook
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kept_files import lost_files
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


def command_line_inventories() -> list[str]:
    """Return the inventories of the command line, as paths relative to the working directory where possible.

    For a job of ansible-runner they are left out, because its inventory is a copy in a folder of the job.
    """
    names = list(context.CLIARGS.get("inventory") or [])
    if names == list(constants.DEFAULT_HOST_LIST) or lost_files.ARTIFACTS_VARIABLE in os.environ:
        return []
    folder = f"{os.getcwd()}{os.sep}"
    return [name[len(folder) :] if name.startswith(folder) else name for name in names]


def command_line_hosts_pattern() -> str:
    """Return the extra variable epyc_hosts, which names the hosts of playbooks; "" without it."""
    return str(load_extra_vars(DataLoader()).get("epyc_hosts", ""))


def command_line_without_check(inventory: Sequence[str]) -> RunWithoutCheck:
    """Return the command line of this run without --check and without --limit.

    The command line repeats only variables in files, because variables on a command line may be secrets.
    """
    options = context.CLIARGS
    command_line = ["ansible-playbook", *(word for name in inventory for word in ("-i", name))]
    command_line += options.get("args") or ()
    tags = [tag for tag in options.get("tags") or () if tag != "all"]
    for option, names in (("--tags", tags), ("--skip-tags", options.get("skip_tags") or ())):
        command_line += [option, ",".join(names)] if names else []
    extra = [str(text) for text in options.get("extra_vars") or ()]
    files = [text for text in extra if text.startswith("@")]
    return RunWithoutCheck([*command_line, *(word for file in files for word in ("-e", file))], len(files) < len(extra))
