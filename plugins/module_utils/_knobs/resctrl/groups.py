# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The groups of resctrl: paths and contents of their files, and explanations of refused writes.

Addresses: see knob.py, which has the settings of groups; threads.py has the threads in them. Source:
Documentation/filesystems/resctrl.rst and fs/resctrl of the Linux kernel.
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

#: The attribute of groups that this collection made; it ends with the group.
LABEL = "sovereign_epyc"
#: The value of a group that another program made, instead of PRESENT: an undo makes it again without the attribute.
FOREIGN = "foreign"
TASKS = "tasks"
UNMOUNTED = (
    "Somebody unmounted resctrl while this ran, and all groups and masks ended with that. 'site.yml --tags cat' mounts "
    "it and makes them anew."
)


class Groups(Knob):
    """The common base of the knobs of groups and of their threads."""

    prefix = "resctrl"

    def __init__(self, host: Host, request: Callable[[], ResctrlRequest], mount_options: Sequence[str]) -> None:
        """``request`` is called when resctrl is mounted, or will be with ``mount_options`` in check mode."""
        self.host = host
        self.fs = host.fs
        self.request = request
        self.mount_options = mount_options
        self.able = resctrl.ResctrlFeatures()
        self._remarks: list[str] = []

    def holder_address(self, address: str) -> str | None:
        """Return the group, or the monitor group, that has a setting."""
        group, kind, key = split_address(address)
        if kind == "mon" and "/" in key:
            return format_address(group, "mon", key.partition("/")[0])
        return format_address(group) if kind else None

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the flock on the mount point that the kernel's documentation prescribes for all users of resctrl."""
        mount = resctrl.find_mount(self.fs)
        if mount is None:
            yield
        else:
            with self.fs.hold_lock(mount[0]):
                yield

    def _group_path(self, group: str, *more: str) -> str:
        home = self.able.mount_point or resctrl.HOME
        return "/".join((home, *(() if group == "default" else (group,)), *more))

    def _list_groups(self) -> list[str]:
        home = self._group_path("default")
        return [
            "default",
            *(n for n in self.fs.list_names(home) if n not in resctrl.FIXED and self.fs.is_dir(f"{home}/{n}")),
        ]

    def _read_all_groups(self) -> Settings:
        """Return the settings of all groups, without threads; empty if resctrl is not mounted."""
        self.able = resctrl.read_features(self.fs, self.host.topology.flags)
        settings: Settings = {}
        if self.able.mount_point is not None:
            for name in self._list_groups():
                settings.update(self._read_group(name))
        return settings

    def _was_made_by_collection(self, group: str) -> bool:
        return self.fs.read_trusted_attribute(self._group_path(group), LABEL) is not None

    def _read_group(self, name: str) -> Settings:
        is_own = name == "default" or self._was_made_by_collection(name)
        settings: Settings = {format_address(name): PRESENT if is_own else FOREIGN}
        schemata = self.fs.read_if_present(self._group_path(name, "schemata")) or ""
        for resource, row in resctrl.parse_schemata(schemata).items():
            settings.update({format_address(name, resource, str(domain)): value for domain, value in row.items()})
        settings[format_address(name, "cpus")] = self.fs.read_if_present(self._group_path(name, "cpus_list"))
        settings[format_address(name, "mode")] = self.fs.read_if_present(self._group_path(name, "mode"))
        for monitor, cpus in self._read_monitor_cpus(name).items():
            settings[format_address(name, "mon", monitor)] = PRESENT
            settings[format_address(name, "mon", monitor, "cpus")] = cpus
        return settings

    def _read_monitor_cpus(self, group: str) -> dict[str, str | None]:
        """Return the CPUs of each monitor group of a group."""
        names = self.fs.list_names(self._group_path(group, "mon_groups"))
        return {
            name: self.fs.read_if_present(self._group_path(group, "mon_groups", name, "cpus_list")) for name in names
        }

    def _read_tasks(self, group: str, *more: str) -> set[int]:
        return {int(line) for line in (self.fs.read_if_present(self._group_path(group, *more, TASKS)) or "").split()}

    def _write_or_explain(self, path: str, text: str) -> None:
        """Write a file; an error has the reason that the kernel gives."""
        try:
            self.fs.write(path, text)
        except (Absent, Refused) as error:
            raise self._error_with_kernel_reason(error) from None

    def _error_with_kernel_reason(self, error: TuningError) -> TuningError:
        """Return the error with the kernel's reason, or a probable one, in its message."""
        if resctrl.find_mount(self.fs) is None:
            return TuningError(UNMOUNTED, **error.details)
        if isinstance(error, Refused):
            return Refused(f"{error} {self._kernel_reason()}", error.errno, error.path)
        return error

    def _kernel_reason(self) -> str:
        words = (self.fs.read_if_present(self._group_path("default", "info", "last_cmd_status")) or "").strip()
        if words and words != "ok":
            return f"The kernel says: {words}."
        if resctrl.is_unknown_to_selinux(self.fs):
            return (
                "SELinux lets nobody make groups here, because its policy has no context for resctrl. Run 'umount "
                f"{self.able.mount_point or resctrl.HOME}', which ends all groups that it has, and run this again: it "
                "mounts resctrl with a context."
            )
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
