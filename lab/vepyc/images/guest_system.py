# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operating system of guests as data: packages and files that make a stock Debian quick to boot and easy to reach.

All of this is hashed into the image's key: after any change, the next start of a machine builds a new image.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import VepycError
from ..quick_python import python_files

ROOT_DEVICE = "/dev/vda1"
_UDEV_SOCKETS = "systemd-udevd-control.socket systemd-udevd-kernel.socket"
#: Command that ends udev, which a booted guest does not need. Many modules load the driver of the registers for a
#: moment; udev would then look at a new device of each CPU, which takes an emulated guest longer than the module.
STOP_UDEV = f"systemctl stop {_UDEV_SOCKETS} systemd-udevd.service"
#: Command that removes what makes these guests faster than real hosts, because some programs gain more than others.
REMOVE_SPEEDUPS = (
    f"{python_files.REMOVE_SPEEDUPS} && sysctl -qw kernel.randomize_va_space=2 && systemctl start {_UDEV_SOCKETS}"
)


@dataclass(frozen=True)
class Release:
    """A guest operating system, chosen by its kernel: a version, or one that changes.

    `backports` is the newest kernel of Debian 13, and `forky` that of the Debian in the making, with its programs.
    """

    kernel: str
    suite: str
    kernel_suite: str = ""  # the suite of the kernel's packages, if it is not that of all others


RELEASES = {
    release.kernel: release
    for release in (
        Release("6.12", "trixie"),
        Release("6.1", "bookworm"),
        Release("backports", "trixie", "trixie-backports"),
        Release("forky", "forky"),
    )
}


def get_release(kernel: str) -> Release:
    """Return the release with that kernel; an unknown kernel is an error that lists the known ones."""
    try:
        return RELEASES[kernel]
    except KeyError:
        raise VepycError(f"there is no guest with kernel {kernel!r}; choose {' or '.join(RELEASES)}") from None


GUEST_PACKAGES = (
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

# Units that the lab does not need, and that cost time at boot and whenever systemd reloads its units. A link to
# /dev/null masks a unit, and systemd then does not load the units that it names.
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

# ExecStartPre is empty, because the check of the configuration takes as long as the start. ExecStartPost prints a line
# to the console, which shows the lab that ssh is up; connections in a loop would all be answered by the guest later.
# The MALLOC settings keep freed memory, because new pages for growing buffers cost more time than the packets.
SSH_IS_UP = "vepyc: ssh is up"
_SSH_UNIT = f"""\
[Service]
ExecStartPre=
ExecStartPost=/bin/echo {SSH_IS_UP}
StandardOutput=file:/dev/ttyS0
StandardError=journal
Environment=MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TOP_PAD_=4194304 MALLOC_TRIM_THRESHOLD_=67108864
"""

# A boot triggers udev only for devices that a unit may wait for. Debian triggers it for all devices, hundreds on the
# smallest machine, from terminals to parts of ACPI.
_COLDPLUG = """\
[Service]
ExecStart=
ExecStart=-udevadm trigger --action=add --subsystem-match=block --subsystem-match=net
"""

# The initramfs loads four modules by name and needs no udev. The second of udev's scripts also moves /dev.
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

# udev is more than half of Debian's initramfs, which GRUB reads and the kernel unpacks at each boot.
_NO_UDEV_FILES = """\
#!/bin/sh
[ "$1" = prereqs ] && exit 0
rm -rf "$DESTDIR"/usr/bin/udevadm "$DESTDIR"/usr/lib/udev "$DESTDIR"/usr/lib/*/systemd
"""

# A booting kernel gives every CPU 250 ticks a second until it knows its clock, late in the boot. With 128 CPUs emulated
# on one thread, ticks take most of the time. So it boots with one CPU (maxcpus=1 below), and this script adds the
# others.
_ALL_CPUS = """\
#!/bin/sh
[ "$1" = prereqs ] && exit 0
for online in /sys/devices/system/cpu/cpu*/online; do
    echo 1 >"$online"
done
"""

# nokaslr: the hooks are placed by address. mitigations=off: their thunks cost the emulated kernel a fifth of its speed.
# norandmaps: QEMU caches translated code by virtual address; at equal addresses a program starts a fifth sooner.
# maxcpus: the initramfs adds the other CPUs, above. nosoftlockup: a CPU may stall for 20 seconds because the computer
# below is busy, and the warning would taint the kernel. lsm: with the LSM of BPF, systemd spends a second on a program.
# no_timer_check: on a busy computer the timer is late, and a kernel that counts its ticks would give up.
# notests, initcall_blacklist: the kernel would test its ciphers and its jitter entropy for two seconds of a boot.
BOOT_PARAMETERS = (
    "nokaslr norandmaps mitigations=off nosoftlockup no_timer_check maxcpus=1 lsm=lockdown console=ttyS0 "
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

# The init of the boot that completes the image, because GRUB can only be installed where the image is a disk.
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


def guest_files(release: Release, public_key: str) -> dict[str, str]:
    """Return the text files of the guest by their paths."""
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
        # The guest has no network to the outside, and without name servers it does not wait for their answers.
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


def guest_links() -> dict[str, str]:
    """Return the symbolic links of the guest by their paths."""
    return {
        # Keeps the kernel's name eth0 for the network card, in whatever bus slot it is.
        "etc/systemd/network/99-default.link": "/dev/null",
        **python_files.SPEEDUP_LINKS,
        "etc/systemd/system/sysinit.target.wants/vepyc-network.service": "../vepyc-network.service",
        **{f"etc/systemd/system/{unit}": "/dev/null" for unit in _MASKED_UNITS},
        **{f"etc/systemd/system-generators/{name}": "/dev/null" for name in _MASKED_GENERATORS},
    }
