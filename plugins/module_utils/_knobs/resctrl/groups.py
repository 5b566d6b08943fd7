# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The groups of resctrl as they are: their files, what they hold, and how a write is refused.

Addresses: see knob.py, which has the settings of groups; threads.py has the threads in them.
Source: Documentation/filesystems/resctrl.rst and fs/resctrl of the Linux kernel.
"""

from __future__ import annotations

from ..._errors import Absent, Refused, TuningError
from ..._io.blocks import contextmanager
from ..._kernel import resctrl
from ..._kernel.resctrl import format_address, split_address
from ..protocol.knob import Knob
from .expand import PRESENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings
    from .request import ResctrlRequest

#: Marks a group as made by us; the attribute lives and dies with the group.
LABEL = "sovereign_epyc"
#: The value of a group that somebody else made, beside PRESENT of ours: an undo makes it again without our mark.
FOREIGN = "foreign"
TASKS = "tasks"
UNMOUNTED = (
    "Somebody unmounted resctrl while this ran, and all groups and masks ended with that. 'site.yml --tags cat' mounts "
    "it and makes them anew."
)


class Groups(Knob):
    """What the knobs of groups and of their threads share."""

    prefix = "resctrl"

    def __init__(self, host: Host, request: Callable[[], ResctrlRequest], mount_options: Sequence[str]) -> None:
        """``request`` is called when the mapping is wanted: only then is resctrl mounted, with ``mount_options``."""
        self.host = host
        self.fs = host.fs
        self.request = request
        self.mount_options = mount_options
        self.able = resctrl.ResctrlFeatures()
        self._remarks: list[str] = []

    def list_remarks(self) -> list[str]:
        """Return what was rounded, where a share protects nothing, and what threads are awaited."""
        return self._remarks

    def holder_address(self, address: str) -> str | None:
        """The group, or the monitor group, that holds a setting."""
        group, kind, key = split_address(address)
        if kind == "mon" and "/" in key:
            return resctrl.format_address(group, "mon", key.partition("/")[0])
        return resctrl.format_address(group) if kind else None

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the flock on the mount point that the kernel's documentation asks of all who use resctrl."""
        mount = resctrl.find_mount(self.fs)
        if mount is None:
            yield
        else:
            with self.fs.hold_lock(mount[0]):
                yield

    # Reading

    def _group_path(self, group: str, *more: str) -> str:
        home = self.able.mount_point or resctrl.HOME
        return "/".join((home, *(() if group == "default" else (group,)), *more))

    def _list_groups(self) -> list[str]:
        home = self._group_path("default")
        return [
            "default",
            *(n for n in self.fs.list_names(home) if n not in resctrl.FIXED and self.fs.is_dir(f"{home}/{n}")),
        ]

    def _read_all(self) -> Settings:
        """Return every group's settings, threads excepted; nothing where resctrl is not mounted."""
        self.able = resctrl.read_features(self.fs, self.host.topology.flags)
        found: Settings = {}
        if self.able.mount_point is not None:
            for name in self._list_groups():
                found.update(self._read_group(name))
        return found

    def _is_ours(self, group: str) -> bool:
        return self.fs.read_trusted_attribute(self._group_path(group), LABEL) is not None

    def _read_group(self, name: str) -> Settings:
        found: Settings = {format_address(name): PRESENT if name == "default" or self._is_ours(name) else FOREIGN}
        for resource, row in resctrl.parse_schemata(
            self.fs.read_if_present(self._group_path(name, "schemata")) or ""
        ).items():
            found.update({format_address(name, resource, str(domain)): value for domain, value in row.items()})
        found[format_address(name, "cpus")] = self.fs.read_if_present(self._group_path(name, "cpus_list"))
        found[format_address(name, "mode")] = self.fs.read_if_present(self._group_path(name, "mode"))
        for monitor, cpus in self._read_monitors(name).items():
            found[format_address(name, "mon", monitor)] = PRESENT
            found[format_address(name, "mon", monitor, "cpus")] = cpus
        return found

    def _read_monitors(self, group: str) -> dict[str, str | None]:
        """Return the CPUs of each monitor group of a group."""
        names = self.fs.list_names(self._group_path(group, "mon_groups"))
        return {
            name: self.fs.read_if_present(self._group_path(group, "mon_groups", name, "cpus_list")) for name in names
        }

    def _read_tasks(self, group: str, *more: str) -> set[int]:
        return {int(line) for line in (self.fs.read_if_present(self._group_path(group, *more, TASKS)) or "").split()}

    # Writing

    def _write_or_explain(self, path: str, text: str) -> None:
        """Write, and say why that failed."""
        try:
            self.fs.write(path, text)
        except (Absent, Refused) as error:
            raise self._explain_error(error) from None

    def _explain_error(self, error: TuningError) -> TuningError:
        """Return an error with the kernel's own words, or with what can be seen where it has none."""
        if resctrl.find_mount(self.fs) is None:
            return TuningError(UNMOUNTED, **error.details)
        if isinstance(error, Refused):
            return Refused(f"{error} {self._kernel_reason()}", error.errno, error.path)
        return error

    def _kernel_reason(self) -> str:
        words = (self.fs.read_if_present(self._group_path("default", "info", "last_cmd_status")) or "").strip()
        if words and words != "ok":
            return f"The kernel says: {words}."
        offline = (self.fs.read_if_present("/sys/devices/system/cpu/offline") or "").strip()
        if offline:
            return (
                f"The kernel gives no reason, but CPUs {offline} are offline, and it knows no L3 domain without a CPU "
                "that is online. Bring them online, or run this again, which plans with those that are."
            )
        return "The kernel gives no reason."

    def _write_files(self, file: str, changes: Iterable[Change]) -> None:
        for change in changes:
            self._write_or_explain(self._group_path(split_address(change.address)[0], file), f"{change.after}\n")

    def _move_tasks(self, folder: str, tasks: Iterable[int]) -> None:
        for task in sorted(tasks):
            try:
                self._write_or_explain(f"{folder}/{TASKS}", f"{task}\n")
            except Absent:
                continue  # The thread has ended since it was listed.
