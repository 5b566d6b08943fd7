# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics of a host in addition to its drift: the installed version, the use of resctrl groups, pools of huge pages.

The names of the metrics begin with sovereign_epyc: node_exporter may get metrics of resctrl and huge pages too.
"""

from __future__ import annotations

from .._kernel import hugepages
from .._kernel.resctrl import FIXED
from .._notation.sizes import format_bytes
from .._version import VERSION
from .placement.resctrl_groups import DEFAULT_GROUP, ResctrlGroups

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
    OCCUPANCY: "Bytes of a resctrl group in the L3 cache of a domain.",
    BANDWIDTH: "Bytes of memory that a resctrl group has read and written, by L3 domain: of its own node, or of all.",
    HUGEPAGES: "Huge pages of the pools by node and size, whole and used.",
}


def read_host_samples_by_metric(fs: KernelFS) -> dict[str, list[Sample]]:
    """Return the samples by name of the metric, without metrics that this host cannot count now."""
    families: dict[str, list[Sample]] = {
        INFO: [({"version": VERSION}, 1)],
        OCCUPANCY: [],
        BANDWIDTH: [],
        HUGEPAGES: _read_huge_page_samples(fs),
    }
    groups = ResctrlGroups(fs)
    names = [name for name in fs.list_names(groups.mount) if name not in FIXED] if groups.mount else []
    # Without a mount, the default group has no counters.
    for group in [DEFAULT_GROUP, *names]:
        for domain, counters in groups.read_counters_by_l3_domain(group).items():
            labels = {"group": group, "domain": str(domain)}
            if counters["occupancy"] is not None:
                families[OCCUPANCY].append((labels, counters["occupancy"]))
            for kind in ("local", "total"):
                number = counters[kind]
                if number is not None:
                    families[BANDWIDTH].append(({**labels, "of": "node" if kind == "local" else "all"}, number))
    return {name: samples for name, samples in families.items() if samples}


def _read_huge_page_samples(fs: KernelFS) -> list[Sample]:
    samples: list[Sample] = []
    for node in hugepages.nodes_with_memory(fs):
        for kb in hugepages.list_page_sizes(fs):
            pool = hugepages.read_pool_size_and_use(fs, node, kb)
            if pool is not None:
                labels = {"node": str(node), "size": format_bytes(kb << 10).replace(" ", "")}
                samples += [({**labels, "state": state}, count) for state, count in zip(("whole", "used"), pool)]
    return samples
