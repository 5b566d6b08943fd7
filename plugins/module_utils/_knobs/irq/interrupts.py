# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interrupts (IRQs) of a host: their numbers, their drivers, and whether the kernel lets a user move them.

Source: kernel/irq/proc.c and kernel/irq/irqdesc.c of the Linux kernel, Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

import errno

from ..._errors import Absent
from ..._notation.numbers import parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..._io.kernelfs import KernelFS

PROC = "/proc/irq"
SYS = "/sys/kernel/irq"
PCI = "/sys/bus/pci"
#: The errors for an interrupt that a user cannot move: EIO before Linux 6.12, EPERM since.
NOT_MOVABLE = (errno.EIO, errno.EPERM)


class Irq:
    """One interrupt that a driver has requested; ``actions`` are the driver's names for it."""

    def __init__(self, number: int, actions: Sequence[str]) -> None:
        self.number = number
        self.actions = tuple(actions)

    def to_dict(self) -> dict[str, object]:
        return {"irq": self.number, "actions": list(self.actions)}


def read_irqs_with_driver(fs: KernelFS) -> list[Irq]:
    """Return the interrupts that a driver handles."""
    irqs = []
    for number in sorted(int(name) for name in fs.list_names(SYS) if name.isdecimal()):
        actions = (fs.read_if_present(f"{SYS}/{number}/actions") or "").strip()
        if actions:
            irqs.append(Irq(number, actions.split(",")))
    return irqs


def is_movable(fs: KernelFS, number: int, modes_show_it: bool | None = None) -> bool | None:
    """Return whether the kernel lets a user move an interrupt; None for an interrupt that does not exist.

    ``modes_show_it`` is the result of file_modes_show_movability, for a caller with many interrupts. Since Linux 6.12 a
    read-only file means that the interrupt cannot be moved. Older kernels check whether the interrupt can be moved
    before they parse the written text, so a text without CPUs gets the answer without an effect: EINVAL means movable.
    """
    path = f"{PROC}/{number}/smp_affinity_list"
    status = fs.read_status(path)
    if status is None:
        return None
    if not status.st_mode & 0o222:
        return False
    if modes_show_it is None:
        modes_show_it = file_modes_show_movability(fs)
    try:
        return modes_show_it or fs.write_refusal_errno(path, "?\n") not in NOT_MOVABLE
    except Absent:
        return None


def file_modes_show_movability(fs: KernelFS) -> bool:
    """Return whether this kernel shows by a read-only file that a user cannot move an interrupt.

    Such interrupts are among the first 16, as that of the cascade.
    """
    first = (fs.read_status(f"{PROC}/{number}/smp_affinity_list") for number in range(16))
    return any(status is not None and not status.st_mode & 0o222 for status in first)


def select_irqs(fs: KernelFS, irqs: Sequence[Irq], words: Sequence[str]) -> tuple[list[Irq], list[str]]:
    """Return the interrupts that words name, sorted by number, and the words that name no interrupt.

    A word is "all", a number, a PCI address such as 0000:41:00.0, "driver:" and the name of a PCI driver, or a pattern
    (* and ?) for the names of an interrupt's actions.
    """
    chosen: set[int] = set()
    unmet = []
    for word in words:
        numbers = _irqs_of_word(fs, irqs, word)
        if not numbers and word != "all":
            unmet.append(word)
        chosen |= numbers
    return [irq for irq in irqs if irq.number in chosen], unmet


def _irqs_of_word(fs: KernelFS, irqs: Sequence[Irq], word: str) -> set[int]:
    # Imported here because fnmatch imports re.
    from fnmatch import fnmatchcase

    known = {irq.number for irq in irqs}
    if word == "all":
        return known
    number = parse_whole_number(word)
    if number is not None:
        return {number} & known
    if word.startswith("driver:"):
        addresses = [name for name in fs.list_names(f"{PCI}/drivers/{word[len('driver:') :]}") if ":" in name]
        return set().union(*(_irqs_of_device(fs, address) for address in addresses)) & known
    if fs.is_dir(f"{PCI}/devices/{word}"):
        return _irqs_of_device(fs, word) & known
    return {irq.number for irq in irqs if any(fnmatchcase(action, word) for action in irq.actions)}


def _irqs_of_device(fs: KernelFS, address: str) -> set[int]:
    """Return the interrupts of a PCI device: its message interrupts, or its line if it has none."""
    messages = {int(name) for name in fs.list_names(f"{PCI}/devices/{address}/msi_irqs")}
    line = fs.read_if_present(f"{PCI}/devices/{address}/irq") or ""
    return messages or ({int(line)} if line.strip().isdecimal() else set())


def assign_irqs_to_cpus(present_cpus: Mapping[int, Sequence[int]], cpus: Sequence[int]) -> dict[int, int]:
    """Return one CPU for each interrupt, spread evenly; ``present_cpus`` are those before.

    An interrupt that has one of the CPUs for itself stays there as long as the spread is even, so that a new interrupt
    does not move all others.
    """
    most = -(-len(present_cpus) // len(cpus))
    load = dict.fromkeys(cpus, 0)
    placed = {}
    for number, irq_cpus in sorted(present_cpus.items()):
        if len(irq_cpus) == 1 and load.get(irq_cpus[0], most) < most:
            placed[number] = irq_cpus[0]
            load[irq_cpus[0]] += 1
    for number in sorted(set(present_cpus) - set(placed)):
        placed[number] = min(load, key=lambda cpu: (load[cpu], cpu))
        load[placed[number]] += 1
    return dict(sorted(placed.items()))


def format_irqs(irqs: Iterable[Irq]) -> str:
    """Return the first four interrupts, and the number of the others, as text."""
    rows = [f"{irq.number} ({', '.join(irq.actions)})" for irq in irqs]
    return ", ".join(rows[:4]) + (f" and {len(rows) - 4} more" if len(rows) > 4 else "")
