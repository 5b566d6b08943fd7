# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""likwid-bench: its command line for given CPUs and nodes, and its output.

likwid-bench runs threads on the first CPUs of a thread domain, in the order of its own list, and each thread reads
memory of its own node. So it measures only CPUs that read memory of their own nodes.

Source: likwid-bench of likwid 5.2.2, its help and its output.
"""

from __future__ import annotations

import re

from ..._errors import TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

PROGRAM = "likwid-bench"
LIST_COMMAND = (PROGRAM, "-p")
#: Number of runs of one second each. The fastest run counts, because a disturbance only makes a run slower.
RUNS = 5
DOMAIN = re.compile(r"^\s*Tag (\w+):((?: \d+)+)\s*$", re.MULTILINE)
RATE = re.compile(r"^MByte/s:\s+([\d.]+)\s*$", re.MULTILINE)
MEGABYTE = 10**6


def parse_thread_domains(text: str) -> dict[str, tuple[int, ...]]:
    """Return the CPUs of each thread domain, in its order, from the output of ``likwid-bench -p``."""
    return {tag: tuple(int(cpu) for cpu in cpus.split()) for tag, cpus in DOMAIN.findall(text)}


def read_bandwidth_command(
    domains: Mapping[str, Sequence[int]],
    cpus: Collection[int],
    nodes: Collection[int],
    size: int,
    flags: Collection[str],
) -> list[str] | None:
    """Return the command that measures how fast these CPUs read from these nodes; None where likwid-bench cannot.

    ``size`` are the bytes to read of each node. ``flags`` are the flags of the CPU in /proc/cpuinfo.
    """
    groups = []
    left = set(cpus)
    for node in sorted(nodes):
        local = left.intersection(domains.get(f"M{node}", ()))
        if not local or set(domains[f"M{node}"][: len(local)]) != local:
            return None
        groups += ["-W", f"M{node}:{-(-size // MEGABYTE)}MB:{len(local)}"]
        left -= local
    kernel = "load_avx512" if "avx512f" in flags else "load_avx"
    return None if left or not groups else [PROGRAM, "-s", "1", "-t", kernel, *groups]


def parse_gigabytes_per_second(text: str) -> float:
    """Return the GB/s of all groups together from the output of a run; TuningError for an output without a rate."""
    rates = RATE.findall(text)
    if len(rates) != 1 or not float(rates[0]):
        raise TuningError(f"{PROGRAM} ended without a line MByte/s. It says: {last_twenty_words(text)}")
    return float(rates[0]) / 1000


def last_twenty_words(text: str) -> str:
    """Return the last twenty words of a program's output, for an error message."""
    return " ".join(text.split()[-20:]) or "nothing"
