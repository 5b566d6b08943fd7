# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is inside the guest: its packages and the files that make a stock Debian quick to boot and easy to reach.

This file is part of the image's content hash: change it, and the next `up` builds a new image.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import VepycError

ROOT_DEVICE = "/dev/vda1"


@dataclass(frozen=True)
class Release:
    """One guest operating system, chosen by the kernel version it brings."""

    kernel: str
    suite: str


RELEASES = {release.kernel: release for release in (Release("6.12", "trixie"), Release("6.1", "bookworm"))}


def get_release(kernel: str) -> Release:
    """Return the release with that kernel, or say which kernels there are."""
    try:
        return RELEASES[kernel]
    except KeyError:
        raise VepycError(f"there is no guest with kernel {kernel!r}; choose {' or '.join(RELEASES)}") from None


PACKAGES = (
    "grub-pc",
    "initramfs-tools",
    "iproute2",
    "kmod",
    "linux-image-amd64",
    "numactl",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "sudo",
    "systemd-sysv",
    "udev",
    "zstd",
)

# Units that cost boot time in an emulated machine and give a lab nothing. A link to /dev/null is systemd's own "masked".
MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "grub-common.service",
    "systemd-binfmt.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-logind.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pstore.service",
    "systemd-rfkill.socket",
    "systemd-update-utmp.service",
    "serial-getty@ttyS0.service",
)

_NETWORK_UNIT = """\
[Unit]
Description=Static address on the lab's network
DefaultDependencies=no
Before=network.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/ip link set lo up
ExecStart=/sbin/ip addr replace 10.0.2.15/24 dev eth0
ExecStart=/sbin/ip link set eth0 up
ExecStart=/sbin/ip route replace default via 10.0.2.2
[Install]
WantedBy=sysinit.target
"""

# Only the elliptic curve: the hybrid exchange that is ssh's default takes seconds on an emulated processor.
_SSHD = """\
KexAlgorithms curve25519-sha256
MaxSessions 64
MaxStartups 100
PasswordAuthentication no
PermitRootLogin prohibit-password
UseDNS no
UsePAM no
"""

# OpenSSH in trixie punishes clients that connect and leave, which is how the lab asks whether ssh is up.
_SSHD_TRIXIE = "PerSourcePenalties no\n"

_GRUB = """\
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="nokaslr console=ttyS0"
GRUB_DISABLE_LINUX_UUID=true
GRUB_DISABLE_RECOVERY=true
GRUB_TERMINAL=serial
"""

# The init of the one boot that finishes the image: GRUB can only be installed where the disk is really a disk.
_FINISH = f"""\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -o remount,rw {ROOT_DEVICE} /
grub-install --no-floppy --target=i386-pc /dev/vda && update-grub && rm /sbin/vepyc-finish && echo vepyc: image finished
sync
mount -o remount,ro /
poweroff -f
"""


def files(release: Release, public_key: str) -> dict[str, str]:
    """The text files of the guest, by path."""
    return {
        "etc/default/grub": _GRUB,
        "etc/fstab": f"{ROOT_DEVICE} / ext4 defaults,noatime 0 0\n",
        "etc/hostname": "vepyc\n",
        "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
        "etc/initramfs-tools/conf.d/vepyc.conf": "MODULES=list\nCOMPRESS=zstd\nRESUME=none\n",
        "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\nvirtio_net\next4\n",
        "etc/modules-load.d/vepyc.conf": "acpi-cpufreq\n",
        "etc/ssh/sshd_config.d/vepyc.conf": _SSHD + (_SSHD_TRIXIE if release.suite == "trixie" else ""),
        "etc/systemd/journald.conf.d/vepyc.conf": "[Journal]\nStorage=volatile\nForwardToConsole=no\n",
        "etc/systemd/system/vepyc-network.service": _NETWORK_UNIT,
        "root/.ssh/authorized_keys": public_key,
        "sbin/vepyc-finish": _FINISH,
    }


def links() -> dict[str, str]:
    """The symbolic links of the guest, by path."""
    return {
        # The kernel's own name for the network card, whatever bus slot it is in.
        "etc/systemd/network/99-default.link": "/dev/null",
        "etc/systemd/system/sysinit.target.wants/vepyc-network.service": "../vepyc-network.service",
        **{f"etc/systemd/system/{unit}": "/dev/null" for unit in MASKED},
    }
