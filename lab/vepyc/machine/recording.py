# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records the kernel files of a guest as ordinary files, and shows them in a container in place of its own.

To a program that only reads, a container with a recording in place of /sys and /proc looks like the guest. A benchmark
of many hosts uses such containers, because they need far less memory and CPU time than guests.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from ..container import Container
from ..errors import VepycError
from .running import Machine

#: Program that runs in the guest and writes an archive to its output. Kernel files report wrong sizes, so each is read
#: to its end; unreadable files are left out. Of the registers, only those in the list are recorded.
_SCRIPT = r"""
import io, os, sys, tarfile

TREES = (
    "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/devices/virtual/workqueue", "/sys/kernel/irq",
    "/sys/kernel/iommu_groups", "/sys/kernel/mm", "/sys/fs/resctrl", "/sys/module/msr", "/sys/module/cpuid",
    "/sys/bus/pci/devices", "/sys/bus/pci/drivers", "/sys/class/dmi/id", "/sys/class/hwmon", "/sys/class/iommu",
    "/sys/firmware/acpi/tables", "/sys/firmware/dmi/tables", "/proc/irq", "/proc/sys/kernel", "/proc/sys/vm",
    "/etc/default", "/boot/grub", "/etc/modules-load.d", "/etc/systemd/system", "/usr/lib/sovereign-epyc",
    "/var/lib/sovereign-epyc",
)
FILES = (
    "/proc/cpuinfo", "/proc/cmdline", "/proc/filesystems", "/proc/self/mounts", "/proc/uptime", "/proc/meminfo",
    "/proc/interrupts", "/sys/firmware/acpi/pm_profile", "/usr/lib/os-release", "/usr/sbin/sovereign-epyc",
)
PRUNED = {"power", "crash_notes", "crash_notes_size", "hotplug", "microcode", "thermal_throttle", "fonts", "locale",
    "mon_data", "__pycache__"}
# Counters of idle states, on which no setting depends: a dozen files for each state of each CPU.
PRUNED |= {"above", "below", "default_status", "desc", "rejected", "residency", "s2idle", "time", "usage"}
REGISTERS = (0xC0000108, 0xC0010015, 0xC0011022)
#: CPUID leaves, which are offsets of the driver. Each answer has 16 bytes, so adjacent leaves would overlap.
LEAVES = (0x10, 0x80000021)

archive = tarfile.open(fileobj=sys.stdout.buffer, mode="w|gz", compresslevel=1)

def put(path, data, mode):
    info = tarfile.TarInfo(path.lstrip("/"))
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))

def take(path):
    what = os.lstat(path)
    if os.path.islink(path):
        info = tarfile.TarInfo(path.lstrip("/"))
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
        archive.addfile(info)
    elif os.path.isfile(path) and what.st_mode & 0o444:
        try:
            with open(path, "rb") as file:
                put(path, file.read(1 << 20), what.st_mode & 0o7777)
        except OSError:
            pass

for path in FILES:
    if os.path.exists(path):
        take(path)
for tree in TREES:
    for place, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if name not in PRUNED]
        for name in files + [name for name in folders if os.path.islink(os.path.join(place, name))]:
            if name not in PRUNED:
                take(os.path.join(place, name))
        if not files and not folders:
            info = tarfile.TarInfo(place.lstrip("/"))
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(info)
for driver, offsets, size in (("msr", REGISTERS, 8), ("cpuid", LEAVES, 16)):
    for name in os.listdir("/dev/cpu") if os.path.isdir("/dev/cpu") else ():
        path = f"/dev/cpu/{name}/{driver}"
        try:
            with open(path, "rb", buffering=0) as file:
                data = b"".join(os.pread(file.fileno(), size, offset) for offset in offsets)
        except OSError:
            continue
        put(f"{path}.{'-'.join(format(offset, 'x') for offset in offsets)}", data, 0o600)
archive.close()
"""
#: Script that runs in a container. It starts a service with a mount namespace of its own, in which a recording is
#: mounted over /sys, /proc and /dev/cpu, and prints the process id of that service.
_VIEW = """
set -e
cp -a /recording/etc/default /recording/etc/modules-load.d /recording/etc/systemd /etc/
cp -a /recording/usr/lib/os-release /recording/usr/lib/sovereign-epyc /usr/lib/
cp -a /recording/usr/sbin/sovereign-epyc /usr/sbin/
# The collection refuses files there that belong to others than root, and another user may have unpacked them.
cp -a --no-preserve=ownership /recording/var/lib/sovereign-epyc /var/lib/
chmod 700 /var/lib/sovereign-epyc
mkdir -p /boot/grub /dev/cpu
cp -a /recording/boot/grub/. /boot/grub/
systemd-run --quiet --unit=view --property=PrivateMounts=yes sh -c '
    mount --bind -o ro /recording/dev/cpu /dev/cpu
    mount --bind -o ro /recording/sys /sys
    mount --bind -o ro /recording/proc /proc
    exec sleep infinity'
until [ "$(readlink /proc/$(systemctl show -P MainPID view)/exe)" = "$(command -v sleep)" ]; do sleep 0.05; done
# The service that watches a host's interrupts would find those of this machine. So `sleep` runs under its name.
mkdir -p /run/systemd/system/sovereign-epyc-watch.service.d
printf '[Service]\nType=exec\nExecStart=\nExecStart=sleep infinity\n' \\
    >/run/systemd/system/sovereign-epyc-watch.service.d/view.conf
systemctl daemon-reload
systemctl start sovereign-epyc-watch.service
# With another /proc mounted, systemctl believes that it is in a chroot, and would do nothing.
echo 'SetEnv SYSTEMD_IGNORE_CHROOT=1' >/etc/ssh/sshd_config.d/view.conf
systemctl show -P MainPID view
"""


def record_guest(machine: Machine, folder: Path) -> None:
    """Record the kernel files of a guest into a new folder."""
    folder.mkdir(parents=True)
    send = subprocess.Popen(
        [*machine.ssh_command(), "python3 -"],
        cwd=machine.run_dir.path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert send.stdin is not None
    send.stdin.write(_SCRIPT.encode())
    send.stdin.close()
    unpack = subprocess.run(["tar", "-xz", "--delay-directory-restore", "-C", str(folder)], stdin=send.stdout)
    if send.wait() or unpack.returncode:
        raise VepycError(f"{machine.name} could not be recorded: python3 or tar failed, see above")
    for path in (folder / "dev/cpu").glob("*/*.*"):
        _spread_registers(path)


def _spread_registers(path: Path) -> None:
    """Write the recorded registers into a sparse file at the offsets at which the driver shows them."""
    data, name = path.read_bytes(), path.name.partition(".")
    offsets = [int(offset, 16) for offset in name[2].split("-")]
    size = len(data) // len(offsets)
    with path.with_name(name[0]).open("wb") as file:
        for number, offset in enumerate(offsets):
            file.seek(offset)
            file.write(data[number * size : (number + 1) * size])
    path.unlink()


def show_recording(container: Container) -> dict[str, str]:
    """Mount the recording at /recording over a container's kernel files; return inventory variables to reach it."""
    holder = container.run(_VIEW).stdout.strip()
    return container.inventory_variables(["nsenter", f"--target={holder}", "--mount"])
