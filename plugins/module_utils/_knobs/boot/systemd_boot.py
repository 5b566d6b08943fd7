# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters on hosts that systemd-boot starts, or the firmware with a unified kernel image.

/etc/kernel/cmdline has the parameters for kernels that are installed later. An entry of type 1 is a small text whose
options are changed in one rename: a run of kernel-install would copy kernel and initrd over themselves, and a power cut
in the middle would leave a host that does not boot. An image has its command line inside, so kernel-install builds it
anew, into a folder of its own (its variable BOOT_ROOT); the finished image is read, and replaces the old one in one
rename. So whatever generator the host has builds it, ukify or dracut, and signs it as ever. Source: kernel-install(8).
"""

from __future__ import annotations

import os

from ..._errors import BadRequest, NotApplied, TuningError
from ..._io import textfile
from ..._notation import cmdline
from .boot_entries import IMAGES, BootEntry, find_boot_entries
from .cmdline_file import CMDLINE_FILE, CmdlineFileLoader, require_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._io.kernelfs import KernelFS

VENDOR_FILE = "/usr/lib/kernel/cmdline"
#: Where the kernel of an image is outside the image, with its release as RELEASE; source: kernel-install(8), Debian.
KERNELS = ("/usr/lib/modules/RELEASE/vmlinuz", "/lib/modules/RELEASE/vmlinuz", "/boot/vmlinuz-RELEASE")
#: The folder on the boot partition in which kernel-install builds images.
BUILD_FOLDER = "sovereign-epyc-new"


class SystemdBoot(CmdlineFileLoader):
    """The boot entries that kernel-install made for this host."""

    name = "systemd-boot"
    remake_hint = "have the next run do it"

    def __init__(self, fs: KernelFS, started: str, **doors: Any) -> None:
        super().__init__(fs, **doors)
        self.entries = find_boot_entries(fs, started)

    def list_parameters_by_entry(self) -> list[list[str]]:
        """Return the parameters of each entry, the one that started the host first."""
        return [entry.read_parameters() for entry in self.entries]

    def fallback_text(self) -> str:
        """Return the vendor's command line, or that of the entry that started the host, which its kernel has too."""
        text = textfile.read_text(textfile.path_in_tree(self.fs.root, VENDOR_FILE))
        if text is not None:
            return text
        first = self.entries[0]
        words = [word for word in first.read_parameters() if word != f"systemd.machine_id={first.token}"]
        return " ".join(words) + "\n"

    def list_entry_paths(self) -> Sequence[str]:
        return [entry.path for entry in self.entries if not entry.is_image]

    def list_flushed_paths(self) -> Sequence[str]:
        return [entry.path for entry in self.entries]

    def require_remakable(self, wanted: Mapping[str, str | None]) -> None:
        """Raise BadRequest if an image that lacks a setting cannot be built, because its kernel is not here."""
        for entry in self._images_without(wanted):
            self._find_kernel(entry)

    def remake_entries(self, wanted: Mapping[str, str | None]) -> None:
        """Build the images that lack a setting."""
        for entry in self._images_without(wanted):
            self._rebuild_image(entry, wanted)

    def _images_without(self, wanted: Mapping[str, str | None]) -> list[BootEntry]:
        return [entry for entry in self.entries if entry.is_image and not _has_settings(entry, wanted)]

    def _find_kernel(self, entry: BootEntry) -> str:
        paths = [path.replace("RELEASE", entry.release) for path in KERNELS]
        for path in paths:
            if self.fs.read_status(path) is not None:
                return path
        raise BadRequest(
            f"{entry.path} cannot be built with other parameters, because the kernel {entry.release} is in none of "
            f"{', '.join(paths)}. Install it again, or remove the image by 'kernel-install remove {entry.release}'."
        )

    def _rebuild_image(self, entry: BootEntry, wanted: Mapping[str, str | None]) -> None:
        """Have kernel-install build an image in another folder, read its parameters, and rename it over the old one."""
        import shutil

        folder = f"{entry.boot_folder}/{BUILD_FOLDER}"
        real_folder = textfile.path_in_tree(self.fs.root, folder)
        shutil.rmtree(real_folder, ignore_errors=True)
        try:
            os.mkdir(real_folder, 0o700)
            self.run(
                [
                    "env",
                    f"BOOT_ROOT={folder}",
                    "kernel-install",
                    f"--entry-token=literal:{entry.token}",
                    "add",
                    entry.release,
                    self._find_kernel(entry),
                ]
            )
            new = self._find_new_image(entry, folder, real_folder)
            require_settings(
                wanted,
                new.read_parameters(),
                f"the new {entry.path}",
                "kernel-install",
            )
            textfile.flush_path(new.real_path)
            os.replace(new.real_path, entry.real_path)
        except OSError as error:
            raise TuningError(f"{entry.path} cannot be built: {error.strerror}. It is as it was.") from None
        except NotApplied as error:
            raise NotApplied(
                f"{error} Look for Cmdline= in /etc/kernel/uki.conf, and for plugins in /etc/kernel/install.d that do "
                f"not use {CMDLINE_FILE}."
            ) from None
        finally:
            shutil.rmtree(real_folder, ignore_errors=True)

    def _find_new_image(self, entry: BootEntry, folder: str, real_folder: str) -> BootEntry:
        """Return the image that kernel-install has built; with counters of boots, its name has them."""
        place = os.path.join(real_folder, IMAGES)
        names = sorted(os.listdir(place)) if os.path.isdir(place) else []
        images = [name for name in names if name.startswith(f"{entry.token}-{entry.release}") and name.endswith(".efi")]
        if not images:
            raise TuningError(
                f"kernel-install built no image of the kernel {entry.release}, so {entry.path} is as it was. See that "
                "/etc/kernel/install.conf says layout=uki, and which plugins 'kernel-install inspect' names."
            )
        return BootEntry(self.fs.root, folder, f"{folder}/{IMAGES}/{images[0]}", entry.token, entry.release)


def _has_settings(entry: BootEntry, wanted: Mapping[str, str | None]) -> bool:
    present = entry.read_settings()
    return all(present.get(cmdline.canonical_parameter_name(name)) == text for name, text in wanted.items())
