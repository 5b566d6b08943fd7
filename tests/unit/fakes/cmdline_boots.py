# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts whose boot entries come from /etc/kernel/cmdline: systemd-boot with kernel-install, and proxmox-boot-tool.

kernel-install is played as Debian 13 has it: 55-initrd, 60-ukify and 90-uki-copy of systemd 257, into BOOT_ROOT;
tests/lab/test_systemd_boot.py has the real one, and real boots. proxmox-boot-tool is played after the scripts of
proxmox-kernel-helper 8: refresh writes to every partition whose UUID is in its list. The shell that reads partitions
is real; only mount and umount are played, by links.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import bootloader, proxmox
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import knob as boot_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot.systemd_boot import SystemdBoot
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger, RestoringKnob
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

MACHINE = "0123456789abcdef0123456789abcdef"
NEW, OLD = "6.12.117+deb13-amd64", "6.12.90+deb13-amd64"
BASE = "root=/dev/vda2 ro console=ttyS0 quiet"
CMDLINE = "/etc/kernel/cmdline"
#: An entry as 90-loaderentry.install of systemd 257 writes it.
ENTRY = """\
# Boot Loader Specification type#1 entry
# File created by /usr/lib/kernel/install.d/90-loaderentry.install (systemd 257.13-1~deb13u1)
title      Debian GNU/Linux 13 (trixie)
version    {release}
machine-id {machine}
sort-key   debian
options    {options}
linux      /{machine}/{release}/linux
initrd     /{machine}/{release}/initrd.img-{release}
"""
SECTIONS = (".osrel", ".cmdline", ".uname", ".linux")


def set_variable(host: hosts.Host, path: str, text: str) -> None:
    """Put a variable of the firmware: four bytes of attributes, and UTF-16 with a final zero."""
    real = Path(f"{host.root}{path}")
    real.parent.mkdir(parents=True, exist_ok=True)
    real.write_bytes(b"\x06\0\0\0" + f"{text}\0".encode("utf-16-le"))


