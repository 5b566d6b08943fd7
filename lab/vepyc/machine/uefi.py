# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firmware of a machine that starts as a server does: OVMF as Debian has it, and a disk with a boot partition.

The boot partition is on a disk of its own, because the disk of the image has GRUB for the firmware of a PC.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ..epyc.shapes import Shape
from ..paths import run_tool

_CODE, _VARIABLES, _DISK = "uefi-code.fd", "uefi-variables.fd", "boot-partition.raw"
_DISK_MIB = 384
_EFI_SYSTEM_PARTITION = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"


def build_arguments(shape: Shape) -> list[str]:
    """Return QEMU's arguments for the boot partition and the firmware, none for a machine without them."""
    arguments = []
    if shape.boot_partition:
        arguments += ["-drive", f"file={_DISK},if=none,id=boot,format=raw"]
        arguments += ["-device", "virtio-blk-pci,drive=boot"]
    if shape.uefi:
        arguments += ["-drive", f"file={_CODE},if=pflash,unit=0,format=raw,readonly=on"]
        arguments += ["-drive", f"file={_VARIABLES},if=pflash,unit=1,format=raw"]
    return arguments


def write_missing_files(shape: Shape, folder: Path) -> None:
    """Write the files that the arguments name; the disk and the variables of the firmware stay over a boot."""
    if shape.boot_partition and not (folder / _DISK).exists():
        with (folder / _DISK).open("wb") as disk:
            disk.truncate(_DISK_MIB * 1024 * 1024)
        run_tool(
            ["sfdisk", "--quiet", str(folder / _DISK)], input=f"label: gpt\nstart=2048, type={_EFI_SYSTEM_PARTITION}\n"
        )
    if shape.uefi and not (folder / _VARIABLES).exists():
        # Imported here because the packages are fetched for guests, which are built on this module.
        from ..images.debian_packages import ensure_extracted

        firmware = ensure_extracted("trixie", "ovmf") / "usr/share/OVMF"
        shutil.copy(firmware / "OVMF_CODE_4M.fd", folder / _CODE)
        shutil.copy(firmware / "OVMF_VARS_4M.fd", folder / _VARIABLES)
