# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the number of nodes tells of the BIOS."""

from __future__ import annotations

from .setting import OFF, ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import Look, Seen

#: How many nodes the BIOS can make of a socket; NPS0 makes one node of two sockets.
NPS = (1, 2, 4)


def nps(look: Look) -> Seen:
    """Return the nodes per socket."""
    top = look.top
    if word := look.told("numa=off", "numa=fake"):
        return None, f"the kernel was started with {word}"
    nodes, sockets = len([node for node in top.nodes if node.cpus]), len(top.sockets)
    how = f"{nodes} NUMA nodes with CPUs, {sockets} socket{'s' if sockets > 1 else ''}, {len(top.l3)} L3 domains"
    if not look.fs.is_dir("/sys/devices/system/node/node0"):
        return None, "the kernel shows no NUMA nodes"
    if nodes == 1 and sockets == 2:
        return "NPS0", how
    per_socket, rest = divmod(nodes, sockets)
    if per_socket in NPS and not rest:
        return f"NPS{per_socket}", how
    if nodes == len(top.l3):
        return None, f"each L3 domain is a node of its own ({how})"
    return None, f"no BIOS setting gives {how}"


def l3_as_numa(look: Look) -> Seen:
    """Return whether each L3 domain is a node."""
    top = look.top
    nodes, sockets = len([node for node in top.nodes if node.cpus]), len(top.sockets)
    how = f"{nodes} NUMA nodes, {len(top.l3)} L3 domains"
    if nodes != len(top.l3):
        return OFF, how
    if nodes // sockets > max(NPS):
        return ON, how
    return None, f"NPS{nodes // sockets} alone gives one node per L3 domain too ({how})"
