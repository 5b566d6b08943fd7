# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is inside the guest: its packages and the files that make a stock Debian quick to boot and easy to reach.

All of it is part of the image's content hash: change a file, and the next `up` builds a new image.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import VepycError
from .quick_python import python_files

ROOT_DEVICE = "/dev/vda1"
_UDEV_SOCKETS = "systemd-udevd-control.socket systemd-udevd-kernel.socket"
#: Ends udev, for which a booted guest has no use. Whenever the driver of the registers is loaded, which many modules do
#: for a moment, it would look at a new device of each CPU, and take the emulator longer than the module.
STOP_UDEV = f"systemctl stop {_UDEV_SOCKETS} systemd-udevd.service"
#: Takes away what only these guests have to be quicker, as some programs gain more by it than others.
AS_ANY_HOST = (
    f"{python_files.REMOVE_SPEEDUPS} && sysctl -qw kernel.randomize_va_space=2 && systemctl start {_UDEV_SOCKETS}"
)


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
    "libgomp1",
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

# Units that give a lab nothing, and cost boot time, and time whenever systemd reads all units anew: each that is masked
# names no others. A link to /dev/null is systemd's own way to mask them.
_MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty-static.service",
    "getty.target",
    "getty@tty1.service",
    "grub-common.service",
    "initrd-cleanup.service",
    "initrd-fs.target",
    "initrd-parse-etc.service",
    "initrd-root-device.target",
    "initrd-root-fs.target",
    "initrd-switch-root.service",
    "initrd-switch-root.target",
    "initrd-udevadm-cleanup-db.service",
    "initrd-usr-fs.target",
    "initrd.target",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "proc-sys-fs-binfmt_misc.automount",
    "serial-getty@ttyS0.service",
    "sshd-keygen.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-tracing.mount",
    "syslog.socket",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-battery-check.service",
    "systemd-binfmt.service",
    "systemd-bsod.service",
    "systemd-confext.service",
    "systemd-creds.socket",
    "systemd-firstboot.service",
    "systemd-hibernate-clear.service",
    "systemd-hibernate-resume.service",
    "systemd-hostnamed.socket",
    "systemd-hwdb-update.service",
    "systemd-initctl.socket",
    "systemd-journal-catalog-update.service",
    "systemd-journal-flush.service",
    "systemd-journald-audit.socket",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-pcrextend.socket",
    "systemd-pcrlock.socket",
    "systemd-pcrmachine.service",
    "systemd-pcrphase-initrd.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-rfkill.socket",
    "systemd-sysext.service",
    "systemd-sysext.socket",
    "systemd-sysusers.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-tmpfiles-setup-dev-early.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-tpm2-setup-early.service",
    "systemd-tpm2-setup.service",
    "systemd-udev-load-credentials.service",
    "systemd-update-done.service",
    "systemd-update-utmp.service",
    "tpm2.target",
)
_MASKED_GENERATORS = (
    "systemd-debug-generator",
    "systemd-getty-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-rc-local-generator",
    "systemd-run-generator",
    "systemd-ssh-generator",
    "systemd-system-update-generator",
    "systemd-sysv-generator",
    "systemd-tpm2-generator",
)

# Drivers that the machine's devices, its CPU flags and systemd would load, each for up to seconds of emulated time.
_BLACKLISTED = (
    "aesni_intel",
    "autofs4",
    "crc32_pclmul",
    "crct10dif_pclmul",
    "evdev",
    "ghash_clmulni_intel",
    "i2c_i801",
    "iTCO_wdt",
    "intel_rapl_msr",
    "kvm_amd",
    "lpc_ich",
    "pcspkr",
    "polyval_clmulni",
    "psmouse",
    "qemu_fw_cfg",
    "serio_raw",
    "sha1_ssse3",
    "sha256_ssse3",
    "sha512_ssse3",
    "vga16fb",
)

# acpi-cpufreq and every governor, so that `scaling_available_governors` lists them all.
_MODULES = (
    "acpi-cpufreq",
    "cpufreq_conservative",
    "cpufreq_ondemand",
    "cpufreq_powersave",
    "cpufreq_userspace",
)

