# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Building the base image: a stock Debian with its stock kernel on a disk that boots through its own GRUB."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from . import guest, kernel
from .debian import bootstrap, put
from .errors import VepycError
from .guest import Release
from .paths import PACKAGE, digest, directory, locked, run_tool, ssh_key
from .qemu import QEMU

_DISK_MIB = 4096
_FINISH_TIMEOUT = 400


def image_key(release: Release) -> str:
    """The content hash of the image: what goes in, how it is built, and whose key opens it."""
    key = _public_key()
    contents = {**guest.files(release, key), **guest.links()}
    recipe = (PACKAGE / "image.py").read_bytes()
    return digest([release.suite, *guest.PACKAGES, json.dumps(contents, sort_keys=True), recipe])


def image_dir(release: Release) -> Path:
    """Where the image is, or would be."""
    return directory("images") / f"{release.suite}-{image_key(release)}"


def ensure_image(release: Release) -> Path:
    """Return the image's directory, holding disk.raw, vmlinux and release; build it first when it is missing."""
    target = image_dir(release)
    if target.exists():
        return target
    with locked(f"image-{target.name}"):
        if not target.exists():
            _build(release, target)
    return target


def _public_key() -> str:
    return ssh_key().with_suffix(".pub").read_text()


def _build(release: Release, target: Path) -> None:
    if os.geteuid() != 0:
        raise VepycError("building a guest image needs root, because debootstrap does; run this command as root")
    log = directory("logs") / f"image-{target.name}.log"
    log.unlink(missing_ok=True)
    work = target.with_name(target.name + ".building")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    print(f"building the {release.suite} image (once, 2 to 4 minutes; log: {log})", flush=True)
    try:
        root = work / "root"
        bootstrap(release.suite, guest.PACKAGES, root, log)
        _configure(release, root, log)
        boot = root / "boot"
        (vmlinuz,) = boot.glob("vmlinuz-*")
        (initrd,) = boot.glob("initrd.img-*")
        (work / "release").write_text(vmlinuz.name.removeprefix("vmlinuz-") + "\n")
        (work / "vmlinux").write_bytes(kernel.unpack(vmlinuz))
        _make_disk(root, work / "disk.raw", log)
        _finish(work / "disk.raw", vmlinuz, initrd, log)
        shutil.rmtree(root)
        work.rename(target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _configure(release: Release, root: Path, log: Path) -> None:
    put(root, guest.files(release, _public_key()), guest.links())
    (root / "root/.ssh").chmod(0o700)
    run_tool(["chroot", str(root), "systemd-machine-id-setup"], log)
    run_tool(["chroot", str(root), "update-initramfs", "-u"], log)
    shutil.rmtree(root / "var/cache/apt", ignore_errors=True)
    # Newer than /usr: systemd then skips the work it does at the first boot after an update.
    for stamp in ("etc/.updated", "var/.updated"):
        (root / stamp).touch()


def _make_disk(root: Path, disk: Path, log: Path) -> None:
    """One ext4 partition behind a partition table, made without loop devices or mounts."""
    offset = 1024 * 1024
    with disk.open("wb") as handle:
        handle.truncate(_DISK_MIB * 1024 * 1024)
    size = f"{_DISK_MIB - 1}M"
    run_tool(["mke2fs", "-q", "-t", "ext4", "-d", str(root), "-E", f"offset={offset}", str(disk), size], log)
    run_tool(["sfdisk", "--quiet", str(disk)], log, input="start=2048,type=83,bootable\n")


def _finish(disk: Path, vmlinuz: Path, initrd: Path, log: Path) -> None:
    """Boot the disk once, with the kernel given directly, so that the guest itself installs GRUB."""
    console = log.with_suffix(".console")
    command = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35"]
    command += ["-accel", "tcg,thread=single", "-cpu", "max", "-m", "1024M"]
    command += ["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe", "-serial", f"file:{console}"]
    command += ["-kernel", str(vmlinuz), "-initrd", str(initrd), "-append"]
    command += [f"root={guest.ROOT_DEVICE} console=ttyS0 init=/sbin/vepyc-finish panic=-1"]
    try:
        subprocess.run(command, check=True, timeout=_FINISH_TIMEOUT, stdin=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise VepycError(f"the new image did not finish its first boot: see {console}") from None
    if "vepyc: image finished" not in console.read_text(errors="replace"):
        raise VepycError(f"the new image could not install GRUB: see {console}")
