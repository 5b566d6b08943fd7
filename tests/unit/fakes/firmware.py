# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the firmware describes of a machine: SMBIOS tables (DMTF DSP0134), with the names that vendors give to slots."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Iterator

from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.check import check_bios_settings
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.setting import KernelView
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist_items import Item
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

TABLE = "sys/firmware/dmi/tables/DMI"
SYSTEM_MEMORY, FLASH = 3, 5

#: What the kernel of a virtual EPYC shows (QEMU 7.2 with SeaBIOS): one module of 2560 MiB, named DIMM 0, no speed.
QEMU = base64.b64decode(
    "ABgAAAECAOgDAAgAAAAAAAAAAAQAAP//U2VhQklPUwAxLjE2LjItZGViaWFuLTEuMTYuMi0xADA0LzAxLzIwMTQAAAEbAAEBAgMAAAAAAAAAAAAA"
    "AAAAAAAAAAYAAFFFTVUAU3RhbmRhcmQgUEMgKFEzNSArIElDSDksIDIwMDkpAHBjLXEzNS03LjIAAAMWAAMBAQIAAAMDAwIAAAAAAAAAAABRRU1V"
    "AHBjLXEzNS03LjIAAAQqAAQBAwECAg+qAP37iwcDAAAA0AfQB0EB////////AAAAEBAQAgABAENQVSAwAFFFTVUAcGMtcTM1LTcuMgAAEBcAEAED"
    "BgAAKAD+/wEAAAAAAAAAAAAAABEoABEAEP7//////wAKCQABAAcCAAAAAgAAAAAAAAAAAAAAAAAAAABESU1NIDAAUUVNVQAAEx8AEwAAAAD//ycA"
    "ABABAAAAAAAAAAAAAAAAAAAAAAAAIAsAIAAAAAAAAAAAAH8EAH8AAA=="
)


def structure(kind: int, handle: int, fields: bytes, *texts: str) -> bytes:
    """One structure: a header, its fields, and its texts, which fields name by number."""
    header = struct.pack("<BBH", kind, 4 + len(fields), handle)
    return header + fields + b"".join(text.encode() + b"\0" for text in texts) + (b"\0" if texts else b"\0\0")


def array(slots: int, handle: int = 0x1000, use: int = SYSTEM_MEMORY) -> bytes:
    """Type 16, as of version 2.1."""
    return structure(16, handle, struct.pack("<BBBIHH", 3, use, 6, 0x80000000, 0xFFFE, slots))


def module(
    name: str,
    bank: str = "",
    mib: int = 65536,
    rated: int = 4800,
    configured: int = 4800,
    handle: int = 0x1100,
    parent: int = 0x1000,
    length: int = 92,
    kind: int = 0x22,
) -> bytes:
    """Type 17; ``length`` cuts it as older versions did, ``mib`` 0 is an empty slot and -1 a size not known."""
    size, extended = (0x7FFF, mib) if mib >= 0x7FFF else (mib & 0xFFFF, 0)
    quick = rated > 0xFFFE
    fields = struct.pack("<HHHHHBBBBBH", parent, 0xFFFE, 80, 64, size, 9, 0, 1, 2 if bank else 0, kind, 0x2080)
    fields += struct.pack("<HBBBBBI", 0xFFFF if quick else rated, 0, 0, 0, 0, 2, extended)
    fields += struct.pack("<HHHH", 0xFFFF if quick else configured, 1100, 1100, 1100)
    fields += bytes(0x54 - 4 - len(fields))
    fields += struct.pack("<II", rated if quick else 0, configured if quick else 0)
    return structure(17, handle, fields[: length - 4], name, *([bank] if bank else []))


def empty(name: str, bank: str = "") -> bytes:
    """A slot without a module."""
    return module(name, bank, 0, 0, 0)


def table(*structures: bytes) -> bytes:
    """All of it, with a structure that is none of our business in front, and the end."""
    return structure(0, 0, bytes(20), "A vendor", "1.2") + b"".join(structures) + structure(127, 0xFEFF, b"")


def give(host: hosts.Host, structures: bytes | Iterable[bytes]) -> None:
    """Put a table where the kernel has it."""
    path = host.root / TABLE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(structures if isinstance(structures, bytes) else table(*structures))


def filled(names: Iterable[tuple[str, str]], missing: Iterable[str] = (), **fields: int) -> Iterator[bytes]:
    """Modules in slots of these names and banks, except for those whose name is missing."""
    gone = set(missing)
    names = list(names)
    yield array(len(names))
    for name, bank in names:
        yield empty(name, bank) if name in gone else module(name, bank, **fields)


def ledger_of(host: hosts.Host) -> Ledger:
    """The ledger of a host, in a folder of its tree."""
    return Ledger(Store(str(host.root / "store")), host.fs)


def judged(host: hosts.Host, **expected: str) -> dict[str, Item]:
    """What comes out for each BIOS setting."""
    look = KernelView(host.fs, host.topology(), ledger_of(host))
    return {item.name: item for item in check_bios_settings(look, expected)}


#: How vendors name the slots of a socket with 12 channels: slot, bank.
LETTERS = "ABCDEFGHIJKL"
GIGABYTE = [(f"DIMM_P0_{letter}0", f"BANK {number}") for number, letter in enumerate(LETTERS)]
SUPERMICRO = [(f"P1-DIMM{letter}1", f"P0_Node0_Channel{number}_Dimm0") for number, letter in enumerate(LETTERS)]
AMI = [("DIMM 0", f"P0 CHANNEL {letter}") for letter in LETTERS]
DELL = [(f"A{number}", "") for number in range(1, 13)]
DELL_24 = [(f"A{number}", "") for number in range(1, 25)]
HPE = [(f"PROC 1 DIMM {number}", "") for number in range(1, 13)]
GIGABYTE_24 = [(f"DIMM_P0_{letter}{slot}", "BANK 0") for letter in LETTERS for slot in (0, 1)]
NAMELESS_24 = [(f"PROC 1 DIMM {number}", "") for number in range(1, 25)]
