# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of resctrl groups: masks, bandwidth limits, CPUs, modes and monitor groups.

Addresses: per control group ``resctrl:NAME``, ``resctrl:NAME/L3/ID`` (also L3CODE, L3DATA, MB and SMBA),
``resctrl:NAME/cpus``, ``resctrl:NAME/mode``, ``resctrl:NAME/tasks_of/UNIT``; per monitor group
``resctrl:NAME/mon/MONITOR`` and ``resctrl:NAME/mon/MONITOR/cpus``. ``resctrl:NAME/tasks`` and
``resctrl:NAME/mon/MONITOR/tasks`` are the threads of a group that is removed. The root group is called default. The
mount and the threads of units have knobs of their own. Source: Documentation/filesystems/resctrl.rst and fs/resctrl of
the Linux kernel.
"""

from __future__ import annotations

from ..._errors import Absent, BadRequest, Refused
from ..._kernel import resctrl
from ..._kernel.resctrl import format_address, split_address
from ..._notation.cache_masks import parse_cache_mask
from ..._notation.cpulist import format_cpulist, parse_cpulist
from ..protocol.knob import L3_DOMAIN, Change, Knob
from . import obsolete, saved_threads
from .expand import PRESENT, Expansion
from .groups import FOREIGN, LABEL, TASKS, Groups
from .mount import MOUNT, ResctrlMount
from .request import parse_resctrl_request
from .threads import Threads, missing_threads_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..protocol.knob import Settings, Words
    from .request import ResctrlRequest

TITLES = {
    "L3": "L3 share",
    "L3CODE": "L3 share for code",
    "L3DATA": "L3 share for data",
    "MB": "memory bandwidth limit",
    "SMBA": "slow memory bandwidth limit",
    "cpus": "CPUs",
    "mode": "mode",
}


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    """Return the mount, the groups and their threads as knobs; with ``from_plan``, the groups are those of the plan."""
    mount = ResctrlMount(host, options.get("mount", False), options.get("mount_options"))
    how = (host, lambda: _build_request(host, options), mount.options)
    return [mount, Resctrl(*how), Threads(*how)]


def build_thread_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    """Return the knob of threads alone, if the request names units, whose threads may start at any time."""
    groups = [*(options.get("groups") or ()), options.get("default") or {}]
    named = any(group.get("tasks_of") for group in groups)
    return [Threads(host, lambda: _build_request(host, options), ())] if named else []


def describe_setting(address_rest: str) -> Words:
    group, dummy, more = address_rest.partition("/")
    kind, dummy, key = more.partition("/")
    if address_rest == "mount":
        return "mount of resctrl", "", None
    if not kind:
        return f"group {group}", "", None
    if kind == "tasks_of":
        return f"threads of {key} in group {group}", "", None
    if kind == "mon":
        return f"monitor group {key} of group {group}", "", None
    if kind == TASKS:
        return f"threads of group {group}", "", None
    noun = f"{TITLES.get(kind, kind)} of group {group}"
    return (noun, L3_DOMAIN, int(key)) if key.isdecimal() else (noun, "", None)


def _build_request(host: Host, options: Mapping[str, Any]) -> ResctrlRequest:
    groups, default = options.get("groups", []), options.get("default")
    if options.get("from_plan"):
        if "cat" in host.plan.cannot:
            raise BadRequest(host.plan.cannot["cat"])
        planned = host.plan.resctrl_options()
        groups, default = [*planned["groups"], *groups], default or planned["default"]
    return parse_resctrl_request(groups, default, options.get("purge", "none"))


class Resctrl(Groups):
    """The groups below the mount, without the threads in them."""

    def __init__(self, host: Host, request: Callable[[], ResctrlRequest], mount_options: Sequence[str]) -> None:
        super().__init__(host, request, mount_options)
        self._monitored: dict[str, dict[str, set[int]]] = {}

    def owns_address(self, address: str) -> bool:
        return super().owns_address(address) and address != MOUNT and split_address(address)[1] != "tasks_of"

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """Return the masks of L3 domains whose CPUs are all offline, each with the reason."""
        present = self._read_all_groups() if originals else {}
        reasons = {name: obsolete.offline_domain_reason(name, present) for name in originals}
        return {name: reason for name, reason in reasons.items() if reason}

    def obsolete_originals(self, originals: Settings) -> dict[str, str]:
        """Return the originals that ended with an earlier mount or with their group, each with the reason."""
        return obsolete.obsolete_originals(originals, self._read_all_groups()) if originals else {}

    def list_marked_addresses(self) -> list[str]:
        """Return the groups that this collection made."""
        self._read_all_groups()
        names = self._list_groups()[1:] if self.able.mount_point else []
        return [format_address(name) for name in names if self._was_made_by_collection(name)]

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the settings of groups; all None if resctrl is not mounted."""
        addresses = list(addresses)
        present = self._read_all_groups()
        threads = [name for name in addresses if _is_tasks_address(name) and self.holder_address(name) in present]
        present.update({name: self._read_tasks_as_text(name) for name in threads})
        return {name: present.get(name) for name in addresses}

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values are equal. Any two groups are; of saved threads, only living ones count."""
        if not split_address(address)[1] or wanted is None or found is None:
            return (wanted is None) == (found is None)
        if _is_tasks_address(address):
            return saved_threads.parse_living_threads(self.fs, wanted) <= saved_threads.parse_living_threads(
                self.fs, found
            )
        return wanted == found

    def wanted_settings(self) -> Settings:
        """Return the wanted settings of the request, refusing one that this host cannot satisfy."""
        present = self._read_all_groups()
        if self.able.mount_point is None:
            self.able.assume_mount_options(tuple(self.mount_options))
        request = self.request()
        removed = self._groups_to_remove(request, present)
        # The kernel moves the threads of removed groups to the default group, which an undo has to reverse.
        holders = [
            name for name in present if split_address(name)[0] in removed and present[name] in (PRESENT, FOREIGN)
        ]
        present.update({f"{name}/{TASKS}": self._read_tasks_as_text(f"{name}/{TASKS}") for name in holders})
        expansion = Expansion(request, self.host.topology, self.able, present, removed)
        wanted = expansion.wanted_settings()
        for unit in (unit for group in request.wanted_groups_and_default() for unit in group.tasks_of):
            reason = missing_threads_reason(self.host, unit)
            if reason:
                raise BadRequest(reason)  # before any group is made
        self._remarks = expansion.remarks
        return wanted

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Remove groups, make groups, write masks, then CPUs, and exclusive modes last, so that no masks overlap."""
        by_kind: dict[str, list[Change]] = {}
        for change in changes:
            by_kind.setdefault(split_address(change.address)[1], []).append(change)
        for change in by_kind.get("", []):
            if change.after is None:
                self.fs.rmdir(self._group_path(split_address(change.address)[0]))
        # The mode of a new group is shareable.
        new = {split_address(change.address)[0] for change in by_kind.get("", []) if change.after is not None}
        modes = [change for change in by_kind.get("mode", []) if change.after]
        modes = [
            change for change in modes if change.after != "shareable" or split_address(change.address)[0] not in new
        ]
        self._write_files("mode", [change for change in modes if change.after == "shareable"])
        for change in by_kind.get("", []):
            if change.after is not None:
                self._create_group(split_address(change.address)[0], mark=change.after != FOREIGN)
        self._write_schemata(
            [change for resource in resctrl.RESOURCES for change in by_kind.get(resource, []) if change.after]
        )
        # The default group has the CPUs that no other group has; the kernel refuses to write fewer.
        cpus = [change for change in by_kind.get("cpus", []) if split_address(change.address)[0] != "default"]
        self._write_cpus_of_groups([change for change in cpus if change.after is not None])
        self._write_files("mode", [change for change in modes if change.after != "shareable"])
        # Monitor groups follow, because a monitor group takes threads of its own group only.
        for change in by_kind.get(TASKS, []):
            self._move_tasks(
                self._group_path(split_address(change.address)[0]),
                saved_threads.parse_living_threads(self.fs, change.after),
            )
        self._write_monitor_groups(by_kind.get("mon", []))

    def _read_tasks_as_text(self, name: str) -> str:
        """Return the threads of a group or a monitor group as text, by their address."""
        group, kind, key = split_address(name)
        more = ("mon_groups", key.partition("/")[0]) if kind == "mon" else ()
        return saved_threads.format_threads(self.fs, self._read_tasks(group, *more))

    def _groups_to_remove(self, request: ResctrlRequest, present: Settings) -> set[str]:
        """Return the groups that the request or its purge removes."""
        removed = {group.name for group in request.groups if not group.present}
        for name in {split_address(name)[0] for name in present} - {"default"} - request.wanted_group_names():
            is_own = present[format_address(name)] == PRESENT
            if request.purge == "all" or (request.purge == "own" and is_own):
                removed.add(name)
        return removed

    def _write_cpus_of_groups(self, changes: Iterable[Change]) -> None:
        """Set the CPUs of groups, and restore those of their monitor groups, which the kernel clears.

        The CPUs of monitor groups are read before the first write, so that a rollback restores them too.
        """
        for change in changes:
            group = split_address(change.address)[0]
            if group not in self._monitored:
                monitors = self._read_monitor_cpus(group).items()
                self._monitored[group] = {name: set(parse_cpulist(text or "")) for name, text in monitors}
            self._write_files("cpus_list", [change])
            for name, cpus in self._monitored[group].items():
                left = cpus.intersection(parse_cpulist(change.after or ""))
                path = self._group_path(group, "mon_groups", name)
                if left and self.fs.is_dir(path):
                    self._write_or_explain(f"{path}/cpus_list", f"{format_cpulist(left)}\n")

    def _create_group(self, name: str, mark: bool) -> None:
        path = self._group_path(name)
        try:
            self.fs.mkdir(path)
        except (Absent, Refused) as error:
            raise self._error_with_kernel_reason(error) from None
        if mark:
            self.fs.set_trusted_attribute(path, LABEL, "made by sovereign.epyc")

    def _write_schemata(self, changes: Sequence[Change]) -> None:
        """Write the masks of each group at once, which the kernel takes whole or not at all.

        If there is an exclusive group, masks must not overlap even for a moment. So each group first gives up the ways
        that its new masks do not have, and then gets the new ways.
        """
        exclusive = any(
            self.fs.read_if_present(self._group_path(name, "mode")) == "exclusive" for name in self._list_groups()
        )
        shrunk: dict[str, dict[str, dict[int, str]]] = {}
        final: dict[str, dict[str, dict[int, str]]] = {}
        for change in changes:
            group, resource, domain = split_address(change.address)
            final.setdefault(group, {}).setdefault(resource, {})[int(domain)] = change.after or ""
            if exclusive and resource.startswith("L3"):
                common = parse_cache_mask(change.before or "0") & parse_cache_mask(change.after or "0")
                if common:
                    shrunk.setdefault(group, {}).setdefault(resource, {})[int(domain)] = f"{common:x}"
        for step in (shrunk, final):
            for group, table in step.items():
                self._write_or_explain(self._group_path(group, "schemata"), resctrl.format_schemata(table))

    def _write_monitor_groups(self, changes: Iterable[Change]) -> None:
        for change in changes:
            group, dummy, rest = split_address(change.address)
            name, dummy, what = rest.partition("/")
            path = self._group_path(group, "mon_groups", name)
            if not self.fs.is_dir(self._group_path(group)):
                continue  # The monitor group ended with its group.
            if not what and change.after is None:
                self.fs.rmdir(path)
            elif not what:
                self.fs.mkdir(path)
            elif what == TASKS:
                self._move_tasks(path, saved_threads.parse_living_threads(self.fs, change.after))
            elif change.after is not None:
                self._write_or_explain(f"{path}/cpus_list", f"{change.after}\n")


def _is_tasks_address(address: str) -> bool:
    """Return whether an address is that of the threads of a group or a monitor group."""
    dummy, kind, key = split_address(address)
    return kind == TASKS or (kind == "mon" and key.endswith(f"/{TASKS}"))
