# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cpuset partition of the instances, and other control groups that are limited to certain CPUs.

Source: Documentation/admin-guide/cgroup-v2.rst of the Linux kernel (cpuset.cpus and cpuset.cpus.partition).
"""

from __future__ import annotations

from .._notation.cpulist import parse_cpulist
from .cgroups import CGROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._io.kernelfs import KernelFS

#: The slice that is the partition, directly below the root, as kernels before Linux 6.7 require it.
SLICE = "llama.slice"
FOLDER = f"{CGROUPS}/{SLICE}"
ROOT, ISOLATED = "root", "isolated"
#: The lists of CPUs to which the kernel balances no tasks: isolated by a boot parameter, or by a cpuset partition.
ISOLATED_LISTS = ("/sys/devices/system/cpu/isolated", f"{CGROUPS}/cpuset.cpus.isolated")


class CpusetGroup:
    """A control group that is limited to certain CPUs; ``partition`` is the kernel's word, such as "member"."""

    def __init__(self, path: str, cpus: set[int], partition: str) -> None:
        self.path = path
        self.cpus = cpus
        self.partition = partition

    @property
    def name(self) -> str:
        """The name of the unit of the control group."""
        return self.path.rpartition("/")[2]


def read_active_partition(fs: KernelFS) -> tuple[str, frozenset[int]]:
    """Return the type ("root" or "isolated") and the CPUs of the partition in force; an empty type where none is."""
    kind = fs.read_if_present(f"{FOLDER}/cpuset.cpus.partition")
    if kind not in (ROOT, ISOLATED):
        return "", frozenset()
    return kind, frozenset(parse_cpulist(fs.read_if_present(f"{FOLDER}/cpuset.cpus.effective") or ""))


def read_isolated_cpus(fs: KernelFS) -> set[int]:
    """Return the CPUs between which the kernel moves no thread."""
    kind, partition = read_active_partition(fs)
    isolated = {cpu for path in ISOLATED_LISTS for cpu in parse_cpulist(fs.read_if_present(path) or "")}
    return isolated.union(partition if kind == ISOLATED else ())


def list_cpuset_groups_outside_slice(
    fs: KernelFS, folder: str = CGROUPS, file: str = "cpuset.cpus"
) -> Iterator[CpusetGroup]:
    """Yield the control groups outside of the slice that are limited to certain CPUs, as by AllowedCPUs of systemd.

    With ``file`` "cpuset.cpus.effective", yield all control groups that have a cpuset.
    """
    if "cpuset" not in (fs.read_if_present(f"{folder}/cgroup.subtree_control") or "").split():
        return
    for name in fs.list_names(folder):
        path = f"{folder}/{name}"
        text = fs.read_if_present(f"{path}/{file}")
        if text is None or path == FOLDER:
            continue
        if text.strip():
            yield CpusetGroup(path, set(parse_cpulist(text)), fs.read_if_present(f"{path}/cpuset.cpus.partition") or "")
        yield from list_cpuset_groups_outside_slice(fs, path, file)
