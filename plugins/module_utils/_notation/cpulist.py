# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of CPUs in the kernel's two notations, lists as ``0-3,8`` and hexadecimal masks as ``1,000000ff``.

Source: Documentation/admin-guide/cputopology.rst and kernel-parameters.rst (cpu lists) of the Linux kernel; for masks
lib/bitmap-str.c (bitmap_parse, bitmap_parselist) and lib/vsprintf.c (bitmap_string).
"""

from __future__ import annotations

from .numbers import parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: No supported kernel is built for more CPUs; a larger number is a typing error.
LARGEST_CPU = 8191


def parse_cpulist(text: str) -> tuple[int, ...]:
    """Return the CPU numbers of a list such as 0-3,8, sorted and without duplicates; none for an empty text.

    Raises ValueError with a message for any text that the kernel would refuse.
    """
    cpus: set[int] = set()
    for item in text.replace("\n", "").split(","):
        item = item.strip()
        if not item:
            continue
        first, dash, last = item.partition("-")
        low, high = parse_whole_number(first), parse_whole_number(last if dash else first)
        if low is None or high is None:
            raise ValueError(f"'{item}' is no CPU number and no range such as 0-7")
        if high < low:
            raise ValueError(f"the range '{item}' runs backwards")
        if high > LARGEST_CPU:
            raise ValueError(f"'{item}' goes beyond CPU {LARGEST_CPU}")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def parse_boot_cpulist(text: str, last_cpu: int) -> tuple[int, ...]:
    """Return the CPU numbers of a list in a boot parameter, whose grammar is larger than that of other CPU lists.

    A boot parameter may also have ``all``, ``N`` for the last CPU, and ranges with a pattern: ``1-15:1/2`` is the first
    CPU of every two. Raises ValueError with a message for any text that the kernel would refuse.
    """
    cpus: set[int] = set()
    for item in text.replace("\n", "").split(","):
        span, colon, pattern = item.strip().replace("N", str(last_cpu)).partition(":")
        span = f"0-{last_cpu}" if span.lower() == "all" else span
        members = parse_cpulist(span)
        if colon:
            used, size = map(parse_whole_number, pattern.partition("/")[::2])
            if used is None or size is None or "-" not in span:
                raise ValueError(f"'{item}' is no range with a pattern such as 0-15:1/2")
            if used > size or size == 0:
                raise ValueError(f"'{item}' must use at most all {size} CPUs of each group, and a group has some")
            members = tuple(cpu for place, cpu in enumerate(members) if place % size < used)
        cpus.update(members)
    return tuple(sorted(cpus))


def format_cpulist(cpus: Iterable[int]) -> str:
    """Return CPU numbers as the shortest list, such as 0-3,8, as the kernel itself prints it."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_cpumask(text: str) -> tuple[int, ...]:
    """Return the CPU numbers of a hexadecimal mask, sorted; groups of 32 CPUs are separated by commas, highest first.

    Raises ValueError with a message for any text that the kernel would refuse, such as 0x or a group of nine digits.
    """
    mask = 0
    for group in text.strip().split(","):
        if not 1 <= len(group) <= 8 or not set(group) <= set("0123456789abcdefABCDEF"):
            raise ValueError(f"'{group}' is no group of one to eight hexadecimal digits, as in 1,000000ff")
        mask = mask << 32 | int(group, 16)
    if mask.bit_length() > LARGEST_CPU + 1:
        raise ValueError(f"the mask goes beyond CPU {LARGEST_CPU}")
    return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def format_cpumask(cpus: Iterable[int], width: int) -> str:
    """Return CPU numbers as a hexadecimal mask, padded to ``width`` CPUs as the kernel prints it.

    The kernel pads to the number of CPUs that the host could have (nr_cpu_ids: the highest possible number plus one).
    Raises ValueError for a CPU that does not fit.
    """
    mask = 0
    for cpu in cpus:
        if not 0 <= cpu < width:
            raise ValueError(f"CPU {cpu} does not fit into a mask for {width} CPUs")
        mask |= 1 << cpu
    groups = []
    for low in range((width - 1) // 32 * 32, -1, -32):
        digits = (min(width - low, 32) + 3) // 4
        groups.append(f"{mask >> low & 0xFFFFFFFF:0{digits}x}")
    return ",".join(groups)
