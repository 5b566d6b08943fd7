# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interrupts (IRQs) of a host: which exist, which driver has them, and which the kernel lets a user move.

Source: kernel/irq/proc.c and kernel/irq/irqdesc.c of the Linux kernel, Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

import errno

from ..._errors import Absent
from ..._notation.numbers import parse_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..._io.kernelfs import KernelFS

PROC = "/proc/irq"
SYS = "/sys/kernel/irq"
PCI = "/sys/bus/pci"
#: How the kernel refuses to move an interrupt that is its own to place: EIO before Linux 6.12, EPERM since.
NOT_MOVABLE = (errno.EIO, errno.EPERM)


class Irq:
    """One interrupt that a driver has requested; ``actions`` are the driver's names for it."""

    __slots__ = ("actions", "number")

    def __init__(self, number: int, actions: Sequence[str]) -> None:
        self.number = number
        self.actions = tuple(actions)

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        return {"irq": self.number, "actions": list(self.actions)}


def read_requested_irqs(fs: KernelFS) -> list[Irq]:
    """Return the interrupts that some driver handles; the others never come."""
    irqs = []
    for number in sorted(int(name) for name in fs.list_names(SYS) if name.isdecimal()):
        actions = (fs.read_if_present(f"{SYS}/{number}/actions") or "").strip()
        if actions:
            irqs.append(Irq(number, actions.split(",")))
    return irqs


def is_movable(fs: KernelFS, number: int, by_mode: bool | None = None) -> bool | None:
    """Return whether the kernel lets a user move an interrupt; None where it has vanished.

    ``by_mode`` is what ``modes_tell`` said, for a caller that asks about many.
    The mode of the file tells, since Linux 6.12. Older kernels let anybody try and ask whether the interrupt may be
    moved before they read the text, so a text that names no CPUs gets a true answer and can have no effect: EINVAL for
    one that may be moved.
    """
    path = f"{PROC}/{number}/smp_affinity_list"
    status = fs.read_status(path)
    if status is None:
        return None
    if not status.st_mode & 0o222:
        return False
    if by_mode is None:
        by_mode = file_modes_show_movability(fs)
    try:
        return by_mode or fs.write_refusal_errno(path, "?\n") not in NOT_MOVABLE
    except Absent:
        return None


def file_modes_show_movability(fs: KernelFS) -> bool:
    """Return whether this kernel makes the files of interrupts that are its own to place read-only.

    It has some of these among the first 16, such as that of the cascade.
    """
    first = (fs.read_status(f"{PROC}/{number}/smp_affinity_list") for number in range(16))
    return any(status is not None and not status.st_mode & 0o222 for status in first)


def select_irqs(fs: KernelFS, irqs: Sequence[Irq], which: Sequence[str]) -> tuple[list[Irq], list[str]]:
    """Return the interrupts that the words name, in their order of number, and the words that name none.

    A word is "all", a number, a PCI address such as 0000:41:00.0, "driver:" and the name of a PCI driver, or a pattern
    (* and ?) for the driver's names.
    """
    chosen: set[int] = set()
    unmet = []
    for word in which:
        numbers = _match_numbers(fs, irqs, word)
        if not numbers and word != "all":
            unmet.append(word)
        chosen |= numbers
    return [irq for irq in irqs if irq.number in chosen], unmet


def _match_numbers(fs: KernelFS, irqs: Sequence[Irq], word: str) -> set[int]:
    # Imported here because it brings re along.
    from fnmatch import fnmatchcase

    there = {irq.number for irq in irqs}
    if word == "all":
        return there
    number = parse_whole(word)
    if number is not None:
        return {number} & there
    if word.startswith("driver:"):
        addresses = [name for name in fs.list_names(f"{PCI}/drivers/{word[len('driver:') :]}") if ":" in name]
        return set().union(*(_irqs_of_device(fs, address) for address in addresses)) & there
    if fs.is_dir(f"{PCI}/devices/{word}"):
        return _irqs_of_device(fs, word) & there
    return {irq.number for irq in irqs if any(fnmatchcase(action, word) for action in irq.actions)}


def _irqs_of_device(fs: KernelFS, address: str) -> set[int]:
    """Return a PCI device's interrupts: its messages, or the line it has without them."""
    messages = {int(name) for name in fs.list_names(f"{PCI}/devices/{address}/msi_irqs")}
    line = fs.read_if_present(f"{PCI}/devices/{address}/irq") or ""
    return messages or ({int(line)} if line.strip().isdecimal() else set())


def spread_over_cpus(found: Mapping[int, Sequence[int]], cpus: Sequence[int]) -> dict[int, int]:
    """Return one CPU for each interrupt, evenly; ``found`` holds the CPUs that each has now.

    One that already sits alone on one of the CPUs stays there as long as that is even, so that an interrupt that comes
    or goes does not move all others.
    """
    most = -(-len(found) // len(cpus))
    load = dict.fromkeys(cpus, 0)
    placed = {}
    for number, now in sorted(found.items()):
        if len(now) == 1 and load.get(now[0], most) < most:
            placed[number] = now[0]
            load[now[0]] += 1
    for number in sorted(set(found) - set(placed)):
        placed[number] = min(load, key=lambda cpu: (load[cpu], cpu))
        load[placed[number]] += 1
    return dict(sorted(placed.items()))


def format_irqs(irqs: Iterable[Irq]) -> str:
    """Return interrupts for a sentence, at most a few of them."""
    rows = [f"{irq.number} ({', '.join(irq.actions)})" for irq in irqs]
    return ", ".join(rows[:4]) + (f" and {len(rows) - 4} more" if len(rows) > 4 else "")
