# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Building the base image: a stock Debian with its stock kernel on a disk that boots through its own GRUB."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from functools import partial
from pathlib import Path

from ..cache_folders import ensure_folder
from ..epyc import kernel_addresses
from ..errors import VepycError
from ..machine.qemu_arguments import QEMU
from ..paths import compute_digest, ensure_directory, ensure_ssh_key, run_tool
from . import guest_system
from .debian import install_debian, write_files_and_links
from .guest_system import Release

_DISK_MIB = 4096
_FINISH_TIMEOUT = 400


def image_key(release: Release) -> str:
    """Return the hash that names the image: of its contents, of this file, which builds it, and of the ssh key."""
    key = _read_public_key()
    contents = {**guest_system.guest_files(release, key), **guest_system.guest_links()}
    recipe = Path(__file__).read_bytes()
    suites = [release.suite, release.kernel_suite]
    return compute_digest([*suites, *guest_system.GUEST_PACKAGES, json.dumps(contents, sort_keys=True), recipe])


def image_dir(release: Release) -> Path:
    """Return the folder of the image, which need not exist."""
    return ensure_directory("images") / f"{release.kernel_suite or release.suite}-{image_key(release)}"


def ensure_image(release: Release) -> Path:
    """Return the image's folder, with disk.raw, vmlinux and release; build it first when it is missing."""
    target = image_dir(release)
    if target.exists():
        return target
    awaited = f"the {release.kernel_suite or release.suite} image (1 to 3 minutes)"
    return ensure_folder(target, partial(_build_image, release, target.name), awaited=awaited)


def _read_public_key() -> str:
    return ensure_ssh_key().with_suffix(".pub").read_text()


def _build_image(release: Release, name: str, folder: Path) -> None:
    if os.geteuid() != 0:
        raise VepycError("building a guest image needs root, because debootstrap does; run this command as root")
    log = ensure_directory("logs") / f"image-{name}.log"
    log.unlink(missing_ok=True)
    print(f"building the {release.kernel_suite or release.suite} image (once, 2 to 4 minutes; log: {log})", flush=True)
    root = folder / "root"
    install_debian(release.suite, guest_system.GUEST_PACKAGES, root, log, release.kernel_suite)
    _configure_root(release, root, log)
    (vmlinuz,) = root.glob("boot/vmlinuz-*")
    (initrd,) = root.glob("boot/initrd.img-*")
    (folder / "release").write_text(vmlinuz.name.removeprefix("vmlinuz-") + "\n")
    (folder / "vmlinux").write_bytes(kernel_addresses.unpack_vmlinuz(vmlinuz))
    _make_disk(root, folder / "disk.raw", log)
    _install_bootloader(folder / "disk.raw", vmlinuz, initrd, log)
    shutil.rmtree(root)


def _configure_root(release: Release, root: Path, log: Path) -> None:
    write_files_and_links(root, guest_system.guest_files(release, _read_public_key()), guest_system.guest_links())
    (root / "root/.ssh").chmod(0o700)
    (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
    run_tool(["chroot", str(root), "update-initramfs", "-u"], log)
    shutil.rmtree(root / "var/cache/apt", ignore_errors=True)
    # With these stamps newer than /usr, systemd skips the work of a first boot after an update.
    for stamp in ("etc/.updated", "var/.updated"):
        (root / stamp).touch()


def _make_disk(root: Path, disk: Path, log: Path) -> None:
    """Write a disk with one ext4 partition that holds the files below ``root``, without loop devices or mounts."""
    offset = 1024 * 1024
    with disk.open("wb") as handle:
        handle.truncate(_DISK_MIB * 1024 * 1024)
    size = f"{_DISK_MIB - 1}M"
    run_tool(["mke2fs", "-q", "-t", "ext4", "-d", str(root), "-E", f"offset={offset}", str(disk), size], log)
    run_tool(["sfdisk", "--quiet", str(disk)], log, input="start=2048,type=83,bootable\n")


def _install_bootloader(disk: Path, vmlinuz: Path, initrd: Path, log: Path) -> None:
    """Boot the disk once, with the kernel as an argument of QEMU, so that the guest itself installs GRUB."""
    console = log.with_suffix(".console")
    command = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35"]
    command += ["-accel", "tcg,thread=single", "-cpu", "max", "-m", "1024M"]
    command += ["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe", "-serial", f"file:{console}"]
    command += ["-kernel", str(vmlinuz), "-initrd", str(initrd), "-append"]
    command += [f"root={guest_system.ROOT_DEVICE} console=ttyS0 no_timer_check init=/sbin/vepyc-finish panic=-1"]
    try:
        subprocess.run(command, check=True, timeout=_FINISH_TIMEOUT, stdin=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise VepycError(f"the new image did not finish its first boot: see {console}") from None
    if "vepyc: image finished" not in console.read_text(errors="replace"):
        raise VepycError(f"the new image could not install GRUB: see {console}")
