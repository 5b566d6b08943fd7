# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Threads in resctrl groups: those of a unit, and those that a group has when it is removed.

Source: proc_pid_stat(5) for the time of a thread's start.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.cgroups import threads_of
from ..._kernel.resctrl import split
from .expand import ALL_THREADS
from .tree import TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._io.kernelfs import KernelFS
    from ..knob import Change
    from .tree import Tree

#: The value of the threads of a unit that does not run yet.
WAITING = "none yet"
STARTED = 22  # the field of the table in proc_pid_stat(5), counted from 1; the third one follows the name


def are_named(address: str) -> bool:
    """Return whether an address is that of the threads of a group or monitor group, and not of a unit."""
    dummy, kind, key = split(address)
    return kind == TASKS or (kind == "mon" and key.endswith(f"/{TASKS}"))


def text_of(fs: KernelFS, ids: Iterable[int]) -> str:
    """Return threads as a text: ids, each with the time of its start, because the kernel uses ids again."""
    rows = [(number, _started(fs, number)) for number in sorted(ids)]
    return ",".join(f"{number}:{started}" for number, started in rows if started)


def alive(fs: KernelFS, text: str | None) -> set[int]:
    """Return the ids of the threads in such a text that still live."""
    rows = [row.partition(":") for row in (text or "").split(",") if row]
    return {int(number) for number, dummy, started in rows if _started(fs, int(number)) == started}


def _started(fs: KernelFS, number: int) -> str:
    fields = (fs.find(f"/proc/{number}/stat") or "").rpartition(")")[2].split()
    return fields[STARTED - 3] if fields else ""


class UnitThreads:
    """Moves the threads of units, and back."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._group_of_task: dict[int, str] = {}

    def of(self, unit: str) -> set[int] | None:
        """Return the threads of a unit or process, None where it does not run."""
        try:
            return threads_of(self.tree.fs, unit)
        except BadRequest:
            return None

    def text(self, group: str, unit: str) -> str:
        """Return how many of a unit's threads are in a group, as the value of an address."""
        threads = self.of(unit)
        if threads is None:
            return WAITING
        inside = len(threads & self.tree.tasks(group))
        return ALL_THREADS if inside == len(threads) else f"{inside} of {len(threads)} threads"

    def move(self, change: Change) -> None:
        """Move every thread of a unit into the group; again until none is left, because threads start while we look."""
        group, dummy, unit = split(change.address)
        if change.after != ALL_THREADS:
            # Only the run that moved them knows where they were; any other takes the group that threads are born in.
            homes = {**dict.fromkeys(self.tree.tasks(group), "default"), **self._group_of_task}
            for task in (self.of(unit) or set()) & homes.keys():
                self.tree.assign(self.tree.path(homes[task]), [task])
            return
        for name in self.tree.groups():
            self._group_of_task.update(dict.fromkeys(self.tree.tasks(name), name))
        for dummy_attempt in range(10):
            left = threads_of(self.tree.fs, unit) - self.tree.tasks(group)
            if not left:
                return
            self.tree.assign(self.tree.path(group), left)
