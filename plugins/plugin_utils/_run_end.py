# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last lines of a run of site.yml or roll.yml: what was done, what waits for a reboot, and the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import REBOOT
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import commands
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold_host_names
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import count_with_noun, format_host_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VERIFY = "sovereign.epyc.verify"


class HostResult:
    """What a run did on a host: the numbers of changed settings by layer, and the boot parameters that wait.

    ``changes`` is None until the run has ended there, or has found that nothing is left to do.
    """

    def __init__(self) -> None:
        self.changes: dict[str, int] | None = None
        self.waiting: list[str] = []

    def to_sentences(self) -> str:
        """Return what was done and what waits."""
        changes = self.changes or {}
        layers = ", ".join(f"{layer} {count}" for layer, count in changes.items())
        settings = count_with_noun(sum(changes.values()), "setting")
        done = f"{settings} changed ({layers})." if changes else "nothing had to change."
        verb = "waits" if len(self.waiting) == 1 else "wait"
        return f"{done} {', '.join(self.waiting)} {verb} for a reboot." if self.waiting else done


def render_last_lines(
    results: Mapping[str, HostResult],
    failed: Sequence[str],
    again: commands.RunWithoutCheck,
    inventory: Sequence[str],
    hosts_pattern: str,
) -> Iterator[str]:
    """Yield a line for each kind of host, by what was done there, and the next command.

    The command is for the hosts that failed, else for those that wait for a reboot, else for all of them.
    """
    done = [host for host, result in results.items() if result.changes is not None and host not in failed]
    kinds: dict[str, list[str]] = {}
    for host in done:
        kinds.setdefault(results[host].to_sentences(), []).append(host)
    for sentences, hosts in kinds.items():
        yield f"DONE {_format_hosts(hosts)}: {sentences}"
    if failed:
        yield f"FAILED {_format_hosts(failed)}: the message is above."
        yield f"Next, when that is mended{', with the same -e' if again.extra_variables else ''}:"
        yield f"  {again.format_command_for_hosts(failed)}"
    elif done:
        waiting = [host for host in done if results[host].waiting]
        step = f"{REBOOT} -e epyc_reboot_ok=true" if waiting else VERIFY
        yield "Next:"
        yield f"  {commands.format_repair_command(step, waiting or done, inventory, hosts_pattern)}"


def _format_hosts(hosts: Sequence[str]) -> str:
    return format_host_group({"hosts": hosts, "label": fold_host_names(hosts)})
