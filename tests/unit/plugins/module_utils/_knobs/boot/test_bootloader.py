# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which boot loader starts a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import (
    bootloader,
    config_files,
    grub,
    grubby,
    proxmox,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot.systemd_boot import SystemdBoot
from ansible_collections.sovereign.epyc.tests.unit.fakes.boots import Boot
from ansible_collections.sovereign.epyc.tests.unit.fakes.cmdline_boots import MACHINE, NEW, OLD, EntryBoot, efi_host
from ansible_collections.sovereign.epyc.tests.unit.fakes.cmdline_boots import set_variable as put_variable

SYSTEMD_BOOT, OLD_GRUB, GRUB = "systemd-boot 257.13-1~deb13u1", "", "GRUB 2.12"
LOADER_FILE = "/boot/efi/loader/loader.conf"


def test_ostree_is_refused_by_name(boot: Boot) -> None:
    boot.tree.put("/run/ostree-booted", "")
    with pytest.raises(BadRequest, match="rpm-ostree kargs"):
        bootloader.find_boot_loader(boot.tree.fs)


def test_an_unknown_boot_loader_is_refused_by_name(boot: Boot) -> None:
    put_variable(boot.tree, bootloader.LOADER_INFO, "rEFInd 0.14.2")
    with pytest.raises(BadRequest, match=r"started by the boot loader rEFInd 0\.14\.2"):
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


def test_of_two_boot_loaders_the_one_counts_that_started_the_host(tmp_path: Path) -> None:
    """And a remark says so, as the other one may start it the next time."""
    host = efi_host(tmp_path)
    entries = EntryBoot(host)
    assert entries.find().choice_remarks == ()
    for path in (grub.UPDATE, config_files.MAIN, grub.RESULT):
        host.put(path, "")
    assert entries.find().choice_remarks == (
        f"GRUB is installed on this host, too. {SYSTEMD_BOOT} has started it, so its boot parameters were changed, and "
        "those of GRUB were not.",
    )
    host.put(LOADER_FILE, "")
    for loader, name in ((GRUB, "GRUB 2.12"), (OLD_GRUB, "GRUB")):
        put_variable(host, bootloader.LOADER_INFO, loader)
        found = bootloader.find_boot_loader(host.fs)
        assert isinstance(found, grub.Grub)
        assert found.choice_remarks == (
            f"systemd-boot is installed on this host, too. {name} has started it, so its boot parameters were changed, "
            "and those of systemd-boot were not.",
        )


def test_two_boot_loaders_of_which_nothing_is_known_are_refused(boot: Boot) -> None:
    (boot.tree.root / "sys/firmware/efi/efivars").mkdir(parents=True)
    assert isinstance(bootloader.find_boot_loader(boot.tree.fs), grub.Grub)
    boot.tree.put(LOADER_FILE, "")
    with pytest.raises(BadRequest, match=r"GRUB and systemd-boot are installed.*mount -t efivarfs"):
        bootloader.find_boot_loader(boot.tree.fs)


def test_an_image_that_the_firmware_has_started_needs_no_boot_loader(tmp_path: Path) -> None:
    host = efi_host(tmp_path, loader="")
    EntryBoot(host, images=True)
    host.drop(bootloader.CHOSEN_ENTRY)
    put_variable(host, bootloader.STUB_INFO, "systemd-stub 257.13-1~deb13u1")
    put_variable(host, bootloader.IMAGE, f"\\EFI\\Linux\\{MACHINE}-{NEW}.efi")
    found = bootloader.find_boot_loader(host.fs)
    assert isinstance(found, SystemdBoot)
    assert found.entries[0].release == NEW
    host.put(grub.UPDATE, "")
    host.put(grub.RESULT, "")
    with pytest.raises(BadRequest, match="nothing tells whether GRUB or the firmware"):
        bootloader.find_boot_loader(host.fs)
    put_variable(host, bootloader.LOADER_INFO, GRUB)
    with pytest.raises(BadRequest, match=r"with a unified kernel image by GRUB 2\.12, whose own parameters"):
        bootloader.find_boot_loader(host.fs)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("arch.conf", "the boot entry arch.conf, which kernel-install has not made"),
        ("", "the boot entry without a name"),
        (f"opensuse-{NEW}-7.conf", "which kernel-install has not made"),
        (
            f"fedora-{NEW}.conf",
            f"No boot entry of this host, such as fedora-{NEW}.conf, is in loader/entries".replace("+", "."),
        ),
    ],
)
def test_entries_that_kernel_install_did_not_make_are_refused(tmp_path: Path, chosen: str, words: str) -> None:
    host = efi_host(tmp_path)
    EntryBoot(host)
    put_variable(host, bootloader.CHOSEN_ENTRY, chosen)
    with pytest.raises(BadRequest, match=words):
        bootloader.find_boot_loader(host.fs)


def test_the_entry_that_started_the_host_comes_first_in_any_case_of_its_name(tmp_path: Path) -> None:
    """systemd-boot tells names in small letters, and with no counter of boots."""
    host = efi_host(tmp_path)
    boot = EntryBoot(host)
    for release, counters in ((NEW, ""), (OLD, "+2-1")):
        path = host.root / boot.entry(release)[1:]
        path.rename(path.with_name(f"Debian-{release}{counters}.conf"))
    put_variable(host, bootloader.CHOSEN_ENTRY, f"debian-{OLD}.conf")
    assert [(entry.token, entry.release) for entry in boot.find().entries] == [("Debian", OLD), ("Debian", NEW)]


def test_what_started_a_host_of_proxmox_boot_tool_says_which_files_it_reads(tmp_path: Path) -> None:
    host = efi_host(tmp_path)
    host.put(proxmox.PARTITIONS, "A0B1-C2D3")
    assert isinstance(bootloader.find_boot_loader(host.fs), proxmox.ProxmoxSystemdBoot)
    put_variable(host, bootloader.LOADER_INFO, OLD_GRUB)
    assert isinstance(bootloader.find_boot_loader(host.fs), proxmox.ProxmoxGrub)
