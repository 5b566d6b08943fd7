# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of resctrl: masks, bandwidth limits, CPUs, modes, threads and monitor groups; the mount is one of its own.

Addresses: per control group ``resctrl:NAME``, ``resctrl:NAME/L3/ID`` (also L3CODE, L3DATA, MB and
SMBA), ``resctrl:NAME/cpus``, ``resctrl:NAME/mode``, ``resctrl:NAME/tasks_of/UNIT``; per monitor group
``resctrl:NAME/mon/MONITOR`` and ``resctrl:NAME/mon/MONITOR/cpus``. The root group is called default.
Source: Documentation/filesystems/resctrl.rst and fs/resctrl of the Linux kernel.
"""

from __future__ import annotations

from contextlib import contextmanager

from ..._errors import Absent, BadRequest, Refused, TuningError
from ..._kernel import resctrl
from ..._kernel.cgroups import threads_of
from ..._kernel.resctrl import address, split
from ..._notation import cpulist
from ..._notation.masks import parse_mask
from ..knob import L3_DOMAIN, Change, Knob
from . import way_back
from .expand import ALL_THREADS, PRESENT, Expansion
from .mount import MOUNT, ResctrlMount
from .request import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..knob import Settings, Words
    from .request import Request

#: Marks a group as made by us; the attribute lives and dies with the group.
LABEL = "sovereign_epyc"
#: The value of the threads of a unit that does not run yet.
WAITING = "none yet"
#: Moves threads of units that start later.
WATCH = "sovereign-epyc-watch.service"
UNMOUNTED = (
    "Somebody unmounted resctrl while this ran, and all groups and masks ended with that. 'site.yml --tags cat' mounts "
    "it and makes them anew."
)


TITLES = {
    "L3": "L3 share",
    "L3CODE": "L3 share for code",
    "L3DATA": "L3 share for data",
    "MB": "memory bandwidth limit",
    "SMBA": "slow memory bandwidth limit",
    "cpus": "CPUs",
    "mode": "mode",
}


def build(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    """Return the mount and the groups as knobs; with ``from_plan`` the groups are those of the host's plan."""
    mount = ResctrlMount(host, options.get("mount", False), options.get("mount_options"))
    return [mount, Resctrl(host, lambda: _request(host, options), mount.options)]


def describe(rest: str) -> Words:
    """Return what a setting of a group is, for people."""
    group, dummy, more = rest.partition("/")
    kind, dummy, key = more.partition("/")
    if rest == "mount":
        return "mount of resctrl", "", None
    if not kind:
        return f"group {group}", "", None
    if kind == "tasks_of":
        return f"threads of {key} in group {group}", "", None
    if kind == "mon":
        return f"monitor group {key} of group {group}", "", None
    what = f"{TITLES.get(kind, kind)} of group {group}"
    return (what, L3_DOMAIN, int(key)) if key.isdecimal() else (what, "", None)


def _request(host: Host, options: Mapping[str, Any]) -> Request:
    groups, default = options.get("groups", []), options.get("default")
    if options.get("from_plan"):
        if "cat" in host.plan.cannot:
            raise BadRequest(host.plan.cannot["cat"])
        planned = host.plan.resctrl()
        groups, default = [*planned["groups"], *groups], default or planned["default"]
    return parse(groups, default, options.get("purge", "none"))


