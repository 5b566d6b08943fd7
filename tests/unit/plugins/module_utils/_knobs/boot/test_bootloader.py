# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which boot loader starts a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import bootloader, grub, grubby
from ansible_collections.sovereign.epyc.tests.unit.fakes.boots import Boot, bootable


@pytest.fixture
def boot(tmp_path: Path) -> Boot:
    return Boot(bootable(tmp_path))


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("/run/ostree-booted", "", "rpm-ostree kargs"),
        ("/etc/kernel/proxmox-boot-uuids", "1234", "proxmox-boot-tool refresh"),
        (bootloader.LOADER_INFO, "s\0y\0s\0t\0e\0m\0d\0-\0b\0o\0o\0t\0 \x002\x005\x007\0", "systemd-boot"),
    ],
)
def test_other_boot_loaders_are_refused_by_name(boot: Boot, path: str, text: str, words: str) -> None:
    boot.tree.put(path, text)
    with pytest.raises(BadRequest, match=words):
        bootloader.find_boot_loader(boot.tree.fs)


def test_the_boot_loader_is_found(boot: Boot) -> None:
    assert isinstance(bootloader.find_boot_loader(boot.tree.fs), grub.Grub)
    boot.tree.drop(grub.RESULT)
    with pytest.raises(BadRequest, match="does not boot this host"):
        bootloader.find_boot_loader(boot.tree.fs)
    boot.tree.drop(grub.UPDATE)
    boot.tree.put("/etc/os-release", 'PRETTY_NAME="Plan 9"')
    with pytest.raises(BadRequest, match=r"Plan 9 has neither /usr/sbin/update-grub nor grubby"):
        bootloader.find_boot_loader(boot.tree.fs)
    boot.tree.put("/usr/sbin/grubby", "")
    assert isinstance(bootloader.find_boot_loader(boot.tree.fs), grubby.Grubby)
