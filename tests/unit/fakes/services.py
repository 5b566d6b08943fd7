# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A service on a tree laid out as the kernel does, to be proved; what a kernel really says is in tests/lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.placement.watch import prove_placement_of_service
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

UNIT = "/sys/fs/cgroup/system.slice/llama.service"
RESCTRL = "/sys/fs/resctrl"
NUMA_MAPS = """\
55d0c0000000 bind:0-1 file=/usr/bin/llama-server mapped=30 mapmax=2 N0=10 N3=20 kernelpagesize_kB=4
55d0c2000000 bind:0-1 heap anon=256 dirty=256 N0=128 N1=128 kernelpagesize_kB=4
7f0000000000 bind:0-1 file=/srv/my\\040models/model.gguf mapped=1024 N0=512 N1=512 kernelpagesize_kB=4
7f1000000000 bind:0-1 file=/anon_hugepage\\040(deleted) huge anon=3 dirty=3 N1=3 kernelpagesize_kB=2048
7f2000000000 bind:0-1
7f3000000000 prefer (many):0 stack anon=1 dirty=1 N0=1 kernelpagesize_kB=4
7f4000000000 default file=/dev/zero\\040(deleted) dirty=1 N0=1 kernelpagesize_kB=4
"""
ROLLUP = """\
55d0c0000000-7fffffffffff ---p 00000000 00:00 0                          [rollup]
Rss:                8192 kB
AnonHugePages:      4096 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:      2048 kB
Shared_Hugetlb:     2048 kB
Private_Hugetlb:    4096 kB
Swap:                 12 kB
Locked:                0 kB
"""


class Service:
    """A service on the small machine, and the clock that the proof watches it with."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.tree = hosts.small(root, **changes)
        self.tree.put(f"{UNIT}/cgroup.procs", "100")
        self.tree.put("/proc/100/numa_maps", NUMA_MAPS.rstrip())
        self.tree.put("/proc/100/smaps_rollup", ROLLUP.rstrip())
        self.in_window: list[Callable[[], None]] = []
        self.now = 0.0

    def thread(self, tid: int, allowed: str, cpu: int, worked: float = 0, waited: float = 0, **more: Any) -> None:
        folder = f"/proc/100/task/{tid}"
        voluntary, involuntary = more.get("switches", (0, 0))
        self.tree.put(
            f"{folder}/status",
            f"Name:\tllama-server\nState:\tR (running)\nCpus_allowed:\tffff\nCpus_allowed_list:\t{allowed}\n"
            f"voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{involuntary}",
        )
        fields = ["0"] * 50
        fields[11] = str(int(worked * 60))  # the one of two clocks that stands still on a CPU without a tick
        fields[19] = str(more.get("started", 7))
        fields[36] = str(cpu)
        self.tree.put(f"{folder}/stat", f"{tid} (a ) strange) S {' '.join(fields[1:])}")
        self.tree.put(f"{folder}/schedstat", f"{int(worked * 1e9)} {int(waited * 1e9)} 5")
        self.tree.put(f"{folder}/cpu_resctrl_groups", f"res:{more.get('group', '/')}\nmon:{more.get('monitor', '')}")

    def resctrl(self, **cpus_of: str) -> None:
        self.tree.put("/proc/self/mounts", f"resctrl {RESCTRL} resctrl rw 0 0")
        for group in ("", *(f"/{name}" for name in cpus_of)):
            for domain in range(4):
                self.counters(f"{RESCTRL}{group}/mon_data/mon_L3_{domain:02d}", 1000 * domain, 0, 0)
        for name, cpus in cpus_of.items():
            self.tree.put(f"{RESCTRL}/{name}/cpus_list", cpus)

    def counters(self, folder: str, occupancy: object, local: object, total: object) -> None:
        self.tree.put(f"{folder}/llc_occupancy", occupancy)
        self.tree.put(f"{folder}/mbm_local_bytes", local)
        self.tree.put(f"{folder}/mbm_total_bytes", total)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for event in self.in_window:
            event()

    def monotonic(self) -> float:
        return self.now

    def prove(self, **options: Any) -> dict[str, Any]:
        return dict(prove_placement_of_service(Host(self.tree.fs), {"service": "llama.service", **options}, clock=self))

    def judge(self, **options: Any) -> tuple[str, str]:
        """The only verdict, and its sentence."""
        (verdict,) = self.prove(**options)["verdicts"]
        return verdict["verdict"], verdict["sentence"]


def one_waits_two_compute(root: Path) -> Service:
    """One thread on CPUs 0 to 3 that waits, and two on CPUs 4 and 5 of their own that compute for two seconds."""
    service = Service(root)
    service.thread(100, "0-3", 0, switches=(10, 10))
    service.thread(101, "4", 4)
    service.thread(102, "5", 5)
    service.in_window = [
        lambda: service.thread(100, "0-3", 1, worked=0.1, switches=(30, 11)),
        lambda: service.thread(101, "4", 4, worked=2, switches=(0, 3)),
        lambda: service.thread(102, "5", 5, worked=1.5, waited=0.4),
    ]
    return service