class Resctrl(Knob):
    """The groups below the mount."""

    prefix = "resctrl"

    def __init__(self, host: Host, request: Callable[[], Request], mount_options: Sequence[str]) -> None:
        """``request`` is called when the mapping is wanted: only then is resctrl mounted, with ``mount_options``."""
        self.host = host
        self.fs = host.fs
        self.request = request
        self.mount_options = mount_options
        self.able = resctrl.Abilities()
        self._remarks: list[str] = []
        self._group_of_task: dict[int, str] = {}
        self._monitored: dict[str, dict[str, set[int]]] = {}
        self._removed: dict[str, tuple[set[int], str | None]] = {}

    # The protocol

    def owns(self, address: str) -> bool:
        """All but the mount."""
        return super().owns(address) and address != MOUNT

    def parent(self, address: str) -> str | None:
        """The group, or the monitor group, that holds a setting."""
        group, kind, key = split(address)
        if kind == "mon" and "/" in key:
            return resctrl.address(group, "mon", key.partition("/")[0])
        return resctrl.address(group) if kind else None

    def same(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Threads come and go: only whether all are in the group counts, or none is there yet."""
        if split(address)[1] == "tasks_of":
            return (wanted == ALL_THREADS) == (found in (ALL_THREADS, WAITING))
        return wanted == found

    def gone(self, address: str) -> str | None:
        """A unit or process that does not run has no threads to ask about, unless those to come are meant too."""
        dummy, kind, unit = split(address)
        if kind == "tasks_of" and not self._waits(unit):
            try:
                threads_of(self.fs, unit)
            except BadRequest as error:
                return str(error)
        return None

    def _waits(self, unit: str) -> bool:
        """Return whether a unit may come later than its group: at boot that is always so. A process cannot."""
        return self.host.stored and not unit.isdecimal()

    def kept(self, originals: Settings) -> dict[str, str]:
        """Keep also the masks of an L3 domain that is offline."""
        found = self._read_all() if originals else {}
        reasons = {name: self.gone(name) or way_back.offline(name, found) for name in originals}
        return {name: reason for name, reason in reasons.items() if reason}

    def void(self, originals: Settings) -> dict[str, str]:
        """Return what ended with an earlier mount or with its group, and threads that are not there any more."""
        found = self._read_all() if originals else {}
        ended = {name: f"{split(name)[2]} does not run, so none of its threads is moved back." for name in originals}
        ended = {name: sentence for name, sentence in ended.items() if self.gone(name)}
        return {**ended, **way_back.void(originals, found)}

    def marked(self) -> list[str]:
        """Return the groups that have our label."""
        self._read_all()
        names = self._groups()[1:] if self.able.mount_point else []
        return [address(name) for name in names if self.fs.read_label(self._path(name), LABEL) is not None]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the flock on the mount point that the kernel's documentation asks of all who use resctrl."""
        mount = resctrl.find_mount(self.fs)
        if mount is None:
            yield
        else:
            with self.fs.lock(mount[0]):
                yield

    def read(self, addresses: Iterable[str]) -> Settings:
        """Return the settings asked for; all None where resctrl is not mounted."""
        addresses = list(addresses)
        found = self._read_all()
        for name in addresses:
            group, kind, unit = split(name)
            if kind == "tasks_of" and address(group) in found and not self.gone(name):
                found[name] = self._threads_text(group, unit)
        return {name: found.get(name) for name in addresses}

    def wanted(self) -> Settings:
        """Expand the request for this host, refusing what cannot be had here."""
        found = self._read_all()
        if self.able.mount_point is None:
            self.able.expect(tuple(self.mount_options))
        request = self.request()
        expansion = Expansion(request, self.host.topology, self.able, found, self._gone(request, found))
        wanted = expansion.wanted()
        for name in wanted:
            reason = self.gone(name)
            if reason:
                raise BadRequest(reason)
        self._remarks = expansion.remarks + [
            f"{unit} does not run now. {WATCH} moves its threads into the group {group} when it does."
            for group, kind, unit in map(split, wanted)
            if kind == "tasks_of" and self._threads_of(unit) is None
        ]
        return wanted

    def write(self, changes: Sequence[Change]) -> None:
        """Remove, make, then set: masks before CPUs and exclusive modes last, so that nothing overlaps on the way."""
        by_kind: dict[str, list[Change]] = {}
        for change in changes:
            by_kind.setdefault(split(change.address)[1], []).append(change)
        for change in by_kind.get("", []):
            if change.after is None:
                self._remove(split(change.address)[0])
        modes = [change for change in by_kind.get("mode", []) if change.after]
        self._set_all("mode", [change for change in modes if change.after == "shareable"])
        for change in by_kind.get("", []):
            if change.after is not None:
                self._make(split(change.address)[0])
        self._write_schemata(
            [change for kind, some in by_kind.items() if kind in resctrl.RESOURCES for change in some if change.after]
        )
        # The default group holds whatever CPUs the others do not; writing it smaller is refused, and never needed.
        cpus = [change for change in by_kind.get("cpus", []) if split(change.address)[0] != "default"]
        self._write_cpus([change for change in cpus if change.after is not None])
        self._set_all("mode", [change for change in modes if change.after != "shareable"])
        self._write_monitors(by_kind.get("mon", []))
        for change in by_kind.get("tasks_of", []):
            self._move(change)

    def remarks(self) -> list[str]:
        """Return what was rounded, and where a share protects nothing."""
        return self._remarks

    # Reading

    def _path(self, group: str, *more: str) -> str:
        home = self.able.mount_point or resctrl.HOME
        return "/".join((home, *(() if group == "default" else (group,)), *more))

    def _groups(self) -> list[str]:
        home = self._path("default")
        return [
            "default",
            *(n for n in self.fs.names(home) if n not in resctrl.FIXED and self.fs.is_dir(f"{home}/{n}")),
        ]

    def _read_all(self) -> Settings:
        """Return every group's settings, threads excepted; nothing where resctrl is not mounted."""
        self.able = resctrl.abilities(self.fs, self.host.topology.flags)
        found: Settings = {}
        if self.able.mount_point is not None:
            for name in self._groups():
                found.update(self._read_group(name))
        return found

    def _read_group(self, name: str) -> Settings:
        found: Settings = {address(name): PRESENT}
        for resource, row in resctrl.parse_schemata(self.fs.find(self._path(name, "schemata")) or "").items():
            found.update({address(name, resource, str(domain)): value for domain, value in row.items()})
        found[address(name, "cpus")] = self.fs.find(self._path(name, "cpus_list"))
        found[address(name, "mode")] = self.fs.find(self._path(name, "mode"))
        for monitor in self.fs.names(self._path(name, "mon_groups")):
            found[address(name, "mon", monitor)] = PRESENT
            cpus = self.fs.find(self._path(name, "mon_groups", monitor, "cpus_list"))
            found[address(name, "mon", monitor, "cpus")] = cpus
        return found

    def _threads_of(self, unit: str) -> set[int] | None:
        """Return the threads of a unit or process, None where it does not run."""
        try:
            return threads_of(self.fs, unit)
        except BadRequest:
            return None

    def _threads_text(self, group: str, unit: str) -> str:
        threads = self._threads_of(unit)
        if threads is None:
            return WAITING
        inside = len(threads & self._tasks(group))
        return ALL_THREADS if inside == len(threads) else f"{inside} of {len(threads)} threads"

    def _tasks(self, group: str) -> set[int]:
        return {int(line) for line in (self.fs.find(self._path(group, "tasks")) or "").split()}

    def _gone(self, request: Request, found: Settings) -> set[str]:
        """Names of the groups to remove: those asked to be absent, and those that the purge covers."""
        gone = {group.name for group in request.groups if not group.present}
        for name in {split(name)[0] for name in found} - {"default"} - request.named():
            ours = self.fs.read_label(self._path(name), LABEL) is not None
            if request.purge == "all" or (request.purge == "own" and ours):
                gone.add(name)
        return gone

    # Writing

    def _tell(self, path: str, text: str) -> None:
        """Write, and say why that failed."""
        try:
            self.fs.write(path, text)
        except (Absent, Refused) as error:
            raise self._explained(error) from None

    def _explained(self, error: TuningError) -> TuningError:
        """Return an error with the kernel's own words, or with what can be seen where it has none."""
        if resctrl.find_mount(self.fs) is None:
            return TuningError(UNMOUNTED, **error.details)
        if isinstance(error, Refused):
            return Refused(f"{error} {self._kernel_says()}", error.errno, error.path)
        return error

    def _kernel_says(self) -> str:
        words = (self.fs.find(self._path("default", "info", "last_cmd_status")) or "").strip()
        if words and words != "ok":
            return f"The kernel says: {words}."
        offline = (self.fs.find("/sys/devices/system/cpu/offline") or "").strip()
        if offline:
            return (
                f"The kernel gives no reason, but CPUs {offline} are offline, and it knows no L3 domain without a CPU "
                "that is online. Bring them online, or run this again, which plans with those that are."
            )
        return "The kernel gives no reason."

    def _set_all(self, file: str, changes: Iterable[Change]) -> None:
        for change in changes:
            self._tell(self._path(split(change.address)[0], file), f"{change.after}\n")

    def _write_cpus(self, changes: Iterable[Change]) -> None:
        """Set the CPUs of groups. The kernel clears those of all monitors of such a group, which get them back.

        What they had is read before the first write, so that an undo of this run gives it back too.
        """
        for change in changes:
            group = split(change.address)[0]
            if group not in self._monitored:
                names = self.fs.names(self._path(group, "mon_groups"))
                texts = {name: self.fs.find(self._path(group, "mon_groups", name, "cpus_list")) for name in names}
                self._monitored[group] = {name: set(cpulist.parse(text or "")) for name, text in texts.items()}
            self._set_all("cpus_list", [change])
            for name, cpus in self._monitored[group].items():
                left = cpus.intersection(cpulist.parse(change.after or ""))
                path = self._path(group, "mon_groups", name)
                if left and self.fs.is_dir(path):
                    self._tell(f"{path}/cpus_list", f"{cpulist.render(left)}\n")

    def _make(self, name: str) -> None:
        path = self._path(name)
        try:
            self.fs.mkdir(path)
        except (Absent, Refused) as error:
            raise self._explained(error) from None
        tasks, label = self._removed.pop(name, (set(), "made by sovereign.epyc"))
        if label is not None:
            self.fs.label(path, LABEL, label)
        self._assign(name, tasks)

    def _remove(self, name: str) -> None:
        # Its threads fall to the default group; remembered with its owner, so that an undone removal is exact.
        path = self._path(name)
        self._removed[name] = (self._tasks(name), self.fs.read_label(path, LABEL))
        self.fs.rmdir(path)

    def _write_schemata(self, changes: Sequence[Change]) -> None:
        """One write a group, which the kernel takes whole or not at all.

        With an exclusive group around, no two masks may overlap even for a moment: everybody first gives up what the
        new masks no longer hold, and only then takes what is new.
        """
        exclusive = any(self.fs.find(self._path(name, "mode")) == "exclusive" for name in self._groups())
        shrunk: dict[str, dict[str, dict[int, str]]] = {}
        final: dict[str, dict[str, dict[int, str]]] = {}
        for change in changes:
            group, resource, domain = split(change.address)
            final.setdefault(group, {}).setdefault(resource, {})[int(domain)] = change.after or ""
            if exclusive and resource.startswith("L3"):
                common = parse_mask(change.before or "0") & parse_mask(change.after or "0")
                if common:
                    shrunk.setdefault(group, {}).setdefault(resource, {})[int(domain)] = f"{common:x}"
        for step in (shrunk, final):
            for group, table in step.items():
                self._tell(self._path(group, "schemata"), resctrl.render_schemata(table))

    def _write_monitors(self, changes: Iterable[Change]) -> None:
        for change in changes:
            group, dummy, rest = split(change.address)
            name, cpus, dummy = rest.partition("/")
            path = self._path(group, "mon_groups", name)
            if not self.fs.is_dir(self._path(group)):
                continue  # Gone with the group that it belonged to.
            if not cpus and change.after is None:
                self.fs.rmdir(path)
            elif not cpus:
                self.fs.mkdir(path)
            elif change.after is not None:
                self._tell(f"{path}/cpus_list", f"{change.after}\n")

    def _move(self, change: Change) -> None:
        """Move every thread of a unit into the group; again until none is left, because threads start while we look."""
        group, dummy, unit = split(change.address)
        if change.after != ALL_THREADS:
            # Only the run that moved them knows where they were; any other takes the group that threads are born in.
            homes = {**dict.fromkeys(self._tasks(group), "default"), **self._group_of_task}
            for task in (self._threads_of(unit) or set()) & homes.keys():
                self._assign(homes[task], [task])
            return
        for name in self._groups():
            self._group_of_task.update(dict.fromkeys(self._tasks(name), name))
        for dummy_attempt in range(10):
            left = threads_of(self.fs, unit) - self._tasks(group)
            if not left:
                return
            self._assign(group, left)

    def _assign(self, group: str, tasks: Iterable[int]) -> None:
        for task in sorted(tasks):
            try:
                self._tell(self._path(group, "tasks"), f"{task}\n")
            except Absent:
                continue  # The thread has ended since it was listed.
