# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The groups of the inventory that the collection reads, the variables that name others, and the hosts of a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.parsing.dataloader import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The group of the servers that the collection tunes.
SERVERS = "epyc_servers"
#: For each group the variable with the name of the group that takes its place, or with a pattern of hosts.
GROUP_VARIABLES = {
    SERVERS: "epyc_hosts",
    "epyc_gateway": "epyc_gateway_group_name",
    "epyc_monitoring": "epyc_monitoring_group_name",
    "epyc_llama_group": "epyc_llama_group_name",
}


def choose_group_pattern(group: str, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> str:
    """Return the pattern of the hosts of a group: the value of its variable, or else the name of the group.

    A ``group`` that has no variable is returned unchanged. Raises AnsibleError for a value that is no text, and for an
    empty one, by which Ansible would choose every host.
    """
    variable = GROUP_VARIABLES.get(group)
    if variable is None or variable not in variables:
        return group
    pattern = template(variables[variable])
    if not isinstance(pattern, str) or not split_host_pattern(pattern):
        raise AnsibleError(
            f"{variable} must be the name of a group or a pattern of hosts, as a text that is not empty. Nothing was "
            "changed."
        )
    return pattern


def list_hosts_of_pattern(pattern: str, groups: Mapping[str, Sequence[str]], limit: str = "") -> list[str]:
    """Return the names of the hosts that match a pattern and a limit, in the order of the inventory.

    ``groups`` are the hosts of each group.
    """
    if pattern in groups and not limit:
        return list(groups[pattern])
    inventory = InventoryManager(loader=DataLoader(), parse=False)
    for group, hosts in groups.items():
        inventory.add_group(group)
        for host in hosts:
            inventory.add_host(host, group=group)
    if limit:
        inventory.subset(limit)
    return [host.name for host in inventory.get_hosts(pattern)]
