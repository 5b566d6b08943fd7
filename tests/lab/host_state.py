# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs in a guest and prints as JSON every address of it that the collection could write, whether or not it does.

It knows nothing of the collection: what the kernel shows is read as a person would read it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import stat
import subprocess
import zlib

CPU = "/sys/devices/system/cpu"
KERNEL = (
    "/proc/cmdline",
    "/proc/irq/default_smp_affinity",
    "/proc/irq/*/smp_affinity",
    "/proc/sys/kernel/**",
    "/proc/sys/vm/**",
    "/sys/devices/system/node/node*/hugepages/*/nr_hugepages",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/virtual/workqueue/*/cpumask",
    "/sys/fs/cgroup/llama.slice/cpuset.cpus",
    "/sys/fs/cgroup/llama.slice/cpuset.cpus.partition",
    "/sys/fs/resctrl/**/cpus_list",
    "/sys/fs/resctrl/**/mode",
    "/sys/fs/resctrl/**/schemata",
    "/sys/kernel/mm/transparent_hugepage/**",
    f"{CPU}/cpufreq/boost",
    f"{CPU}/cpufreq/policy*/boost",
    f"{CPU}/cpufreq/policy*/scaling_governor",
    f"{CPU}/cpufreq/policy*/scaling_max_freq",
    f"{CPU}/cpufreq/policy*/scaling_min_freq",
    f"{CPU}/cpufreq/policy*/scaling_setspeed",
    f"{CPU}/cpu*/cpuidle/state*/disable",
    f"{CPU}/online",
    f"{CPU}/smt/control",
)
#: These differ between two readings, or depend on how much memory was free when the kernel started.
RESTLESS = ("/random/", "/ns_last_pid", "/pty/nr", "/stat_refresh", "/user_reserve_kbytes")
RESTLESS += ("/stats/", "/full_scans", "/pages_collapsed")
#: Of the memory: what /dev and /tmp may take of it, which is less where a command line of the kernel takes a page more.
SHARE = re.compile(r"^(\S+ /(?:dev|tmp) \S+ \S*?)(?:,size=\d+k)?,nr_inodes=\d+")
REGISTERS = (0xC0000108, 0xC0010015, 0xC0011022)
#: The collection changes and adds files anywhere below the first; in the others it only adds entries.
CONTENTS = ("/etc", "/boot/grub")
NAMES = ("/boot", "/usr/lib", "/usr/sbin", "/var/lib/sovereign-epyc")


def kernel_files() -> dict[str, str]:
    state = {}
    for pattern in KERNEL:
        for path in glob.glob(pattern, recursive=True):
            if os.path.isfile(path) and not any(word in path for word in RESTLESS):
                with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
                    state[path] = file.read().decode(errors="replace").strip()
    return state


def registers() -> dict[str, str]:
    """Those of every CPU. The driver is loaded only while they are read; reading does not taint the kernel."""
    absent = not os.path.isdir("/sys/module/msr")
    if absent:
        subprocess.run(["modprobe", "msr"], check=True)
    state = {}
    for path in glob.glob("/dev/cpu/*/msr"):
        with open(path, "rb", buffering=0) as file:
            for register in REGISTERS:
                state[f"{path} {register:#x}"] = os.pread(file.fileno(), 8, register)[::-1].hex()
    if absent:
        subprocess.run(["rmmod", "msr"], check=True)
    return state


def ordinary_files() -> dict[str, str]:
    """With a checksum of their contents; a stronger one takes the emulator most of this program's time."""
    paths = [os.path.join(place, name) for top in CONTENTS for place, _, names in os.walk(top) for name in names]
    state = {}
    for path in paths:
        what = os.lstat(path)
        if stat.S_ISLNK(what.st_mode):
            text = os.readlink(path)
        else:
            with open(path, "rb", buffering=0) as file:
                text = f"{what.st_size} {zlib.crc32(file.read()):x}"
        state[path] = f"{what.st_mode:o} {what.st_uid}:{what.st_gid} {text}"
    for folder in NAMES:
        state[f"{folder}/"] = " ".join(sorted(os.listdir(folder))) if os.path.isdir(folder) else "nothing"
    return state


def mounts_and_drivers() -> dict[str, str]:
    """Without the file systems that systemd mounts and unmounts by itself."""
    with open("/proc/self/mounts") as file:
        rows = [SHARE.sub(r"\1", row).split() for row in file]
    state = {f"mount {row[1]}": " ".join(row) for row in rows if row[2] != "autofs" and not row[1].startswith("/run/")}
    return {**state, **{f"driver {name}": "loaded" for name in os.listdir("/sys/module")}}


def main() -> None:
    # Drivers come first: reading registers may load one for a moment.
    print(json.dumps({**mounts_and_drivers(), **kernel_files(), **registers(), **ordinary_files()}))


main()
