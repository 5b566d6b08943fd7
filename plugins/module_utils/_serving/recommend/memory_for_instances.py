# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of a host that instances may have: what is available, and what its running instances hold."""

from __future__ import annotations

from ..plan.memory.free_memory import read_free_and_staged_memory
from ..unit.shared_host import list_memory_of_instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..options.options import Options
    from ..plan.memory.free_memory import FreeMemory

#: The share of each node's memory that stays for other programs and for the kernel.
RESERVED_SHARE = 0.05


def read_memory_for_instances(host: Host, options: Options, running_names: Sequence[str]) -> FreeMemory:
    """Return the memory for instances: available memory and the memory of running instances, less a reserve."""
    free = read_free_and_staged_memory(host, options, [])
    for name in running_names:
        for memory, pages in list_memory_of_instance(host, name):
            free.add_free_memory(memory, pages)
    free.add_free_memory({node.id: -int(RESERVED_SHARE * node.bytes) for node in host.topology.nodes}, {})
    return free
