# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of threads: all of a unit, or of a process, in one group. A later one may start where its parent is.

Addresses: ``resctrl:NAME/tasks_of/UNIT``; a value says whether all its threads are in the group.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.cgroups import list_threads
from ..._kernel.resctrl import format_address, split_address
from ..._notation.numbers import parse_whole
from .groups import Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings
    from .request import ResctrlRequest

#: The value when no thread is anywhere else, and that of a unit that does not run yet.
ALL_THREADS, WAITING = "all", "none yet"
#: Moves threads of units that start later.
WATCH = "sovereign-epyc-watch.service"


def missing_threads_reason(host: Host, unit: str) -> str | None:
    """Return why the threads of a unit or process cannot be had, None where they can or may still come.

    At boot a unit always comes later than its group. A process is there or it is not.
    """
    if host.stored and parse_whole(unit) is None:
        return None
    try:
        list_threads(host.fs, unit)
    except BadRequest as error:
        return str(error)
    return None


class Threads(Groups):
    """The threads in the groups; it comes after the groups, which it needs."""

    def __init__(self, host: Host, request: Callable[[], ResctrlRequest], mount_options: Sequence[str]) -> None:
        super().__init__(host, request, mount_options)
        self._group_of_task: dict[int, str] = {}

    def owns_address(self, address: str) -> bool:
        """Only threads."""
        return super().owns_address(address) and split_address(address)[1] == "tasks_of"

    def wanted_settings(self) -> Settings:
        """Return the units and processes of the request, of which the groups have refused those that cannot come."""
        wanted: Settings = {
            format_address(group.name, "tasks_of", unit): ALL_THREADS
            for group in self.request().present_groups()
            for unit in group.tasks_of
        }
        self._remarks = [
            f"{unit} does not run now. {WATCH} moves its threads into the group {group} when it does."
            for group, dummy, unit in map(split_address, wanted)
            if self._threads_of(unit) is None
        ]
        return wanted

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return for each whether all threads are there; None where there is no such group, unit or process."""
        addresses = list(addresses)
        there = self._read_all() if addresses else {}
        return {
            name: self._threads_text(name) if format_address(split_address(name)[0]) in there else None
            for name in addresses
        }

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Threads come and go: only whether all are in the group counts, or none is there yet."""
        return (wanted == ALL_THREADS) == (found in (ALL_THREADS, WAITING))

    def unreachable_reason(self, address: str) -> str | None:
        """A unit or process that does not run has no threads to ask about, unless those to come are meant too."""
        return missing_threads_reason(self.host, split_address(address)[2])

    def obsolete_originals(self, originals: Settings) -> dict[str, str]:
        """Threads that have ended need not be moved back."""
        ended = [name for name in originals if self._threads_of(split_address(name)[2]) is None]
        return {name: f"{split_address(name)[2]} does not run, so none of its threads is moved back." for name in ended}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Move the threads of each."""
        for change in changes:
            self._move_threads(change)

    def _threads_of(self, unit: str) -> set[int] | None:
        """Return the threads of a unit or process, None where it does not run."""
        try:
            return list_threads(self.fs, unit)
        except BadRequest:
            return None

    def _threads_text(self, name: str) -> str | None:
        group, dummy, unit = split_address(name)
        threads = self._threads_of(unit)
        if threads is None:
            return None if self.unreachable_reason(name) else WAITING
        inside = len(threads & self._read_tasks(group))
        return ALL_THREADS if inside == len(threads) else f"{inside} of {len(threads)} threads"

    def _move_threads(self, change: Change) -> None:
        """Move every thread of a unit into the group; again until none is left, because threads start while we look."""
        group, dummy, unit = split_address(change.address)
        if change.after != ALL_THREADS:
            # Only the run that moved them knows where they were; any other takes the group that threads are born in.
            homes = {**dict.fromkeys(self._read_tasks(group), "default"), **self._group_of_task}
            for task in (self._threads_of(unit) or set()) & homes.keys():
                self._move_tasks(self._group_path(homes[task]), [task])
            return
        for name in self._list_groups():
            self._group_of_task.update(dict.fromkeys(self._read_tasks(name), name))
        for dummy_attempt in range(10):
            left = list_threads(self.fs, unit) - self._read_tasks(group)
            if not left:
                return
            self._move_tasks(self._group_path(group), left)
