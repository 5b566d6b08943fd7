# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bandwidth with which CPUs read the memory of nodes: measured, or estimated from the data sheet.

likwid-bench measures where it is installed and has thread domains of exactly these CPUs. Otherwise a C program of this
collection measures where there is a compiler. The instance must be idle, because each other reader of memory lowers the
result.
"""

from __future__ import annotations

import shutil

from ..._errors import BadRequest, TuningError
from ..._host.memory_channels import data_sheet_gbps_of_socket
from ..._io import command
from ..._notation.cpulist import format_cpulist
from . import likwid, memory_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.topology import Topology

#: The bytes to read are this multiple of the size of the L3 caches, and at least MIN_BYTES.
CACHE_MULTIPLE = 4
MIN_BYTES = 1 << 30
TIMEOUT = 300


class Bandwidth:
    """A memory bandwidth: ``gbps`` in GB/s (10^9 bytes), None for an unknown one, and ``source``, what measured it.

    ``measured`` is False for a figure of the data sheet. ``reasons`` are sentences why no better source was used.
    """

    def __init__(
        self, cpus: Sequence[int], nodes: Sequence[int], gbps: float | None, source: str, reasons: Sequence[str] = ()
    ) -> None:
        self.cpus = tuple(cpus)
        self.nodes = tuple(nodes)
        self.gbps = gbps
        self.source = source
        self.measured = source in ("likwid-bench", "reader")
        self.reasons = list(reasons)

    def to_dict(self) -> dict[str, object]:
        """Return plain data for the run document."""
        return {
            "cpus": format_cpulist(self.cpus),
            "nodes": format_cpulist(self.nodes),
            "gbps": None if self.gbps is None else round(self.gbps, 2),
            "source": self.source,
            "measured": self.measured,
            "reasons": self.reasons,
        }


def measure_bandwidth(
    top: Topology, cpus: Sequence[int], nodes: Sequence[int], policy: Sequence[str] = ()
) -> Bandwidth:
    """Return the bandwidth with which these CPUs read from these nodes, the best of five runs.

    ``policy`` is a command that sets a memory policy and runs another command, such as numactl with its options;
    without ``policy`` each CPU reads memory of its own node. BadRequest for no CPU, or where the nodes need a policy.
    """
    if not cpus:
        raise BadRequest("No CPUs were given to measure the bandwidth of; name those of the instance.")
    own = nodes_of_cpus(top, cpus)
    if not policy and own != set(nodes):
        raise BadRequest(
            f"CPUs {format_cpulist(cpus)} are on node {format_cpulist(own)}, and memory of node "
            f"{format_cpulist(nodes)} is asked for: give the policy too, for example numactl --membind="
            f"{format_cpulist(nodes)}."
        )
    reasons: list[str] = []
    for source, attempt in (("likwid-bench", _measure_gbps_with_likwid), ("reader", _measure_gbps_with_memory_reader)):
        try:
            return Bandwidth(
                cpus,
                nodes,
                attempt(top, cpus, nodes, policy, bytes_to_read_for_measurement(top, cpus)),
                source,
                reasons,
            )
        except TuningError as error:
            reasons.append(str(error))
    return data_sheet_bandwidth(top, cpus, nodes, reasons)


def data_sheet_bandwidth(
    top: Topology, cpus: Sequence[int], nodes: Sequence[int], reasons: Sequence[str] = ()
) -> Bandwidth:
    """Return the bandwidth of these nodes by the data sheet, as if all memory channels had modules."""
    socket = data_sheet_gbps_of_socket(top)
    if socket is None:
        return Bandwidth(cpus, nodes, None, "nothing", reasons)
    return Bandwidth(cpus, nodes, socket * max(1, len(top.sockets)) * len(nodes) / len(top.nodes), "paper", reasons)


def nodes_of_cpus(top: Topology, cpus: Sequence[int]) -> set[int]:
    """Return the nodes of these CPUs."""
    return {node.id for node in top.nodes if set(node.cpus) & set(cpus)}


def bytes_to_read_for_measurement(top: Topology, cpus: Sequence[int]) -> int:
    """Return the bytes to read for a measurement, which are more than the L3 caches of the CPUs hold."""
    return max(MIN_BYTES, CACHE_MULTIPLE * l3_cache_bytes(top, cpus))


def l3_cache_bytes(top: Topology, cpus: Sequence[int]) -> int:
    """Return the size in bytes of all L3 caches that these CPUs use."""
    return sum(domain.bytes for domain in top.l3 if set(domain.cpus) & set(cpus))


def _measure_gbps_with_likwid(
    top: Topology, cpus: Sequence[int], nodes: Sequence[int], policy: Sequence[str], total: int
) -> float:
    if not shutil.which(likwid.PROGRAM, path=command.PATH):
        raise TuningError(f"There is no {likwid.PROGRAM} in {command.PATH}; on Debian, the package likwid brings it.")
    words = None
    if not policy:
        domains = likwid.parse_thread_domains(command.run_command(likwid.LIST_COMMAND))
        words = likwid.read_bandwidth_command(domains, cpus, nodes, -(-total // len(nodes)), top.flags)
    if words is None:
        raise TuningError(
            f"{likwid.PROGRAM} has no thread domains that are CPUs {format_cpulist(cpus)} with memory on node "
            f"{format_cpulist(nodes)}."
        )
    return max(likwid.parse_gigabytes_per_second(_run_likwid_bench(words)) for dummy in range(likwid.RUNS))


def _run_likwid_bench(words: Sequence[str]) -> str:
    done = command.try_command(words, TIMEOUT)
    if done.code != 0:
        output = likwid.last_twenty_words(done.err or done.out)
        raise TuningError(f"{words[0]} failed with exit code {done.code}. It says: {output}")
    return done.out


def _measure_gbps_with_memory_reader(
    top: Topology, cpus: Sequence[int], nodes: Sequence[int], policy: Sequence[str], total: int
) -> float:
    return memory_reader.measure_fastest_read_gbps(cpus, -(-total // len(cpus)), policy)
