# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot loader of a host, and the program that changes its parameters; unsupported boot loaders are refused."""

from __future__ import annotations

import os

from ..._errors import BadRequest
from .config_files import MAIN
from .drop_in import has_drop_in
from .grub import RESULT, UPDATE, Grub
from .grubby import Grubby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._io.kernelfs import KernelFS

#: The variable with the name of a boot loader that implements the Boot Loader Interface.
LOADER_INFO = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
INSTEAD = "Set the parameters there by hand; sovereign.epyc changes GRUB by update-grub or grubby only."


def find_boot_loader(fs: KernelFS) -> Grub | Grubby:
    """Return the boot loader of this host. Raises BadRequest if neither update-grub nor grubby can change it."""
    if fs.read_status("/run/ostree-booted") is not None:
        raise BadRequest(f"This host boots by ostree, which keeps parameters itself: use 'rpm-ostree kargs'. {INSTEAD}")
    if fs.read_status("/etc/kernel/proxmox-boot-uuids") is not None:
        raise BadRequest(
            "This host boots by proxmox-boot-tool: edit /etc/kernel/cmdline and run 'proxmox-boot-tool refresh'. "
            f"{INSTEAD}"
        )
    loader = (fs.read_if_present(LOADER_INFO) or "").replace("\0", "")
    if "systemd-boot" in loader:
        raise BadRequest(f"This host was booted by systemd-boot, which reads /etc/kernel/cmdline. {INSTEAD}")
    if fs.read_status(UPDATE) is not None and fs.read_status(MAIN) is not None:
        # If the drop-in exists, GRUB has booted this host before, so update-grub may make a missing grub.cfg again.
        if fs.read_status(RESULT) is None and (not has_drop_in(fs) or fs.read_status(os.path.dirname(RESULT)) is None):
            raise BadRequest(
                f"There is no {RESULT}, so GRUB does not boot this host: a container, or another boot loader. If it "
                "is a host that GRUB boots, mount /boot and run update-grub."
            )
        return Grub(fs.root)
    if fs.read_status("/usr/sbin/grubby") is not None or fs.read_status("/sbin/grubby") is not None:
        return Grubby()
    raise BadRequest(
        f"{_read_distribution_name(fs)} has neither {UPDATE} nor grubby, so sovereign.epyc does not know how it boots. "
        f"{INSTEAD}"
    )


def _read_distribution_name(fs: KernelFS) -> str:
    rows = (fs.read_if_present("/etc/os-release") or "").splitlines()
    names = [row.partition("=")[2].strip('"') for row in rows if row.startswith("PRETTY_NAME=")]
    return names[0] if names else "This host"
