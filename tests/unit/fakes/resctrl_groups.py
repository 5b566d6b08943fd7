# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of resctrl on AMD: which masks, CPUs, modes and threads the groups take, and what they lose by it.

Source: arch/x86/kernel/cpu/resctrl/{rdtgroup,ctrlmondata}.c of Linux 6.12, which are in fs/resctrl since 6.16.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator

from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.resctrl import HOME
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel, refuse

WAYS, CLASSES, UNLIMITED = 16, 16, 2048
ALL_WAYS = (1 << WAYS) - 1
#: How wide the kernel pads the name of a resource.
NAME_WIDTH = 6
SHAREABLE, EXCLUSIVE = "shareable", "exclusive"


class Monitor:
    """A monitor group: some of the CPUs and threads of its group."""

    def __init__(self) -> None:
        self.cpus: set[int] = set()
        self.tasks: set[int] = set()


class Group:
    """A control group: its masks and limits by resource and L3 domain, CPUs, threads, mode and monitor groups."""

    def __init__(self, table: dict[str, dict[int, int]]) -> None:
        self.table = table
        self.cpus: set[int] = set()
        self.tasks: set[int] = set()
        self.mode = SHAREABLE
        self.monitors: dict[str, Monitor] = {}


class ResctrlGroups:
    """The file system of the small machine, which nobody has mounted yet. The default group has an empty name."""

    def __init__(self, kernel: Kernel, domains: int = 4, linux: tuple[int, int] = (6, 12)) -> None:
        self.linux = linux
        #: Newer kernels do not align columns, and yet newer ones clear their words whenever a file of a group is read
        #: or written.
        self.aligns = linux < (7, 0)
        self.clears_words = linux >= (7, 0)
        self.kernel = kernel
        self.fs = kernel.fs
        self.domains = range(domains)
        self.groups: dict[str, Group] = {}
        self.options: list[str] = []
        #: The threads of the host, which are all in the default group at first.
        self.threads = {1}
        #: What the kernel says of the last commands, until one clears it.
        self.words: list[str] = []
        self.home = kernel.host.root / HOME[1:]
        self.home.mkdir(parents=True)
        # Nobody has loaded the driver of CPUID.
        shutil.rmtree(kernel.host.root / "dev/cpu", ignore_errors=True)
        self.fs.file_systems["resctrl"] = self
        if self.clears_words:
            self.fs.before_read = self._clear_words_of_reader
        kernel.put("/sys/devices/system/cpu/offline", "")
        for file, rule in {
            "schemata": self._set_schemata,
            "cpus_list": self._set_cpus,
            "mode": self._set_mode,
            "tasks": self._move_task,
        }.items():
            self.fs.add_rule(rf"{HOME}(/.+)?/{file}", rule)
        kernel.cpus.followers.append(self._follow_cpu)

    # What the kernel does with the file system

    def mount(self, options: str) -> None:
        self.options = options.split(",") if options else []
        default = Group({name: dict.fromkeys(self.domains, most) for name, most in self._resources()})
        default.cpus = set(parse_cpulist(self.fs.read(f"{CPUS}/online")))
        default.tasks = set(self.threads)
        self.groups = {"": default}
        self._clear_words()
        for name, most in self._resources():
            closids = CLASSES // 2 if "cdp" in self.options and name.startswith("L3") else CLASSES
            self.kernel.put(f"{HOME}/info/{name}/num_closids", closids)
            if name.startswith("L3"):
                tells_sparse_masks = {"sparse_masks": 1} if self.linux >= (6, 7) else {}
                for file, text in {"cbm_mask": f"{most:x}", "min_cbm_bits": 0, **tells_sparse_masks}.items():
                    self.kernel.put(f"{HOME}/info/{name}/{file}", text)
        self._show()

    def unmount(self) -> None:
        self.groups = {}
        self._show()

    def mkdir(self, path: str) -> None:
        if self.clears_words:
            self._clear_words()
        group, monitor = _split(path)
        if monitor is not None:
            monitors = self._group(group).monitors
            if monitor in monitors:
                raise refuse(errno.EEXIST)
            monitors[monitor] = Monitor()
        elif group in self.groups:
            raise refuse(errno.EEXIST)
        else:
            closids = CLASSES // 2 if "cdp" in self.options else CLASSES
            if len(self.groups) >= closids:
                raise self._refuse("Out of CLOSIDs", errno.ENOSPC)
            self.groups[group] = Group(
                {
                    name: {domain: self._free_for_new(name, domain, most) for domain in self.domains}
                    for name, most in self._resources()
                }
            )
        self._show()

    def rmdir(self, path: str) -> None:
        if self.clears_words:
            self._clear_words()
        group, monitor = _split(path)
        if monitor is not None:
            if monitor not in self._group(group).monitors:
                raise refuse(errno.ENOENT)
            del self.groups[group].monitors[monitor]
        else:
            gone = self.groups.pop(group, None)
            if gone is None:
                raise refuse(errno.ENOENT)
            self.groups[""].cpus |= gone.cpus
            self.groups[""].tasks |= gone.tasks
        self._show()

    def _resources(self) -> Iterator[tuple[str, int]]:
        """Yield the resources in the kernel's order, each with the value that limits nothing."""
        if self.linux >= (6, 3):
            yield "SMBA", UNLIMITED
        yield "MB", UNLIMITED
        for name in ("L3DATA", "L3CODE") if "cdp" in self.options else ("L3",):
            yield name, ALL_WAYS

    def _free_for_new(self, resource: str, domain: int, most: int) -> int:
        """Return what a new group may fill: all ways but those of exclusive groups."""
        if not resource.startswith("L3"):
            return most
        taken = [group.table[resource][domain] for group in self.groups.values() if group.mode == EXCLUSIVE]
        shared = [group.table[resource][domain] for group in self.groups.values() if group.mode != EXCLUSIVE]
        return most & ~_union(taken) | _union(shared)

    # What the kernel does with a write

    def _set_schemata(self, path: str, text: str) -> None:
        """Take all lines, or none of them."""
        self._clear_words()
        group = self._group(_split(path)[0])
        table = {name: dict(row) for name, row in group.table.items()}
        for line in text.splitlines():
            resource, colon, rest = line.strip().partition(":")
            if not colon:
                raise self._refuse("Missing ':'")
            if resource not in table:
                raise self._refuse(f"Unknown or unsupported resource name '{resource}'")
            for item in rest.split(";"):
                domain, dummy, value = item.partition("=")
                if not domain.strip().isdecimal():
                    raise self._refuse("Missing '=' or non-numeric domain")
                if int(domain) not in table[resource]:
                    raise refuse(errno.EINVAL)
                parse = self._parse_mask if resource.startswith("L3") else self._parse_limit
                table[resource][int(domain)] = parse(group, resource, int(domain), value.strip())
        group.table = table
        self._show()

    def _parse_mask(self, group: Group, resource: str, domain: int, value: str) -> int:
        try:
            mask = int(value, 16)
        except ValueError:
            raise self._refuse(f"Non-hex character in the mask {value}") from None
        if mask > ALL_WAYS:
            raise self._refuse("Mask out of range")
        others = [one for one in self.groups.values() if one is not group]
        if mask & _union(one.table[resource][domain] for one in others if one.mode == EXCLUSIVE):
            raise self._refuse("Overlaps with exclusive group")
        if group.mode == EXCLUSIVE and mask & _union(one.table[resource][domain] for one in others):
            raise self._refuse("Overlaps with other group")
        return mask

    def _parse_limit(self, group: Group, resource: str, domain: int, value: str) -> int:
        if not value.isdecimal():
            raise self._refuse(f"Invalid MB value {value}")
        if int(value) > UNLIMITED:
            raise self._refuse(f"MB value {value} out of range [0,{UNLIMITED}]")
        return int(value)

    def _set_cpus(self, path: str, text: str) -> None:
        """Say nothing new where this is done, and let the words of refusals gather, unless the kernel is newer."""
        if self.clears_words:
            self._clear_words()
        name, monitor = _split(path)
        group = self._group(name)
        try:
            cpus = set(parse_cpulist(text))
        except ValueError:
            raise self._refuse("Bad CPU list/mask") from None
        if cpus and max(cpus) > max(parse_cpulist(self.fs.read(f"{CPUS}/possible"))):
            raise self._refuse("Bad CPU list/mask", errno.ERANGE)
        if not cpus <= set(parse_cpulist(self.fs.read(f"{CPUS}/online"))):
            raise self._refuse("Can only assign online CPUs")
        if monitor is not None:
            if not cpus <= group.cpus:
                raise self._refuse("Can only add CPUs to mongroup that belong to parent")
            for sibling in group.monitors.values():
                sibling.cpus -= cpus
            group.monitors[monitor].cpus = cpus
        else:
            if not name and group.cpus - cpus:
                raise self._refuse("Can't drop CPUs from default group")
            self.groups[""].cpus |= group.cpus - cpus
            for other in self.groups.values():
                if other is not group and other.cpus & cpus:
                    for one in other.monitors.values():
                        one.cpus -= cpus
                    other.cpus -= cpus
            group.cpus = cpus
            for one in group.monitors.values():
                one.cpus = set()
        self._show()

    def _set_mode(self, path: str, text: str) -> None:
        self._clear_words()
        group, mode = self._group(_split(path)[0]), text.strip()
        if mode not in (SHAREABLE, EXCLUSIVE):
            raise self._refuse("Unknown or unsupported mode")
        others = [one for one in self.groups.values() if one is not group]
        if mode == EXCLUSIVE and any(
            mask & _union(one.table[resource][domain] for one in others)
            for resource, row in group.table.items()
            if resource.startswith("L3")
            for domain, mask in row.items()
        ):
            raise self._refuse("Schemata overlaps")
        group.mode = mode
        self._show()

    def _move_task(self, path: str, text: str) -> None:
        """Have a thread in one group, and in at most one monitor group, which is one of that group."""
        self._clear_words()
        name, monitor = _split(path)
        group, task = self._group(name), int(text)
        if monitor is not None and task not in group.tasks:
            raise self._refuse("Can't move task to different control group")
        for other in self.groups.values():
            other.tasks.discard(task)
            for one in other.monitors.values():
                one.tasks.discard(task)
        group.tasks.add(task)
        if monitor is not None:
            group.monitors[monitor].tasks.add(task)
        self._show()

    def _follow_cpu(self, cpu: int, online: bool) -> None:
        """A CPU that goes offline leaves its group, and comes back to the default one."""
        everybody = set(parse_cpulist(self.fs.read(f"{CPUS}/present")))
        there = set(parse_cpulist(self.fs.read(f"{CPUS}/online")))
        self.fs.show(f"{CPUS}/offline", format_cpulist(everybody - there))
        for group in self.groups.values():
            group.cpus.discard(cpu)
            for monitor in group.monitors.values():
                monitor.cpus.discard(cpu)
        if online and self.groups:
            self.groups[""].cpus.add(cpu)
        self._show()

    # What the kernel shows

    def _group(self, name: str) -> Group:
        if name not in self.groups:
            raise refuse(errno.ENOENT)
        return self.groups[name]

    def _clear_words_of_reader(self, path: str) -> None:
        if path.startswith(f"{HOME}/") and not path.startswith(f"{HOME}/info/") and self.groups:
            self._clear_words()

    def _clear_words(self) -> None:
        self.words = []
        self._show_words()

    def _refuse(self, words: str, code: int = errno.EINVAL) -> OSError:
        """Return an error, and add the words for it to those that nothing has cleared since."""
        self.words.append(words)
        self._show_words()
        return refuse(code)

    def _show_words(self) -> None:
        self.kernel.put(f"{HOME}/info/last_cmd_status", "\n".join(self.words) or "ok")

    def _show(self) -> None:
        for folder in [one for one in self.home.iterdir() if one.name != "info" or not self.groups]:
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
        for name, group in self.groups.items():
            place = f"{HOME}/{name}".rstrip("/")
            self.kernel.put(f"{place}/schemata", "\n".join(self._row(*item) for item in group.table.items()))
            self.kernel.put(f"{place}/cpus_list", format_cpulist(group.cpus))
            self.kernel.put(f"{place}/mode", group.mode)
            self._put_tasks(place, group.tasks)
            (self.home / name / "mon_groups").mkdir()
            for one, monitor in group.monitors.items():
                self.kernel.put(f"{place}/mon_groups/{one}/cpus_list", format_cpulist(monitor.cpus))
                self._put_tasks(f"{place}/mon_groups/{one}", monitor.tasks)

    def _row(self, resource: str, row: dict[int, int]) -> str:
        aligned = "04x" if resource.startswith("L3") else "4d"
        values = (f"{domain}={value:{aligned if self.aligns else aligned[-1]}}" for domain, value in row.items())
        return f"{resource:>{NAME_WIDTH}}:{';'.join(values)}"

    def _put_tasks(self, place: str, tasks: set[int]) -> None:
        self.kernel.put(f"{place}/tasks", "\n".join(map(str, sorted(tasks))))


def _split(path: str) -> tuple[str, str | None]:
    """Return the group of a path below the mount point, and the monitor group, None where there is none."""
    words = path[len(HOME) + 1 :].split("/")
    if words[-1] in ("schemata", "cpus_list", "mode", "tasks"):
        words = words[:-1]
    if "mon_groups" in words:
        place = words.index("mon_groups")
        return "/".join(words[:place]), words[place + 1]
    return "/".join(words), None


def _union(masks: Iterator[int] | list[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found
