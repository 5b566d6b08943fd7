# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU lists in the kernel's own notation, ``0-3,8,10-11``, read and written.

Source: Documentation/admin-guide/cputopology.rst and kernel-parameters.rst (cpu lists) of the Linux kernel.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: No kernel that this collection meets is built for more CPUs; a larger number is a typing error.
LARGEST_CPU = 8191


def parse(text: str) -> tuple[int, ...]:
    """Return the CPU numbers of a list, sorted and each once; an empty text is the empty list.

    Raises ValueError with a sentence for anything the kernel would not take.
    """
    cpus: set[int] = set()
    for item in text.replace("\n", "").split(","):
        item = item.strip()
        if not item:
            continue
        first, dash, last = item.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"'{item}' is no CPU number and no range such as 0-7")
        low, high = int(first), int(last or first)
        if high < low:
            raise ValueError(f"the range '{item}' runs backwards")
        if high > LARGEST_CPU:
            raise ValueError(f"'{item}' goes beyond CPU {LARGEST_CPU}")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def render(cpus: Iterable[int]) -> str:
    """Return the shortest kernel notation of a set of CPU numbers, as the kernel itself prints it."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
