# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The read bandwidth of a host: what its memory modules and CCDs allow, what was measured, and what is wrong with it.

A measurement is stored with the kernel, the BIOS version and the modules, and is not used after one of them changed.
A host that reads less than LEAST_SHARE of what its modules allow has a fault that no setting of software mends.
"""

from __future__ import annotations

from .._errors import TuningError
from .._io.store import MEMORY_SPEED, Store
from .._notation.numbers import format_utc_time
from .._notation.shape import LARGEST, Leaf
from .firmware import read_bios_version
from .memory_channels import (
    ASSUMED_SOCKET_GBPS,
    LEAST_SHARE,
    ccd_gbps,
    channels_gbps,
    count_channels_of_real_modules,
    find_socket_memory,
    loses_most_bandwidth,
)
from .smbios import read_memory_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Protocol

    from .._io.kernelfs import KernelFS
    from .memory_channels import FilledChannels, SocketMemory
    from .topology import Topology

    class KnownHost(Protocol):
        """A host of which the kernel files and the topology are known, as host.Host."""

        @property
        def fs(self) -> KernelFS:
            """The kernel files."""

        @property
        def topology(self) -> Topology:
            """The topology."""


#: The shapes of a bandwidth and of a node's number in the stored document, and of the whole document.
GBPS = Leaf("GB/s above 0", lambda value: isinstance(value, (int, float)) and 0 < value < LARGEST)
NODE = Leaf("the number of a node", lambda key: isinstance(key, str) and key.isdecimal())
SHAPE = {
    **dict.fromkeys(("measured", "kernel", "bios", "dimms", "nodes"), str),
    "gbps": GBPS,
    "by_node": {NODE: GBPS},
}
MEASURED, PAPER = "measured", "paper"
DIMMS, DATA_SHEET, UNKNOWN = "dimms", "data sheet", "unknown"
#: The share of the theoretical bandwidth that a host without a fault reads (0.74 to 0.88 was measured).
USUAL_SHARE = 0.82
#: The command that measures the bandwidth.
MEASURE_COMMAND = "playbooks/benchmark.yml with -e epyc_benchmark_memory=true"
#: What changed -> the words for it.
IDENTITY_WORDS = {
    "kernel": "another kernel",
    "bios": "another BIOS version",
    "dimms": "other memory modules",
    "nodes": "other NUMA nodes",
}


class MemorySpeed:
    """The read bandwidth of a host, in GB/s (10^9 bytes).

    ``theoretical_gbps`` is what the modules and the links of the CCDs allow, None for an unknown CPU.
    ``measured_gbps`` is None where nothing was measured that still counts; ``stale_reason`` says why a measurement does
    not count any more. ``faults`` are sentences, the worst first. ``is_slow`` is True for a host that loses so much
    bandwidth that everything that is tuned on it stands on a fault.
    """

    def __init__(self, top: Topology, memory: SocketMemory | None) -> None:
        self.top = top
        self.socket_memory = memory
        self.ccd_gbps = ccd_gbps(top)
        self.channels: FilledChannels | None = None
        self.theoretical_gbps: float | None = None
        self.theoretical_source = UNKNOWN
        self.measured_gbps: float | None = None
        self.measured_by_node: dict[int, float] = {}
        self.measured_at = ""
        self.stale_reason = ""
        self.faults: list[str] = []
        self.is_slow = False

    @property
    def share_of_theoretical_bandwidth(self) -> float | None:
        """Measured over theoretical bandwidth of the measured nodes; None where one of them is unknown."""
        if not self.measured_by_node or not self.theoretical_gbps:
            return None
        return self._measured_gbps_of_nodes / self._theoretical_gbps_of_nodes(self.measured_by_node)

    @property
    def _measured_gbps_of_nodes(self) -> float:
        """The GB/s of all measured nodes together."""
        return self.measured_gbps or sum(self.measured_by_node.values())

    def gbps_for(self, nodes: Collection[int], ccds: Collection[int] = ()) -> tuple[float, str]:
        """Return the GB/s with which some CCDs read from some nodes, and "measured" or "paper".

        ``ccds`` are numbers of CCDs; without any, no link limits. A paper figure is USUAL_SHARE of the theoretical one.
        """
        if nodes and set(nodes) <= set(self.measured_by_node):
            gbps, source = sum(self.measured_by_node[node] for node in set(nodes)), MEASURED
            gbps = min(gbps, self._measured_gbps_of_nodes)
        else:
            gbps, source = USUAL_SHARE * self._theoretical_gbps_of_nodes(nodes), PAPER
        if ccds and self.ccd_gbps:
            gbps = min(gbps, len(set(ccds)) * self.ccd_gbps)
        return gbps, source

    def to_dict(self) -> dict[str, object]:
        """Return plain data for facts and documents."""
        return {
            "theoretical_gbps": _round_gbps(self.theoretical_gbps),
            "theoretical_source": self.theoretical_source,
            "measured_gbps": _round_gbps(self.measured_gbps),
            "measured_by_node": {str(node): _round_gbps(gbps) for node, gbps in sorted(self.measured_by_node.items())},
            "measured_at": self.measured_at,
            "share": None
            if self.share_of_theoretical_bandwidth is None
            else round(self.share_of_theoretical_bandwidth, 3),
            "stale_reason": self.stale_reason,
            "faults": list(self.faults),
            "is_slow": self.is_slow,
        }

    def _theoretical_gbps_of_nodes(self, nodes: Collection[int]) -> float:
        """Return the share of the theoretical bandwidth of some nodes; nodes without CPUs (CXL) have none."""
        total = self.theoretical_gbps or ASSUMED_SOCKET_GBPS * max(1, len(self.top.sockets))
        near = nodes_with_channels(self.top)
        return total * len(set(nodes).intersection(near)) / max(1, len(near))


def load_memory_speed(host: KnownHost) -> MemorySpeed:
    """Return the bandwidth of a host, from its stored measurement, its firmware and its topology."""
    top = host.topology
    slots = read_memory_slots(host.fs)
    speed = MemorySpeed(top, find_socket_memory(top))
    speed.channels = count_channels_of_real_modules(top, slots)
    _set_theoretical_gbps(speed)
    _set_measured_gbps(speed, host.fs, slots.format_modules())
    _find_faults(speed)
    return speed


def read_identity(fs: KernelFS, top: Topology, dimms: str) -> dict[str, str]:
    """Return the facts with which a measurement stays valid: kernel, BIOS, memory modules and NUMA nodes."""
    nodes = [f"{node.id}: {len(node.cpus)} CPUs" for node in top.nodes]
    return {
        "kernel": top.kernel,
        "bios": read_bios_version(fs) or "",
        "dimms": dimms,
        "nodes": ", ".join(nodes),
    }


def save_measured_speed(host: KnownHost, store: Store, by_node: Mapping[int, float], gbps: float) -> None:
    """Store the measured bandwidth of a host: of each measured node, and of these nodes at the same time.

    Only a run that holds the lock of measuring runs stores it, so two never write at once.
    """
    identity = read_identity(host.fs, host.topology, read_memory_slots(host.fs).format_modules())
    measured = {str(node): round(rate, 2) for node, rate in by_node.items()}
    store.save_document(
        MEMORY_SPEED, {"measured": format_utc_time(), "gbps": round(gbps, 2), "by_node": measured, **identity}
    )


def nodes_with_channels(top: Topology) -> list[int]:
    """Return the nodes with memory channels of a socket: those with CPUs and memory; without any, all nodes."""
    return [node.id for node in top.nodes if node.cpus and node.bytes] or [node.id for node in top.nodes]


def _set_theoretical_gbps(speed: MemorySpeed) -> None:
    memory, sockets = speed.socket_memory, max(1, len(speed.top.sockets))
    if memory is None:
        return
    gbps, speed.theoretical_source = memory.gbps * sockets, DATA_SHEET
    if speed.channels:
        gbps, speed.theoretical_source = channels_gbps(speed.channels.filled, speed.channels.mts), DIMMS
    if speed.ccd_gbps and speed.top.ccds:
        gbps = min(gbps, speed.ccd_gbps * len(speed.top.ccds))
    speed.theoretical_gbps = gbps


def _set_measured_gbps(speed: MemorySpeed, fs: KernelFS, dimms: str) -> None:
    try:
        stored = Store(fs.root, read_only=True).load_cache(MEMORY_SPEED, SHAPE)
    except TuningError:
        return  # Only root can read the file.
    if not stored.get("gbps"):
        return
    identity = read_identity(fs, speed.top, dimms)
    # What cannot be read now, such as the modules without root, counts as unchanged.
    changed = [words for key, words in IDENTITY_WORDS.items() if identity[key] and identity[key] != stored.get(key)]
    if changed:
        speed.stale_reason = (
            f"The memory bandwidth that was measured at {stored.get('measured')} ({stored['gbps']:.0f} GB/s) does not "
            f"count any more: since then this host has {' and '.join(changed)}. Measure again: "
            f"{MEASURE_COMMAND}."
        )
        return
    speed.measured_by_node = {int(node): float(rate) for node, rate in stored.get("by_node", {}).items()}
    if set(speed.measured_by_node) >= set(nodes_with_channels(speed.top)):
        speed.measured_gbps = float(stored["gbps"])
    speed.measured_at = str(stored.get("measured", ""))


def _find_faults(speed: MemorySpeed) -> None:
    channels = speed.channels
    # A virtual machine has a part of the memory bandwidth of its host, and nobody knows which.
    is_virtual = "hypervisor" in speed.top.flags
    if (
        speed.share_of_theoretical_bandwidth is not None
        and speed.share_of_theoretical_bandwidth < LEAST_SHARE
        and not is_virtual
    ):
        speed.is_slow = True
        speed.faults.append(_slow_memory_message(speed))
    if channels is None:
        return
    left, whole = channels_gbps(channels.filled, channels.mts), channels_gbps(channels.total, channels.mts)
    if channels.filled < channels.total:
        speed.faults.append(
            f"Only {channels.filled} of {channels.total} memory channels have a module, so at most {left:.1f} of "
            f"{whole:.1f} GB/s can be read. Put a module into each channel."
        )
    if loses_most_bandwidth(speed.top, channels):
        speed.is_slow = True
        if channels.filled == channels.total and speed.socket_memory:
            speed.faults.append(
                f"The memory runs at {channels.mts} of {speed.socket_memory.mts} MT/s, so at most {left:.1f} GB/s can "
                "be read. Look at the memory speed in the BIOS, and at the modules."
            )


def _slow_memory_message(speed: MemorySpeed) -> str:
    share, suspects = speed.share_of_theoretical_bandwidth or 1.0, ", ".join(_list_suspects(speed))
    measured = speed.measured_gbps or sum(speed.measured_by_node.values())
    return (
        f"This host reads {measured:.0f} of {measured / share:.0f} GB/s from its memory, {share:.0%}; "
        f"below {LEAST_SHARE:.0%} something is wrong that no setting of software mends, and everything that is tuned "
        f"here stands on it. Suspects, the likeliest first: {suspects}. Measure again after a change: "
        f"{MEASURE_COMMAND}."
    )


def _list_suspects(speed: MemorySpeed) -> Sequence[str]:
    """Return the possible reasons for slow memory, the likeliest first, without what the firmware rules out."""
    channels, memory = speed.channels, speed.socket_memory
    suspects = ["memory interleave is off in the BIOS"]
    if channels is None or memory is None or channels.filled < channels.total or channels.mts < memory.mts:
        suspects.append("memory modules are missing or slow")
    if speed.ccd_gbps and memory and speed.top.ccds:
        per_socket = len(speed.top.ccds) / max(1, len(speed.top.sockets))
        if per_socket * speed.ccd_gbps < memory.gbps:
            suspects.append(f"there are only {len(speed.top.ccds)} CCDs to read through")
    return [*suspects, "page cache filled the nodes when it was measured"]


def _round_gbps(gbps: float | None) -> float | None:
    return None if gbps is None else round(gbps, 1)
