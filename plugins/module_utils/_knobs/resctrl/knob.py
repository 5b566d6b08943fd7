# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of resctrl: masks, bandwidth limits, CPUs, modes, threads and monitor groups; the mount is one of its own.

Addresses: per control group ``resctrl:NAME``, ``resctrl:NAME/L3/ID`` (also L3CODE, L3DATA, MB and
SMBA), ``resctrl:NAME/cpus``, ``resctrl:NAME/mode``, ``resctrl:NAME/tasks_of/UNIT``; per monitor group
``resctrl:NAME/mon/MONITOR`` and ``resctrl:NAME/mon/MONITOR/cpus``. Of a group that is removed, ``resctrl:NAME/tasks``
and ``resctrl:NAME/mon/MONITOR/tasks`` are its threads. The root group is called default.
Source: Documentation/filesystems/resctrl.rst and fs/resctrl of the Linux kernel.
"""

from __future__ import annotations

from contextlib import contextmanager

from ..._errors import BadRequest
from ..._kernel import resctrl
from ..._kernel.cgroups import threads_of
from ..._kernel.resctrl import address, split
from ..._notation import cpulist
from ..._notation.masks import parse_mask
from ..knob import L3_DOMAIN, Change, Knob
from . import tasks, way_back
from .expand import ALL_THREADS, PRESENT, Expansion
from .mount import MOUNT, ResctrlMount
from .request import parse
from .tree import FOREIGN, TASKS, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..knob import Settings, Words
    from .request import Request

#: Moves threads of units that start later.
WATCH = "sovereign-epyc-watch.service"

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
    if kind == TASKS:
        return f"threads of group {group}", "", None
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
        self.tree = Tree(host.fs)
        self.threads = tasks.UnitThreads(self.tree)
        self._remarks: list[str] = []
        self._monitored: dict[str, dict[str, set[int]]] = {}

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
        """Threads come and go: only whether all that live are in the group counts, or none of the unit is there yet."""
        kind = split(address)[1]
        if kind == "tasks_of":
            return (wanted == ALL_THREADS) == (found in (ALL_THREADS, tasks.WAITING))
        if not kind or wanted is None or found is None:
            return (wanted is None) == (found is None)
        if tasks.are_named(address):
            return tasks.alive(self.fs, wanted) <= tasks.alive(self.fs, found)
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
        names = self.tree.groups()[1:] if self.able.mount_point else []
        return [address(name) for name in names if self.tree.is_ours(name)]

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
                found[name] = self.threads.text(group, unit)
            elif tasks.are_named(name) and self.parent(name) in found:
                found[name] = self._tasks_text(name)
        return {name: found.get(name) for name in addresses}

    def wanted(self) -> Settings:
        """Expand the request for this host, refusing what cannot be had here."""
        found = self._read_all()
        if self.able.mount_point is None:
            self.able.expect(tuple(self.mount_options))
        request = self.request()
        gone = self._gone(request, found)
        # Threads of these fall to the default group, so where they were is a setting of this run too.
        holders = [name for name in found if split(name)[0] in gone and found[name] in (PRESENT, FOREIGN)]
        found.update({f"{name}/{TASKS}": self._tasks_text(f"{name}/{TASKS}") for name in holders})
        expansion = Expansion(request, self.host.topology, self.able, found, gone)
        wanted = expansion.wanted()
        for name in wanted:
            reason = self.gone(name)
            if reason:
                raise BadRequest(reason)
        self._remarks = expansion.remarks + [
            f"{unit} does not run now. {WATCH} moves its threads into the group {group} when it does."
            for group, kind, unit in map(split, wanted)
            if kind == "tasks_of" and self.threads.of(unit) is None
        ]
        return wanted

    def write(self, changes: Sequence[Change]) -> None:
        """Remove, make, then set: masks before CPUs and exclusive modes last, so that nothing overlaps on the way."""
        by_kind: dict[str, list[Change]] = {}
        for change in changes:
            by_kind.setdefault(split(change.address)[1], []).append(change)
        for change in by_kind.get("", []):
            if change.after is None:
                self.fs.rmdir(self.tree.path(split(change.address)[0]))
        modes = [change for change in by_kind.get("mode", []) if change.after]
        self._set_all("mode", [change for change in modes if change.after == "shareable"])
        for change in by_kind.get("", []):
            if change.after is not None:
                self.tree.make(split(change.address)[0], ours=change.after != FOREIGN)
        self._write_schemata(
            [change for kind, some in by_kind.items() if kind in resctrl.RESOURCES for change in some if change.after]
        )
        # The default group holds whatever CPUs the others do not; writing it smaller is refused, and never needed.
        cpus = [change for change in by_kind.get("cpus", []) if split(change.address)[0] != "default"]
        self._write_cpus([change for change in cpus if change.after is not None])
        self._set_all("mode", [change for change in modes if change.after != "shareable"])
        # A monitor group takes threads of its own group only.
        for change in by_kind.get(TASKS, []):
            self.tree.assign(self.tree.path(split(change.address)[0]), tasks.alive(self.fs, change.after))
        self._write_monitors(by_kind.get("mon", []))
        for change in by_kind.get("tasks_of", []):
            self.threads.move(change)

    def remarks(self) -> list[str]:
        """Return what was rounded, and where a share protects nothing."""
        return self._remarks

    # Reading

    def _read_all(self) -> Settings:
        """Return every group's settings, threads excepted; nothing where resctrl is not mounted."""
        self.able = resctrl.abilities(self.fs, self.host.topology.flags)
        found: Settings = {}
        if self.able.mount_point is not None:
            self.tree.home = self.able.mount_point
            for name in self.tree.groups():
                found.update(self.tree.read(name))
        return found

    def _tasks_text(self, name: str) -> str:
        """Return the threads of a group or monitor group, by the address of these."""
        group, kind, key = split(name)
        more = ("mon_groups", key.partition("/")[0]) if kind == "mon" else ()
        return tasks.text_of(self.fs, self.tree.tasks(group, *more))

    def _gone(self, request: Request, found: Settings) -> set[str]:
        """Names of the groups to remove: those asked to be absent, and those that the purge covers."""
        gone = {group.name for group in request.groups if not group.present}
        for name in {split(name)[0] for name in found} - {"default"} - request.named():
            ours = found[address(name)] == PRESENT
            if request.purge == "all" or (request.purge == "own" and ours):
                gone.add(name)
        return gone

    # Writing

    def _set_all(self, file: str, changes: Iterable[Change]) -> None:
        for change in changes:
            self.tree.tell(self.tree.path(split(change.address)[0], file), str(change.after))

    def _write_cpus(self, changes: Iterable[Change]) -> None:
        """Set the CPUs of groups. The kernel clears those of all monitors of such a group, which get them back.

        What they had is read before the first write, so that an undo of this run gives it back too.
        """
        for change in changes:
            group = split(change.address)[0]
            if group not in self._monitored:
                texts = self.tree.monitors(group)
                self._monitored[group] = {name: set(cpulist.parse(text or "")) for name, text in texts.items()}
            self._set_all("cpus_list", [change])
            for name, cpus in self._monitored[group].items():
                left = cpus.intersection(cpulist.parse(change.after or ""))
                path = self.tree.path(group, "mon_groups", name)
                if left and self.fs.is_dir(path):
                    self.tree.tell(f"{path}/cpus_list", cpulist.render(left))

    def _write_schemata(self, changes: Sequence[Change]) -> None:
        """One write a group, which the kernel takes whole or not at all.

        With an exclusive group around, no two masks may overlap even for a moment: everybody first gives up what the
        new masks no longer hold, and only then takes what is new.
        """
        exclusive = any(self.fs.find(self.tree.path(name, "mode")) == "exclusive" for name in self.tree.groups())
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
                self.tree.tell(self.tree.path(group, "schemata"), resctrl.render_schemata(table).rstrip("\n"))

    def _write_monitors(self, changes: Iterable[Change]) -> None:
        for change in changes:
            group, dummy, rest = split(change.address)
            name, dummy, what = rest.partition("/")
            path = self.tree.path(group, "mon_groups", name)
            if not self.fs.is_dir(self.tree.path(group)):
                continue  # Gone with the group that it belonged to.
            if not what and change.after is None:
                self.fs.rmdir(path)
            elif not what:
                self.fs.mkdir(path)
            elif what == TASKS:
                self.tree.assign(path, tasks.alive(self.fs, change.after))
            elif change.after is not None:
                self.tree.tell(f"{path}/cpus_list", change.after)
