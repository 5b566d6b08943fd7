# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which resctrl groups threads are in, and what those groups have in the caches.

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
DEFAULT = "/"
COUNTERS = {"occupancy": "llc_occupancy", "local": "mbm_local_bytes", "total": "mbm_total_bytes"}


class Place:
    """Where a thread is: the group it is in itself, its monitor group there or '', and the groups that limit it.

    A thread that was put into a group has the limits of that group. Any other has those of the CPU that it runs on.
    """

    __slots__ = ("limits", "monitor", "own")

    def __init__(self, limits: tuple[str, ...], own: str, monitor: str) -> None:
        self.limits = limits
        self.own = own
        self.monitor = monitor


class Groups:
    """The groups of this host; ``why_unknown`` says why a place is unknown, ``missing`` what could not be read."""

    def __init__(self, fs: KernelFS) -> None:
        self.fs = fs
        self.missing: list[str] = []
        self.why_unknown = ""
        found = find_mount(fs)
        self.mount = found[0] if found else None
        self._of_cpu: dict[int, str] = {}
        if self.mount is None:
            self._unknown("resctrl is not mounted.")
            return
        for name in fs.list_names(self.mount):
            cpus = None if name in FIXED else fs.read_if_present(f"{self.mount}/{name}/cpus_list")
            self._of_cpu.update(dict.fromkeys(parse_cpulist(cpus or ""), name))

    def place(self, thread: Thread) -> Place | None:
        """Return where a thread is, None where that is unknown."""
        if self.mount is None:
            return None
        text = self.fs.read_if_present(f"/proc/{thread.process}/task/{thread.tid}/cpu_resctrl_groups")
        fields = dict(line.partition(":")[::2] for line in (text or "").splitlines())
        own = fields.get("res", "")
        if not own:
            self._unknown(
                f"there is no group in /proc/{thread.process}/task/{thread.tid}/cpu_resctrl_groups: the thread has "
                "ended, or the kernel has no CONFIG_PROC_CPU_RESCTRL."
            )
            return None
        limits = (own,) if own != DEFAULT else tuple(sorted({self._of_cpu.get(c, DEFAULT) for c in thread.allowed}))
        return Place(limits, own, fields.get("mon", ""))

    def counters(self, group: str, monitor: str = "") -> Counters:
        """Return the counters of a group in each L3 domain; empty where there are none.

        They count everything in the group, not only the service.
        """
        if self.mount is None:
            return {}
        parts = [self.mount, *([] if group == DEFAULT else [group]), *(["mon_groups", monitor] if monitor else [])]
        folder = "/".join([*parts, "mon_data"])
        found: dict[int, dict[str, int | None]] = {}
        for name in self.fs.list_names(folder):
            domain = name[len("mon_L3_") :]
            if name.startswith("mon_L3_") and domain.isdecimal():
                found[int(domain)] = {key: self._number(f"{folder}/{name}/{file}") for key, file in COUNTERS.items()}
        return found

    def _number(self, path: str) -> int | None:
        try:
            text = self.fs.read(path)
        except Absent:
            return None
        except Refused as error:
            self._miss(str(error))
            return None
        if text.isdecimal():
            return int(text)
        self._miss(f"{path} says '{text}': the hardware has no counter for it now.")
        return None

    def _unknown(self, reason: str) -> None:
        self.why_unknown = self.why_unknown or reason
        self._miss(f"resctrl groups: {reason}")

    def _miss(self, reason: str) -> None:
        if reason not in self.missing:
            self.missing.append(reason)


def names_of(places: Iterable[Place | None]) -> list[tuple[str, str]]:
    """Return each group that threads are in as (group, ''), and each monitor group as (group, monitor group)."""
    names: set[tuple[str, str]] = set()
    for place in filter(None, places):
        names.update((group, "") for group in place.limits)
        if place.monitor:
            names.add((place.own, place.monitor))
    return sorted(names)


def report(
    names: Iterable[tuple[str, str]],
    before: Mapping[tuple[str, str], Counters],
    after: Mapping[tuple[str, str], Counters],
    seconds: float | None,
) -> list[dict[str, object]]:
    """Return plain data: occupancy in bytes by L3 domain, and bandwidth in bytes per second over a window."""
    rows: list[dict[str, object]] = []
    for name in names:
        domains = {}
        for domain, now in after.get(name, {}).items():
            first = before.get(name, {}).get(domain, {})
            domains[str(domain)] = {
                "occupancy": now["occupancy"],
                "local_bandwidth": _rate(first.get("local"), now["local"], seconds),
                "total_bandwidth": _rate(first.get("total"), now["total"], seconds),
            }
        rows.append({"group": name[0], "monitor": name[1], "l3": domains})
    return rows


def _rate(first: int | None, second: int | None, seconds: float | None) -> int | None:
    if first is None or second is None or not seconds or second < first:
        return None
    return round((second - first) / seconds)