_NETWORK_UNIT = """\
[Unit]
Description=Static address on the lab's network
DefaultDependencies=no
Before=network.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/ip -batch /etc/vepyc-network
[Install]
WantedBy=sysinit.target
"""
_NETWORK = """\
link set lo up
addr replace 10.0.2.15/24 dev eth0
link set eth0 up
route replace default via 10.0.2.2
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

# OpenSSH in trixie punishes an address whose clients connect and leave, and here all of them have one address.
_SSHD_TRIXIE = "PerSourcePenalties no\n"

# Without the check of its configuration before every start, which costs as much as the start. With a heap that it
# keeps: its buffers grow with every packet, and new pages for each of these sizes cost more than what they carry. And
# with a word on the console: who asks by connections has the guest answer all of them, once it can.
SSH_IS_UP = "vepyc: ssh is up"
_SSH_UNIT = f"""\
[Service]
ExecStartPre=
ExecStartPost=/bin/echo {SSH_IS_UP}
StandardOutput=file:/dev/ttyS0
StandardError=journal
Environment=MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TOP_PAD_=4194304 MALLOC_TRIM_THRESHOLD_=67108864
"""

# A boot asks udev for the devices that a unit may wait for, and no more. Debian asks for all that there are, hundreds
# on the smallest machine, from terminals to parts of ACPI.
_COLDPLUG = """\
[Service]
ExecStart=
ExecStart=-udevadm trigger --action=add --subsystem-match=block --subsystem-match=net
"""

# The initramfs loads four modules by name and needs no udev. The second of udev's scripts also hands /dev over.
_NO_UDEV_TOP = """\
#!/bin/sh
exit 0
"""
_NO_UDEV_BOTTOM = """\
#!/bin/sh
[ "$1" = prereqs ] && exit 0
mount -n -o move /dev "${rootmnt:?}/dev"
nuke /dev
ln -s "${rootmnt}/dev" /dev
"""

# What Debian adds for udev is more than half of the initramfs, which GRUB reads and the kernel unpacks at each boot.
_NO_UDEV_FILES = """\
#!/bin/sh
[ "$1" = prereqs ] && exit 0
rm -rf "$DESTDIR"/usr/bin/udevadm "$DESTDIR"/usr/lib/udev "$DESTDIR"/usr/lib/*/systemd
"""

# Until a booting kernel knows its clock, which is late, it gives every CPU 250 ticks a second. Emulated on one thread,
# 128 of them leave little time for anything else, so it boots with one (maxcpus=1 below), and the others come then.
_ALL_CPUS = """\
#!/bin/sh
[ "$1" = prereqs ] && exit 0
for online in /sys/devices/system/cpu/cpu*/online; do
    echo 1 >"$online"
done
"""

# nokaslr: the hooks are placed by address. mitigations=off: their thunks cost the emulated kernel a fifth of its speed.
# norandmaps: QEMU finds what it has translated by its virtual address; at equal ones a program starts a fifth sooner.
# maxcpus: the initramfs brings the others, above. nosoftlockup: a processor that stands still for 20 seconds tells that
# the machine below is busy, and taints the kernel. lsm: with that of BPF, systemd attaches a program for a second.
# notests, initcall_blacklist: the kernel would try its ciphers and its entropy from jitter, for two seconds of a boot.
BOOT_PARAMETERS = (
    "nokaslr norandmaps mitigations=off nosoftlockup maxcpus=1 lsm=lockdown console=ttyS0 "
    "cryptomgr.notests initcall_blacklist=crypto_kdf108_init,jent_mod_init"
)
_GRUB = f"""\
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="{BOOT_PARAMETERS}"
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
grub-install --no-floppy --target=i386-pc /dev/vda && update-grub && echo vepyc: image finished
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
        "etc/initramfs-tools/hooks/vepyc": _NO_UDEV_FILES,
        "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\nvirtio_net\next4\n",
        "etc/initramfs-tools/scripts/init-bottom/udev": _NO_UDEV_BOTTOM,
        "etc/initramfs-tools/scripts/init-top/cpus": _ALL_CPUS,
        "etc/initramfs-tools/scripts/init-top/udev": _NO_UDEV_TOP,
        "etc/modprobe.d/vepyc.conf": "".join(f"blacklist {module}\n" for module in _BLACKLISTED),
        "etc/modules-load.d/vepyc.conf": "".join(f"{module}\n" for module in _MODULES),
        # The guest reaches nobody; without name servers it does not wait for them either.
        "etc/resolv.conf": "",
        "etc/ssh/sshd_config.d/vepyc.conf": _SSHD + (_SSHD_TRIXIE if release.suite == "trixie" else ""),
        "etc/systemd/journald.conf.d/vepyc.conf": "[Journal]\nStorage=volatile\nForwardToConsole=no\n",
        "etc/systemd/system/ssh.service.d/vepyc.conf": _SSH_UNIT,
        "etc/systemd/system/systemd-udev-trigger.service.d/vepyc.conf": _COLDPLUG,
        "etc/systemd/system/vepyc-network.service": _NETWORK_UNIT,
        "etc/vepyc-network": _NETWORK,
        "root/.ssh/authorized_keys": public_key,
        "sbin/vepyc-finish": _FINISH,
        **python_files.speedup_files(),
    }


def links() -> dict[str, str]:
    """The symbolic links of the guest, by path."""
    return {
        # The kernel's own name for the network card, whatever bus slot it is in.
        "etc/systemd/network/99-default.link": "/dev/null",
        **python_files.SPEEDUP_LINKS,
        "etc/systemd/system/sysinit.target.wants/vepyc-network.service": "../vepyc-network.service",
        **{f"etc/systemd/system/{unit}": "/dev/null" for unit in _MASKED_UNITS},
        **{f"etc/systemd/system-generators/{name}": "/dev/null" for name in _MASKED_GENERATORS},
    }
