# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The threads of a running service, found through its control group.

Source: Documentation/admin-guide/cgroup-v2.rst of the Linux kernel (cgroup.threads).
"""

from __future__ import annotations

from ._errors import Absent, BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._kernelfs import KernelFS

CGROUPS = "/sys/fs/cgroup"


def threads_of(fs: KernelFS, who: str) -> set[int]:
    """Return the thread ids of a systemd unit or, for a number, of a process; BadRequest where it does not run."""
    if who.isdecimal():
        names = fs.names(f"/proc/{who}/task")
        if not names:
            raise BadRequest(f"There is no process {who}, so its threads cannot be moved.")
        return {int(name) for name in names}
    folder = _find_unit(fs, who, CGROUPS)
    if folder is None:
        raise BadRequest(
            f"The unit {who} has no control group below {CGROUPS}: it does not run. Start it first, or check its name."
        )
    return _threads_below(fs, folder)


def _find_unit(fs: KernelFS, unit: str, folder: str) -> str | None:
    """Look for a unit's folder; units are direct children of slices."""
    for name in fs.names(folder):
        if name == unit:
            return f"{folder}/{name}"
        if name.endswith(".slice"):
            found = _find_unit(fs, unit, f"{folder}/{name}")
            if found:
                return found
    return None


def _threads_below(fs: KernelFS, folder: str) -> set[int]:
    try:
        threads = {int(line) for line in fs.read(f"{folder}/cgroup.threads").split()}
    except Absent:
        return set()
    for name in fs.names(folder):
        if fs.is_dir(f"{folder}/{name}"):
            threads |= _threads_below(fs, f"{folder}/{name}")
    return threads
