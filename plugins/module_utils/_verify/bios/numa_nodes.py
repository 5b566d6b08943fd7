# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NUMA settings of the BIOS, by the number of nodes that the kernel shows."""

from __future__ import annotations

from .setting import OFF, ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import KernelView, Reading

#: The numbers of nodes that the BIOS can make of a socket; NPS0 makes a single node of two sockets.
NPS = (1, 2, 4)


def read_nodes_per_socket(view: KernelView) -> Reading:
    """Return the number of NUMA nodes per socket, such as "NPS1"."""
    top = view.top
    if word := view.find_first_boot_parameter("numa=off", "numa=fake"):
        return None, f"the kernel was started with {word}"
    nodes, sockets = len([node for node in top.nodes if node.cpus]), len(top.sockets)
    how = f"{nodes} NUMA nodes with CPUs, {sockets} socket{'s' if sockets > 1 else ''}, {len(top.l3)} L3 domains"
    if not view.fs.is_dir("/sys/devices/system/node/node0"):
        return None, "the kernel shows no NUMA nodes"
    if nodes == 1 and sockets == 2:
        return "NPS0", how
    per_socket, rest = divmod(nodes, sockets)
    if per_socket in NPS and not rest:
        return f"NPS{per_socket}", how
    if nodes == len(top.l3):
        return None, f"each L3 domain is a node of its own ({how})"
    return None, f"no BIOS setting gives {how}"


def read_l3_as_numa(view: KernelView) -> Reading:
    """Return whether each L3 domain is a NUMA node."""
    top = view.top
    nodes, sockets = len([node for node in top.nodes if node.cpus]), len(top.sockets)
    how = f"{nodes} NUMA nodes, {len(top.l3)} L3 domains"
    if nodes != len(top.l3):
        return OFF, how
    if nodes // sockets > max(NPS):
        return ON, how
    return None, f"NPS{nodes // sockets} alone gives one node per L3 domain too ({how})"
