# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot loader of a host, and what changes its parameters; unsupported boot loaders are refused.

Files show which boot loaders are installed, and variables of the firmware which one has started the host. The name of
the distribution decides nothing.
"""

from __future__ import annotations

import os

from ..._errors import BadRequest
from . import proxmox
from .boot_entries import has_systemd_boot
from .config_files import MAIN
from .drop_in import has_drop_in
from .grub import RESULT, UPDATE, Grub
from .grubby import Grubby
from .systemd_boot import SystemdBoot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    from ..._io.kernelfs import KernelFS

    Loader = Union[Grub, Grubby, SystemdBoot, proxmox.ProxmoxSystemdBoot]

#: The variables of the Boot Loader Interface, and those of systemd-stub, which is in unified kernel images.
FIRMWARE = "/sys/firmware/efi"
VARIABLES = f"{FIRMWARE}/efivars"
VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
#: The boot loader, the entry that it chose, systemd-stub, and the path of the image that the firmware has started.
LOADER_INFO, CHOSEN_ENTRY, STUB_INFO, IMAGE = (
    f"{VARIABLES}/{name}-{VENDOR}"
    for name in ("LoaderInfo", "LoaderEntrySelected", "StubInfo", "LoaderImageIdentifier")
)
INSTEAD = (
    "Set the parameters there by hand; sovereign.epyc changes them for GRUB by update-grub or grubby, for systemd-boot "
    "and unified kernel images by kernel-install, and for proxmox-boot-tool."
)


def find_boot_loader(fs: KernelFS) -> Loader:
    """Return the boot loader of this host. Raises BadRequest if it is unknown, or if two may have started the host."""
    if fs.read_status("/run/ostree-booted") is not None:
        raise BadRequest(f"This host boots by ostree, which keeps parameters itself: use 'rpm-ostree kargs'. {INSTEAD}")
    started_by = _read_variable(fs, LOADER_INFO)
    if fs.read_status(proxmox.PARTITIONS) is not None:
        return proxmox.ProxmoxSystemdBoot(fs) if "systemd-boot" in started_by else proxmox.ProxmoxGrub(fs.root)
    if "systemd-boot" in started_by:
        return _with_remark_on_the_other(SystemdBoot(fs, _read_variable(fs, CHOSEN_ENTRY)), started_by, _has_grub(fs))
    if started_by and "GRUB" not in started_by.upper():
        raise BadRequest(f"This host was started by the boot loader {started_by}. {INSTEAD}")
    if "systemd-stub" in _read_variable(fs, STUB_INFO):
        return _find_loader_of_image(fs, started_by)
    if not started_by:
        _refuse_two_loaders_without_variables(fs)
    return _with_remark_on_the_other(_find_grub(fs), started_by or "GRUB", has_systemd_boot(fs))


def _find_loader_of_image(fs: KernelFS, started_by: str) -> SystemdBoot:
    """Return the loader of a host that the firmware itself started with a unified kernel image."""
    if started_by:
        raise BadRequest(
            f"This host was started with a unified kernel image by {started_by}, whose own parameters the image does "
            f"not use. {INSTEAD}"
        )
    if _has_grub(fs):
        raise BadRequest(
            "This host was started with a unified kernel image, and GRUB is installed, too: nothing tells whether GRUB "
            f"or the firmware has started the image. Remove GRUB if it is the firmware. {INSTEAD}"
        )
    return SystemdBoot(fs, _read_variable(fs, IMAGE).rpartition("\\")[2])


def _refuse_two_loaders_without_variables(fs: KernelFS) -> None:
    if fs.is_dir(FIRMWARE) and not fs.list_names(VARIABLES) and _has_grub(fs) and has_systemd_boot(fs):
        raise BadRequest(
            f"GRUB and systemd-boot are installed on this host, and {VARIABLES} is empty, so nothing tells which one "
            f"has started it. Mount it by 'mount -t efivarfs none {VARIABLES}', and try again."
        )


def _find_grub(fs: KernelFS) -> Grub | Grubby:
    if fs.read_status(UPDATE) is not None and fs.read_status(MAIN) is not None:
        # If the drop-in exists, GRUB has booted this host before, so update-grub may make a missing grub.cfg again.
        if fs.read_status(RESULT) is None and (not has_drop_in(fs) or fs.read_status(os.path.dirname(RESULT)) is None):
            raise BadRequest(
                f"There is no {RESULT}, so GRUB does not boot this host: a container, or another boot loader. If it "
                "is a host that GRUB boots, mount /boot and run update-grub."
            )
        return Grub(fs.root)
    if _has_grubby(fs):
        return Grubby()
    raise BadRequest(
        f"{_read_distribution_name(fs)} has neither {UPDATE} nor grubby, so sovereign.epyc does not know how it boots. "
        f"{INSTEAD}"
    )


def _has_grub(fs: KernelFS) -> bool:
    return _has_grubby(fs) or (fs.read_status(UPDATE) is not None and fs.read_status(RESULT) is not None)


def _has_grubby(fs: KernelFS) -> bool:
    return any(fs.read_status(path) is not None for path in ("/usr/sbin/grubby", "/sbin/grubby"))


def _with_remark_on_the_other(loader: Loader, started_by: str, has_other: bool) -> Loader:
    if has_other and isinstance(loader, SystemdBoot):
        others, of_others = "GRUB is", "those of GRUB"
    elif has_other:
        others, of_others = "systemd-boot is", "those of systemd-boot"
    else:
        return loader
    loader.choice_remarks = (
        f"{others} installed on this host, too. {started_by} has started it, so its boot parameters were changed, and "
        f"{of_others} were not.",
    )
    return loader


def _read_variable(fs: KernelFS, path: str) -> str:
    """Return the text of a variable of the firmware, "" where it does not exist; it is UTF-16 after four bytes."""
    return "".join(c for c in fs.read_if_present(path) or "" if c.isprintable())


def _read_distribution_name(fs: KernelFS) -> str:
    rows = (fs.read_if_present("/etc/os-release") or "").splitlines()
    names = [row.partition("=")[2].strip('"') for row in rows if row.startswith("PRETTY_NAME=")]
    return names[0] if names else "This host"