def build_image(cmdline: str, sections: Sequence[str] = SECTIONS) -> bytes:
    """Return a PE file with these sections, of which one is the command line, padded as linkers do."""
    header = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x80)
    table, body, start = b"", b"", 0x400
    for name in sections:
        data = cmdline.encode() if name == ".cmdline" else f"{name} of nobody".encode()
        padded = data.ljust(-(-len(data) // 0x200) * 0x200, b"\0")
        table += struct.pack("<8sIIIIIIHHI", name.encode(), len(data), 0x1000, len(padded), start, 0, 0, 0, 0, 0)
        body, start = body + padded, start + len(padded)
    pe = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, len(sections), 0, 0, 0, 0xF0, 0) + bytes(0xF0) + table
    return (header.ljust(0x80, b"\0") + pe).ljust(0x400, b"\0") + body


def efi_host(root: Path, loader: str = "systemd-boot 257.13-1~deb13u1") -> hosts.Host:
    """Return a host with two kernels, which the firmware says that this loader has started; without entries."""
    host = hosts.small(root)
    host.put("/proc/cmdline", BASE)
    host.put("/proc/sys/kernel/osrelease", NEW)
    host.put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
    host.put("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB")
    for size in (2048, 1048576):
        host.put(f"/sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages", 0)
    set_variable(host, bootloader.LOADER_INFO, loader)
    for release in (NEW, OLD):
        host.put(f"/lib/modules/{release}/modules.dep", "")
        host.put(f"/boot/vmlinuz-{release}", "a kernel")
    os.makedirs(f"{root}/etc/kernel")
    return host


class EntryBoot:
    """A host with systemd-boot, and the tools of kernel-install."""

    def __init__(self, host: hosts.Host, images: bool = False, cmdline: str | None = None) -> None:
        self.host = host
        self.calls: list[list[str]] = []
        self.flushed: list[str] = []
        self.unflushed: str | None = None
        self.fails = False
        self.builds_nothing = False
        #: What uki.conf has as Cmdline, which then is all that an image gets.
        self.configured_elsewhere = ""
        rows = (BASE if cmdline is None else cmdline).splitlines()
        words = [word for row in rows if not row.startswith("#") for word in row.split()]
        self.options = " ".join([*words, f"systemd.machine_id={MACHINE}"])
        if cmdline is not None:
            host.put(CMDLINE, cmdline)
        for release in (NEW, OLD):
            path = self.image(release) if images else self.entry(release)
            os.makedirs(os.path.dirname(f"{host.root}{path}"), exist_ok=True)
            text = ENTRY.format(release=release, machine=MACHINE, options=self.options).encode()
            Path(f"{host.root}{path}").write_bytes(build_image(f" {self.options}") if images else text)
        set_variable(host, bootloader.CHOSEN_ENTRY, f"{MACHINE}-{NEW}.{'efi' if images else 'conf'}")

    @staticmethod
    def entry(release: str) -> str:
        return f"/boot/efi/loader/entries/{MACHINE}-{release}.conf"

    @staticmethod
    def image(release: str) -> str:
        return f"/boot/efi/EFI/Linux/{MACHINE}-{release}.efi"

    def __call__(self, command: Sequence[str]) -> str:
        """Play kernel-install."""
        self.calls.append(list(command))
        environment, program, token, verb, release, kernel = command[1:]
        assert (command[0], program, verb) == ("env", "kernel-install", "add")
        assert (token, self.host.fs.read(kernel)) == (f"--entry-token=literal:{MACHINE}", "a kernel")
        if self.fails:
            raise TuningError("'kernel-install' failed with exit code 1. It says: No space left on device")
        if not self.builds_nothing:
            name = environment.partition("=")[2] + f"/EFI/Linux/{MACHINE}-{release}+3.efi"
            os.makedirs(os.path.dirname(f"{self.host.root}{name}"), exist_ok=True)
            words = self.configured_elsewhere or self.host.fs.read(CMDLINE)
            Path(f"{self.host.root}{name}").write_bytes(build_image(" " + " ".join(words.split())))
        return ""

    def flush(self, paths: Sequence[str]) -> str | None:
        self.flushed = [path.removeprefix(str(self.host.root)) for path in paths]
        return self.unflushed

    def find(self) -> SystemdBoot:
        loader = bootloader.find_boot_loader(self.host.fs)
        assert isinstance(loader, SystemdBoot)
        loader.run, loader.flush = self, self.flush
        return loader

    def lines(self) -> list[str]:
        """The parameters of each entry."""
        return [" ".join(words) for words in self.find().list_parameters_by_entry()]


class ProxmoxBoot:
    """A host with two partitions that proxmox-boot-tool fills; ``grub`` says that each has GRUB."""

    PARTITIONS = ("A0B1-C2D3", "E4F5-0617")

    def __init__(self, host: hosts.Host, cmdline: str | None = BASE) -> None:
        self.host = host
        self.calls: list[str] = []
        self.skips = ""
        self.fails = False
        self.partitions = Path(f"{host.root}{proxmox.DEVICES}")
        for name in self.PARTITIONS:
            (self.partitions / name / "loader/entries").mkdir(parents=True)
        host.put(proxmox.PARTITIONS, "\n".join([*self.PARTITIONS, "DEAD-BEEF"]))
        if cmdline is not None:
            host.put(CMDLINE, cmdline)
        tools = Path(f"{host.root}/tools")
        tools.mkdir()
        (tools / "mount").write_text('#!/bin/sh\n[ "$1" = -o ] && shift 2\nrm -f "$2" && ln -s "$1" "$2"\n')
        (tools / "umount").write_text('#!/bin/sh\nrm "$1"\n')
        for tool in tools.iterdir():
            tool.chmod(0o755)
        self.path = f"{tools}:{os.environ['PATH']}"
        self.refresh()

    def refresh(self) -> None:
        """Write the entries of each partition, as zz-proxmox-boot does."""
        text = self.host.fs.read_if_present(CMDLINE)
        running = [word for word in self.host.fs.read("/proc/cmdline").split() if not word.startswith("initrd=")]
        row = " ".join(running) if text is None else text.split("\n")[0]
        for name in self.PARTITIONS:
            if name != self.skips:
                for release in (NEW, OLD):
                    entry = self.partitions / name / f"loader/entries/proxmox-{release}.conf"
                    entry.write_text(f"title    Proxmox\nversion  {release}\noptions  {row}\nlinux    /vmlinuz\n")

    def __call__(self, command: Sequence[str]) -> str:
        if command[0] == "unshare":
            self.calls.append("look")
            real = subprocess.run(
                [*command[4:]], env={"PATH": self.path}, check=True, capture_output=True, encoding="utf-8"
            )
            return real.stdout
        self.calls.append(" ".join(command))
        if self.fails:
            raise TuningError("'proxmox-boot-tool refresh' failed with exit code 1. It says: nothing good")
        self.refresh()
        return ""

    def find(self) -> proxmox.ProxmoxSystemdBoot:
        loader = bootloader.find_boot_loader(self.host.fs)
        assert isinstance(loader, proxmox.ProxmoxSystemdBoot)
        loader.run, loader.flush = self, lambda paths: None
        return loader


def knob(boot: EntryBoot | ProxmoxBoot, *parameters: str, **more: Any) -> boot_knob.CommandLine:
    options = {"parameters": list(parameters), **more}
    return boot_knob.CommandLine(Host(boot.host.fs), options, find=lambda fs: boot.find())


def run(boot: EntryBoot | ProxmoxBoot, *parameters: str, **more: Any) -> Any:
    return converge_knobs([knob(boot, *parameters, **more)], Ledger(Store(str(boot.host.root)), boot.host.fs))


def undo(boot: EntryBoot | ProxmoxBoot) -> Any:
    ledger = Ledger(Store(str(boot.host.root)), boot.host.fs)
    return converge_knobs([RestoringKnob(knob(boot), ledger)], ledger)


def files(boot: EntryBoot | ProxmoxBoot) -> dict[str, bytes]:
    """Every file that a boot loader or its tools read."""
    folders = [Path(f"{boot.host.root}/{name}") for name in ("etc/kernel", "boot", "dev/disk")]
    paths = [path for folder in folders for path in folder.glob("**/*") if path.is_file()]
    return {str(path.relative_to(boot.host.root)): path.read_bytes() for path in paths}
