# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of resctrl: groups, monitor groups and threads, each read and written as it is.

Source: Documentation/filesystems/resctrl.rst and fs/resctrl of the Linux kernel.
"""

from __future__ import annotations

from ..._errors import Absent, Refused, TuningError
from ..._kernel import resctrl
from ..._kernel.resctrl import address
from .expand import PRESENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._io.kernelfs import KernelFS
    from ..knob import Settings

#: Marks a group as made by us; the attribute lives and dies with the group.
LABEL = "sovereign_epyc"
#: The value of a group that somebody else made, beside PRESENT of ours: an undo makes it again without our mark.
FOREIGN = "foreign"
TASKS = "tasks"
UNMOUNTED = (
    "Somebody unmounted resctrl while this ran, and all groups and masks ended with that. 'site.yml --tags cat' mounts "
    "it and makes them anew."
)


class Tree:
    """What is below the mount point."""

    def __init__(self, fs: KernelFS) -> None:
        self.fs = fs
        self.home = resctrl.HOME

    # Reading

    def path(self, group: str, *more: str) -> str:
        """Return a path below a group."""
        return "/".join((self.home, *(() if group == "default" else (group,)), *more))

    def groups(self) -> list[str]:
        """Return the names of all groups, the default one first."""
        there = [name for name in self.fs.names(self.home) if name not in resctrl.FIXED]
        return ["default", *(name for name in there if self.fs.is_dir(f"{self.home}/{name}"))]

    def is_ours(self, group: str) -> bool:
        """Return whether a group has our mark."""
        return self.fs.read_label(self.path(group), LABEL) is not None

    def read(self, name: str) -> Settings:
        """Return the settings of a group, threads excepted."""
        found: Settings = {address(name): PRESENT if name == "default" or self.is_ours(name) else FOREIGN}
        for resource, row in resctrl.parse_schemata(self.fs.find(self.path(name, "schemata")) or "").items():
            found.update({address(name, resource, str(domain)): value for domain, value in row.items()})
        found[address(name, "cpus")] = self.fs.find(self.path(name, "cpus_list"))
        found[address(name, "mode")] = self.fs.find(self.path(name, "mode"))
        for monitor, cpus in self.monitors(name).items():
            found[address(name, "mon", monitor)] = PRESENT
            found[address(name, "mon", monitor, "cpus")] = cpus
        return found

    def monitors(self, group: str) -> dict[str, str | None]:
        """Return the CPUs of each monitor group of a group."""
        names = self.fs.names(self.path(group, "mon_groups"))
        return {name: self.fs.find(self.path(group, "mon_groups", name, "cpus_list")) for name in names}

    def tasks(self, group: str, *more: str) -> set[int]:
        """Return the threads of a group, or of a monitor group below it."""
        return {int(line) for line in (self.fs.find(self.path(group, *more, TASKS)) or "").split()}

    # Writing

    def tell(self, path: str, text: str) -> None:
        """Write, and say why that failed."""
        try:
            self.fs.write(path, f"{text}\n")
        except (Absent, Refused) as error:
            raise self._explained(error) from None

    def make(self, name: str, ours: bool) -> None:
        """Make a group, with our mark if it is ours."""
        path = self.path(name)
        try:
            self.fs.mkdir(path)
        except (Absent, Refused) as error:
            raise self._explained(error) from None
        if ours:
            self.fs.label(path, LABEL, "made by sovereign.epyc")

    def assign(self, folder: str, tasks: Iterable[int]) -> None:
        """Move threads into a group or monitor group; those that have ended are left out."""
        for task in sorted(tasks):
            try:
                self.tell(f"{folder}/{TASKS}", str(task))
            except Absent:
                continue

    def _explained(self, error: TuningError) -> TuningError:
        """Return an error with the kernel's own words, or with what can be seen where it has none."""
        if resctrl.find_mount(self.fs) is None:
            return TuningError(UNMOUNTED, **error.details)
        if isinstance(error, Refused):
            return Refused(f"{error} {self._kernel_says()}", error.errno, error.path)
        return error

    def _kernel_says(self) -> str:
        words = (self.fs.find(self.path("default", "info", "last_cmd_status")) or "").strip()
        if words and words != "ok":
            return f"The kernel says: {words}."
        offline = (self.fs.find("/sys/devices/system/cpu/offline") or "").strip()
        if offline:
            return (
                f"The kernel gives no reason, but CPUs {offline} are offline, and it knows no L3 domain without a CPU "
                "that is online. Bring them online, or run this again, which plans with those that are."
            )
        return "The kernel gives no reason."
