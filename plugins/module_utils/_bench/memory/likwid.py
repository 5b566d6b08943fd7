# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""likwid-bench: its command line for given CPUs and nodes, and its output.

It reads on the first threads of a domain, in the order in which it lists them, and each thread reads memory that it
touched first. So it can measure CPUs that read the memory of their own nodes, and no others.

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
#: Number of runs of one second each. The best one counts, because disturbances only make a run slower.
RUNS = 5
DOMAIN = re.compile(r"^\s*Tag (\w+):((?: \d+)+)\s*$", re.MULTILINE)
RATE = re.compile(r"^MByte/s:\s+([\d.]+)\s*$", re.MULTILINE)
MEGABYTE = 10**6


def parse_domains(text: str) -> dict[str, tuple[int, ...]]:
    """Return the CPUs of each thread domain, in its order, from the output of ``likwid-bench -p``."""
    return {tag: tuple(int(cpu) for cpu in cpus.split()) for tag, cpus in DOMAIN.findall(text)}


def bench_command(
    domains: Mapping[str, Sequence[int]],
    cpus: Collection[int],
    nodes: Collection[int],
    size: int,
    flags: Collection[str],
) -> list[str] | None:
    """Return the command that measures these CPUs reading from these nodes; None where likwid-bench cannot.

    ``size`` is in bytes, of each node. ``flags`` are those of the CPU, as the kernel shows them.
    """
    groups = []
    left = set(cpus)
    for node in sorted(nodes):
        mine = left.intersection(domains.get(f"M{node}", ()))
        if not mine or set(domains[f"M{node}"][: len(mine)]) != mine:
            return None
        groups += ["-W", f"M{node}:{-(-size // MEGABYTE)}MB:{len(mine)}"]
        left -= mine
    kernel = "load_avx512" if "avx512f" in flags else "load_avx"
    return None if left or not groups else [PROGRAM, "-s", "1", "-t", kernel, *groups]


def parse_rate(text: str) -> float:
    """Return GB/s of all groups together from the output of a run; TuningError where it has no rate."""
    found = RATE.findall(text)
    if len(found) != 1 or not float(found[0]):
        raise TuningError(f"{PROGRAM} ended without a line MByte/s. It says: {last_words(text)}")
    return float(found[0]) / 1000


def last_words(text: str) -> str:
    """Return the last twenty words of a program's output, for an error message."""
    return " ".join(text.split()[-20:]) or "nothing"
