# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of threads: all threads of a unit or of a process in one group. A new thread may start in another group.

Addresses: ``resctrl:NAME/tasks_of/UNIT``; a value says whether all threads are in the group.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.cgroups import list_threads
from ..._kernel.resctrl import format_address, split_address
from ..._notation.numbers import parse_whole_number
from .groups import Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings
    from .request import ResctrlRequest

#: The value of a unit with all threads in the group, and that of a unit that does not run yet.
ALL_THREADS, WAITING = "all", "none yet"
#: The service that moves threads of units that start later.
WATCH = "sovereign-epyc-watch.service"


def missing_threads_reason(host: Host, unit: str) -> str | None:
    """Return why the threads of a unit or process cannot be listed, None if they can, or may start later.

    At boot a unit always starts after its group is made. A process that is missing does not come back.
    """
    if host.stored and parse_whole_number(unit) is None:
        return None
    try:
        list_threads(host.fs, unit)
    except BadRequest as error:
        return str(error)
    return None


class Threads(Groups):
    """The threads in the groups. This knob runs after that of the groups, which it needs."""

    def __init__(self, host: Host, request: Callable[[], ResctrlRequest], mount_options: Sequence[str]) -> None:
        super().__init__(host, request, mount_options)
        self._group_of_task: dict[int, str] = {}

    def owns_address(self, address: str) -> bool:
        return super().owns_address(address) and split_address(address)[1] == "tasks_of"

    def wanted_settings(self) -> Settings:
        """Return the units and processes of the request; the knob of groups has refused missing processes."""
        wanted: Settings = {
            format_address(group.name, "tasks_of", unit): ALL_THREADS
            for group in self.request().wanted_groups_and_default()
            for unit in group.tasks_of
        }
        self._remarks = [
            f"{unit} does not run now. {WATCH} moves its threads into the group {group} when it does."
            for group, dummy, unit in map(split_address, wanted)
            if self._threads_of_unit(unit) is None
        ]
        return wanted

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return how many threads of each unit or process are in the group; None if it or the group is missing."""
        addresses = list(addresses)
        present = self._read_all_groups() if addresses else {}
        return {
            name: self._read_threads_state(name) if format_address(split_address(name)[0]) in present else None
            for name in addresses
        }

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values agree on whether all present threads are in the group."""
        return (wanted == ALL_THREADS) == (found in (ALL_THREADS, WAITING))

    def unreachable_reason(self, address: str) -> str | None:
        """Return the reason if a unit or process does not run, None if it runs or may start later."""
        return missing_threads_reason(self.host, split_address(address)[2])

    def obsolete_originals(self, originals: Settings) -> dict[str, str]:
        """Return the units and processes that have ended, so that no thread is moved back, with the reasons."""
        ended = [name for name in originals if self._threads_of_unit(split_address(name)[2]) is None]
        return {name: f"{split_address(name)[2]} does not run, so none of its threads is moved back." for name in ended}

    def write_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._move_threads(change)

    def _threads_of_unit(self, unit: str) -> set[int] | None:
        try:
            return list_threads(self.fs, unit)
        except BadRequest:
            return None

    def _read_threads_state(self, name: str) -> str | None:
        group, dummy, unit = split_address(name)
        threads = self._threads_of_unit(unit)
        if threads is None:
            return None if self.unreachable_reason(name) else WAITING
        inside = len(threads & self._read_tasks(group))
        return ALL_THREADS if inside == len(threads) else f"{inside} of {len(threads)} threads"

    def _move_threads(self, change: Change) -> None:
        """Move every thread of a unit into the group, repeatedly, because threads start meanwhile."""
        group, dummy, unit = split_address(change.address)
        if change.after != ALL_THREADS:
            # A rollback knows the groups from which this run moved threads; an undo moves them to the default group.
            homes = {**dict.fromkeys(self._read_tasks(group), "default"), **self._group_of_task}
            for task in (self._threads_of_unit(unit) or set()) & homes.keys():
                self._move_tasks(self._group_path(homes[task]), [task])
            return
        for name in self._list_groups():
            self._group_of_task.update(dict.fromkeys(self._read_tasks(name), name))
        for dummy_attempt in range(10):
            left = list_threads(self.fs, unit) - self._read_tasks(group)
            if not left:
                return
            self._move_tasks(self._group_path(group), left)
