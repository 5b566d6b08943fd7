# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resctrl groups of threads, and their cache occupancy and memory bandwidth.

Source: Documentation/filesystems/resctrl.rst and proc_resctrl_show() in fs/resctrl/rdtgroup.c of the Linux kernel.
"""

from __future__ import annotations

from ..._errors import Absent, Refused
from ..._kernel.resctrl import FIXED, find_mount
from ..._notation.cpulist import parse_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Optional

    from ..._io.kernelfs import KernelFS
    from ..._kernel.threads import Thread

    #: L3 domain -> name of a counter -> its value, None where the kernel does not know it.
    Counters = Mapping[int, Mapping[str, Optional[int]]]

#: The name of the default group.
DEFAULT_GROUP = "/"
#: The kernel's word for a counter that no group event has, since Linux 6.18 on CPUs with assignable counters (ABMC).
UNASSIGNED = "Unassigned"
COUNTERS = {"occupancy": "llc_occupancy", "local": "mbm_local_bytes", "total": "mbm_total_bytes"}


class ThreadGroups:
    """The group of a thread, its monitor group in that group or '', and the groups whose limits hold for the thread.

    A thread in the default group has the limits of the group of the CPU on which it runs.
    """

    def __init__(self, limiting_groups: tuple[str, ...], own_group: str, monitor_group: str) -> None:
        self.limiting_groups = limiting_groups
        self.own_group = own_group
        self.monitor_group = monitor_group


class ResctrlGroups:
    """The resctrl groups of this host; ``unknown_reason`` says why the groups of a thread are unknown."""

    def __init__(self, fs: KernelFS) -> None:
        self.fs = fs
        #: Sentences on values that could not be read.
        self.missing: list[str] = []
        self.unknown_reason = ""
        mount = find_mount(fs)
        self.mount = mount[0] if mount else None
        self._group_of_cpu: dict[int, str] = {}
        if self.mount is None:
            self._note_why_groups_are_unknown("resctrl is not mounted.")
            return
        for name in fs.list_names(self.mount):
            cpus = None if name in FIXED else fs.read_if_present(f"{self.mount}/{name}/cpus_list")
            self._group_of_cpu.update(dict.fromkeys(parse_cpulist(cpus or ""), name))

    def find_thread_groups(self, thread: Thread) -> ThreadGroups | None:
        """Return the groups of a thread, None where they are unknown."""
        if self.mount is None:
            return None
        text = self.fs.read_if_present(f"/proc/{thread.process}/task/{thread.tid}/cpu_resctrl_groups")
        fields = dict(line.partition(":")[::2] for line in (text or "").splitlines())
        own_group = fields.get("res", "")
        if not own_group:
            self._note_why_groups_are_unknown(
                f"there is no group in /proc/{thread.process}/task/{thread.tid}/cpu_resctrl_groups: the thread has "
                "ended, or the kernel has no CONFIG_PROC_CPU_RESCTRL."
            )
            return None
        limits = {own_group}
        if own_group == DEFAULT_GROUP:
            limits = {self._group_of_cpu.get(cpu, DEFAULT_GROUP) for cpu in thread.allowed}
        return ThreadGroups(tuple(sorted(limits)), own_group, fields.get("mon", ""))

    def read_counters_by_l3_domain(self, group: str, monitor: str = "") -> Counters:
        """Return the counters of all threads of a group in each L3 domain; empty where the group has no counters."""
        if self.mount is None:
            return {}
        parts = [group] if group != DEFAULT_GROUP else []
        parts += ["mon_groups", monitor] if monitor else []
        folder = "/".join([self.mount, *parts, "mon_data"])
        counters: dict[int, dict[str, int | None]] = {}
        for name in self.fs.list_names(folder):
            domain = name[len("mon_L3_") :]
            if name.startswith("mon_L3_") and domain.isdecimal():
                counters[int(domain)] = {
                    key: self._read_counter(f"{folder}/{name}/{file}") for key, file in COUNTERS.items()
                }
        return counters

    def _read_counter(self, path: str) -> int | None:
        try:
            text = self.fs.read(path)
        except Absent:
            return None
        except Refused as error:
            self._note_unreadable_value(str(error))
            return None
        if text.isdecimal():
            return int(text)
        self._note_unreadable_value(f"{path} says '{text}': {self._missing_counter_reason(path, text)}")
        return None

    def _missing_counter_reason(self, path: str, text: str) -> str:
        """Return why the kernel shows no number for a counter, and what to do where counters are given on demand."""
        if text != UNASSIGNED:
            return "the hardware has no counter for it now."
        folder, dummy, event = path.rpartition("/")
        group = folder.partition("/mon_data/")[0]
        return (
            f"the kernel gives counters to groups on demand here, and this group has none. Write '{event}:*=e' to "
            f"{group}/mbm_L3_assignments, or, if {self.mount}/info/L3_MON/available_mbm_cntrs has none left, 'default' "
            f"to {self.mount}/info/L3_MON/mbm_assign_mode."
        )

    def _note_why_groups_are_unknown(self, reason: str) -> None:
        self.unknown_reason = self.unknown_reason or reason
        self._note_unreadable_value(f"resctrl groups: {reason}")

    def _note_unreadable_value(self, reason: str) -> None:
        if reason not in self.missing:
            self.missing.append(reason)


def list_limiting_and_monitor_groups(groups_of_threads: Iterable[ThreadGroups | None]) -> list[tuple[str, str]]:
    """Return each limiting group of threads as (group, ''), and each monitor group as (group, monitor group)."""
    names: set[tuple[str, str]] = set()
    for place in filter(None, groups_of_threads):
        names.update((group, "") for group in place.limiting_groups)
        if place.monitor_group:
            names.add((place.own_group, place.monitor_group))
    return sorted(names)


def build_occupancy_and_bandwidth_rows(
    names: Iterable[tuple[str, str]],
    before: Mapping[tuple[str, str], Counters],
    after: Mapping[tuple[str, str], Counters],
    seconds: float | None,
) -> list[dict[str, object]]:
    """Return for each group, by L3 domain, the occupancy in bytes and the bandwidth in bytes per second."""
    rows: list[dict[str, object]] = []
    for name in names:
        domains = {}
        for domain, now in after.get(name, {}).items():
            first = before.get(name, {}).get(domain, {})
            domains[str(domain)] = {
                "occupancy": now["occupancy"],
                "local_bandwidth": _compute_bytes_per_second(first.get("local"), now["local"], seconds),
                "total_bandwidth": _compute_bytes_per_second(first.get("total"), now["total"], seconds),
            }
        rows.append({"group": name[0], "monitor": name[1], "l3": domains})
    return rows


def _compute_bytes_per_second(first: int | None, second: int | None, seconds: float | None) -> int | None:
    if first is None or second is None or not seconds or second < first:
        return None
    return round((second - first) / seconds)
