# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host trees for tests of pure logic: the files that the library reads, laid out for any shape of machine.

What a kernel does is tested on a kernel, in tests/lab. These trees are for shapes that no machine here has: SMT,
offline CPUs, ids with holes, missing files.
"""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology, read_topology
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist

FLAGS = "fpu msr cat_l3 cdp_l3 mba cqm_llc"


class TreeFS(KernelFS):
    """A tree in which the cpuid driver answers: its offsets are leaves, so no plain file can stand in for it."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.answers: dict[int, bytes] = {}

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        if not path.endswith("/cpuid"):
            return super().read_at(path, offset, size)
        self.read(path)
        return self.answers.get(offset, bytes(size))


class Host:
    """A tree under construction: ``put`` and ``drop`` change it, ``topology`` reads it as the library would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fs = TreeFS(str(root))

    def put(self, path: str, text: object) -> None:
        real = Path(f"{self.root}{path}")
        try:
            real.write_text(f"{text}\n")
        except FileNotFoundError:  # Seldom, as most files of a large machine have a folder already.
            real.parent.mkdir(parents=True)
            real.write_text(f"{text}\n")

    def drop(self, pattern: str) -> None:
        found = list(self.root.glob(pattern.lstrip("/")))
        assert found, f"nothing to drop at {pattern}"
        for path in found:
            path.unlink()

    def offline(self, cpus: str) -> None:
        """Take CPUs offline, as the kernel shows it: no topology and no cache of theirs, and no list has them."""
        folder = "/sys/devices/system/cpu"
        gone = set(parse_cpulist(cpus))
        for cpu in gone:
            for name in ("topology", "cache"):
                shutil.rmtree(self.root / f"{folder[1:]}/cpu{cpu}/{name}")
        lists = [self.root / f"{folder[1:]}/online", *self.root.glob("sys/devices/system/node/node*/cpulist")]
        lists += self.root.glob(f"{folder[1:]}/cpu*/*/**/*_list")
        for path in lists:
            path.write_text(format_cpulist(set(parse_cpulist(path.read_text())) - gone) + "\n")
        threads = {path.read_text() for path in self.root.glob(f"{folder[1:]}/cpu*/topology/thread_siblings_list")}
        self.put(f"{folder}/smt/active", int(any(len(parse_cpulist(text)) > 1 for text in threads)))

    def cpuid(self, leaf: int, subleaf: int, eax: int, ebx: int = 0, edx: int = 0) -> None:
        """Put an answer where the cpuid driver would."""
        self.put("/dev/cpu/0/cpuid", "answers come from TreeFS")
        self.fs.answers[subleaf << 32 | leaf] = struct.pack("<4I", eax, ebx, 0, edx)

    def topology(self) -> Topology:
        return read_topology(self.fs)


def rendered(cpus: range, cores: int, size: int, which: int) -> str:
    """The CPUs of one of the equal parts into which the cores fall, with their SMT siblings."""
    first = which * size
    return format_cpulist(cpu for start in range(0, len(cpus), cores) for cpu in cpus[start + first :][:size])


def build(
    root: Path,
    *,
    model: str = "AMD EPYC 9754 128-Core Processor",
    family: int = 25,
    number: int = 160,
    sockets: int = 1,
    l3_per_socket: int = 16,
    cores_per_l3: int = 8,
    l3_mib: int = 16,
    nodes: int = 4,
    smt: bool = False,
    ids: list[int] | None = None,
    cbm_bits: int = 16,
    closids: int = 16,
) -> Host:
    """Lay out a machine. SMT siblings are numbered after all cores, as AMD's firmware does."""
    host = Host(root)
    cores = sockets * l3_per_socket * cores_per_l3
    threads = 2 if smt else 1
    cpus = range(cores * threads)
    cpu_folder = "/sys/devices/system/cpu"
    host.put(f"{cpu_folder}/online", format_cpulist(cpus))
    host.put(f"{cpu_folder}/present", format_cpulist(cpus))
    host.put(f"{cpu_folder}/smt/active", int(smt))
    host.put(f"{cpu_folder}/smt/control", "on" if smt else "notsupported")
    host.put("/proc/sys/kernel/osrelease", "6.12.0-test")
    host.put("/proc/filesystems", "nodev\tsysfs\nnodev\tresctrl")
    host.put("/proc/self/mounts", "sysfs /sys sysfs rw 0 0")
    host.put(
        "/proc/cpuinfo",
        f"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: {number}\n"
        f"model name\t: {model}\nstepping\t: 2\nflags\t\t: {FLAGS}\n\nprocessor\t: 1",
    )
    host.put(f"{cpu_folder}/cpufreq/policy0/scaling_driver", "acpi-cpufreq")
    per_node = cores // nodes
    host.put("/sys/devices/system/node/has_memory", format_cpulist(range(nodes)))
    for node in range(nodes):
        host.put(f"/sys/devices/system/node/node{node}/cpulist", rendered(cpus, cores, per_node, node))
        host.put(
            f"/sys/devices/system/node/node{node}/meminfo",
            f"Node {node} MemTotal:  1048576 kB\nNode {node} MemFree: 1 kB",
        )
        pool = f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
        host.put(f"{pool}/nr_hugepages", 8)
        host.put(f"{pool}/free_hugepages", 6)
    per_socket = cores // sockets
    packages = [rendered(cpus, cores, per_socket, socket) for socket in range(sockets)]
    domains = [rendered(cpus, cores, cores_per_l3, domain) for domain in range(cores // cores_per_l3)]
    for cpu in cpus:
        core = cpu % cores
        socket, domain = core // per_socket, core // cores_per_l3
        folder = f"{cpu_folder}/cpu{cpu}"
        # A link on a real host, which stays while the CPU is offline.
        os.makedirs(f"{root}{folder}/node{core // per_node}")
        host.put(f"{folder}/topology/physical_package_id", socket)
        host.put(f"{folder}/topology/die_id", 0)
        host.put(f"{folder}/topology/package_cpus_list", packages[socket])
        host.put(f"{folder}/topology/thread_siblings_list", rendered(cpus, cores, 1, core))
        host.put(f"{folder}/cache/index0/level", 1)
        host.put(f"{folder}/cache/index3/level", 3)
        host.put(f"{folder}/cache/index3/id", ids[domain] if ids else domain)
        host.put(f"{folder}/cache/index3/size", f"{l3_mib * 1024}K")
        host.put(f"{folder}/cache/index3/shared_cpu_list", domains[domain])
    host.cpuid(0x10, 1, cbm_bits - 1, edx=closids - 1)
    host.cpuid(0x80000020, 0, 0, ebx=0xE)
    host.cpuid(0x80000020, 1, 11)
    host.cpuid(0x80000020, 2, 11)
    host.cpuid(0x80000021, 0, 1 << 13)
    return host


#: What ``build`` needs for each machine that plans are tried on; two 7543 have holes in the L3 ids, as real ones do.
SHAPES: dict[str, dict[str, Any]] = {
    "9754": {},
    "9754 SMT": {"smt": True},
    "9654": {"model": "AMD EPYC 9654 96-Core Processor", "number": 17, "l3_per_socket": 12, "l3_mib": 32},
    "9354": {
        "model": "AMD EPYC 9354 32-Core Processor",
        "number": 17,
        "l3_per_socket": 8,
        "cores_per_l3": 4,
        "l3_mib": 32,
    },
    "two 7543": {
        "model": "AMD EPYC 7543 32-Core Processor",
        "number": 1,
        "sockets": 2,
        "l3_per_socket": 8,
        "cores_per_l3": 4,
        "l3_mib": 32,
        "nodes": 2,
        "ids": [*range(8), *range(16, 24)],
    },
    "9655": {
        "model": "AMD EPYC 9655 96-Core Processor",
        "family": 26,
        "number": 2,
        "l3_per_socket": 12,
        "l3_mib": 32,
        "nodes": 1,
        "smt": True,
    },
    "small": {"l3_per_socket": 4, "cores_per_l3": 4},
}
_ZEN6: dict[str, Any] = {"family": 26, "number": 80, "nodes": 1, "smt": True}
#: The sixth generation, which nobody here has: the sample that was seen, the CCDs that the press describes, and 1024
#: CPUs on two sockets. The last ones take a second to lay out, so a test that needs one asks for it.
ZEN6_SHAPES: dict[str, dict[str, Any]] = {
    "Zen 6 sample": {
        **_ZEN6,
        "model": "AMD Eng Sample: 100-000001045-02",
        "l3_per_socket": 6,
        "cores_per_l3": 24,
        "l3_mib": 64,
    },
    "9686F": {
        **_ZEN6,
        "model": "AMD EPYC 9686F 96-Core Processor",
        "l3_per_socket": 8,
        "cores_per_l3": 12,
        "l3_mib": 48,
    },
    "9996": {
        **_ZEN6,
        "model": "AMD EPYC 9996 256-Core Processor",
        "l3_per_socket": 8,
        "cores_per_l3": 32,
        "l3_mib": 128,
    },
}
ZEN6_SHAPES["two 9996"] = {**ZEN6_SHAPES["9996"], "sockets": 2, "nodes": 2, "ids": [*range(8), *range(16, 24)]}


def shape(root: Path, name: str, **changes: Any) -> Host:
    """Lay out a machine of ``SHAPES`` or ``ZEN6_SHAPES``."""
    return build(root, **{**{**SHAPES, **ZEN6_SHAPES}[name], **changes})


@cache
def standing(name: str) -> Host:
    """Return a machine of ``SHAPES`` or ``ZEN6_SHAPES`` for tests that only read it."""
    return shape(_STANDING / name, name)


#: With ansible-test each test is a process, which would lay out its own. So they stand before the first one.
_STANDING = Path(tempfile.mkdtemp(prefix="hosts-"))
atexit.register(shutil.rmtree, _STANDING)
for _name in SHAPES:
    standing(_name)


def milan_pair(root: Path) -> Host:
    """Two EPYC 7543 with the hole in the L3 ids that two-socket machines have."""
    return shape(root, "two 7543")


def small(root: Path, **changes: Any) -> Host:
    """Four L3 domains of four cores, one per node."""
    return shape(root, "small", **changes)


BALANCING = "/proc/sys/kernel/numa_balancing"


def small_to_tune(root: Path) -> Host:
    """Return the small machine with one setting that a run changes, and what an undo looks at."""
    host = small(root)
    host.put(BALANCING, 1)
    host.put("/proc/sys/kernel/random/boot_id", "this-boot")
    host.put("/proc/cmdline", "ro")
    return host
