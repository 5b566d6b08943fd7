# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot entries of systemd-boot that kernel-install made for the kernels of this host.

Type 1 is a text in loader/entries, type 2 a unified kernel image in EFI/Linux. kernel-install names both after the
entry token of the host and the release of the kernel, with counters of boots if those are on, as in
``debian-6.12.1-amd64+3.conf``. Entries of other systems on the same partition have another token.
"""

from __future__ import annotations

import os

from ..._errors import BadRequest
from ..._io import textfile
from ..._notation import cmdline
from . import uki
from .command_line_text import read_parameters, split_entry_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..._io.kernelfs import KernelFS

#: Where the EFI system partition and the extended boot partition are mounted; source: bootctl(1).
BOOT_FOLDERS = ("/efi", "/boot", "/boot/efi")
ENTRIES, IMAGES = "loader/entries", "EFI/Linux"
MODULES = ("/usr/lib/modules", "/lib/modules")


class BootEntry:
    """One boot entry of a kernel of this host; ``release`` is the kernel's, as in uname -r."""

    def __init__(self, root: str, boot_folder: str, path: str, token: str, release: str) -> None:
        self.boot_folder = boot_folder
        self.path = path
        self.token = token
        self.release = release
        self.real_path = textfile.path_in_tree(root, path)
        self.is_image = path.endswith(".efi")

    def read_parameters(self) -> list[str]:
        """Return the parameters with which this entry starts its kernel."""
        if self.is_image:
            return cmdline.split_kernel_command_line(uki.read_command_line(self.real_path))
        return read_parameters(textfile.read_text(self.real_path) or "", split_entry_row)

    def read_settings(self) -> dict[str, str]:
        """Return the settings of its parameters: canonical name -> text."""
        return cmdline.parameters_to_settings(self.read_parameters())


def find_boot_entries(fs: KernelFS, started: str) -> list[BootEntry]:
    """Return the entries of this host's kernels, the one that started it first.

    ``started`` is the file name of the entry that started the host, in any case. Raises BadRequest if kernel-install
    did not make that entry.
    """
    releases = _list_kernel_releases(fs)
    stem = _entry_stem(started).lower()
    token = next((stem[: -len(tail)] for tail in _release_tails(releases) if stem.endswith(tail.lower())), "")
    if not token:
        raise BadRequest(
            f"This host was started by the boot entry {started or 'without a name'}, which kernel-install has not "
            "made: it would be named after an entry token and a kernel. Set the parameters there by hand."
        )
    entries = [
        BootEntry(fs.root, folder, path, name[: -len(release) - 1], release)
        for folder, path in _list_entry_files(fs)
        for name in [_entry_stem(os.path.basename(path))]
        for release in releases
        if name.lower() == f"{token}-{release}".lower()
    ]
    if not entries:
        raise BadRequest(
            f"No boot entry of this host, such as {started}, is in {ENTRIES} or {IMAGES} below "
            f"{', '.join(BOOT_FOLDERS)}. Mount the EFI system partition at one of these, and try again."
        )
    return sorted(entries, key=lambda entry: _entry_stem(os.path.basename(entry.path)).lower() != stem)


def has_systemd_boot(fs: KernelFS) -> bool:
    """Return whether systemd-boot is installed on a boot partition, whichever boot loader has started this host."""
    files = ("EFI/systemd/systemd-bootx64.efi", "loader/loader.conf")
    return any(fs.read_status(f"{folder}/{file}") is not None for folder in BOOT_FOLDERS for file in files)


def _list_kernel_releases(fs: KernelFS) -> list[str]:
    names = {name for folder in MODULES for name in fs.list_names(folder)}
    return sorted({*names, fs.read("/proc/sys/kernel/osrelease").strip()})


def _release_tails(releases: Iterable[str]) -> Sequence[str]:
    """Return the ends of the names of entries, longest first, as one release may be the end of another one."""
    return sorted((f"-{release}" for release in releases), key=len, reverse=True)


def _list_entry_files(fs: KernelFS) -> list[tuple[str, str]]:
    """Return the files of all entries, each with its boot folder, and once although two folders may be the same."""
    files: dict[str, tuple[str, str]] = {}
    for folder in BOOT_FOLDERS:
        for place, ending in ((ENTRIES, ".conf"), (IMAGES, ".efi")):
            for name in fs.list_names(f"{folder}/{place}"):
                if name.lower().endswith(ending):
                    path = f"{folder}/{place}/{name}"
                    status = fs.read_status(path)
                    files.setdefault(f"{status.st_dev} {status.st_ino}" if status else path, (folder, path))
    return list(files.values())


def _entry_stem(name: str) -> str:
    """Return the name of an entry without its profile, its ending, and its counters of boots such as +3 or +2-1."""
    stem = os.path.splitext(name.partition("@")[0])[0]
    start, plus, counters = stem.rpartition("+")
    return start if plus and counters.replace("-", "", 1).isdecimal() else stem
