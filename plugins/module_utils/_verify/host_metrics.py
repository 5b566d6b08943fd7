# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host tells beside its drift: the installed version, what resctrl groups use, and its pools of huge pages.

The names are our own: those that node_exporter may get for the same would clash with it in one scrape.
"""

from __future__ import annotations

from .._kernel import hugepages
from .._kernel.resctrl import FIXED
from .._notation.sizes import format_bytes
from .._version import VERSION
from .placement.resctrl_groups import DEFAULT, Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._drift.metrics import Sample
    from .._io.kernelfs import KernelFS

INFO = "sovereign_epyc_info"
OCCUPANCY = "sovereign_epyc_l3_occupancy_bytes"
BANDWIDTH = "sovereign_epyc_memory_bytes_total"
HUGEPAGES = "sovereign_epyc_hugepages"
HELP = {
    INFO: "The version of the collection that is installed on the host.",
    OCCUPANCY: "What a resctrl group has in the L3 of a domain.",
    BANDWIDTH: "What a resctrl group has read and written of memory, by L3 domain: of its own node, or of all.",
    HUGEPAGES: "Huge pages of the pools by node and size, whole and used.",
}


def families(fs: KernelFS) -> dict[str, list[Sample]]:
    """Return samples by name. What the host does not have, or the hardware does not count now, has none."""
    found: dict[str, list[Sample]] = {
        INFO: [({"version": VERSION}, 1)],
        OCCUPANCY: [],
        BANDWIDTH: [],
        HUGEPAGES: _hugepages(fs),
    }
    groups = Groups(fs)
    names = [DEFAULT, *(name for name in fs.list_names(groups.mount) if name not in FIXED)] if groups.mount else []
    for group in names:
        for domain, counters in groups.counters(group).items():
            labels = {"group": group, "domain": str(domain)}
            if counters["occupancy"] is not None:
                found[OCCUPANCY].append((labels, counters["occupancy"]))
            for kind in ("local", "total"):
                number = counters[kind]
                if number is not None:
                    found[BANDWIDTH].append(({**labels, "of": "node" if kind == "local" else "all"}, number))
    return {name: samples for name, samples in found.items() if samples}


def _hugepages(fs: KernelFS) -> list[Sample]:
    samples: list[Sample] = []
    for node in hugepages.nodes_with_memory(fs):
        for kb in hugepages.list_page_sizes(fs):
            pool = hugepages.read_pool(fs, node, kb)
            if pool is not None:
                labels = {"node": str(node), "size": format_bytes(kb << 10).replace(" ", "")}
                samples += [({**labels, "state": state}, count) for state, count in zip(("whole", "used"), pool)]
    return samples
