# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The slots for memory modules, as the firmware describes them to the kernel (SMBIOS).

Source: DMTF DSP0134, System Management BIOS Reference Specification: structures of type 16 (physical memory array) and
17 (memory device); Documentation/ABI/testing/sysfs-firmware-dmi-tables of the Linux kernel for the file.
"""

from __future__ import annotations

from .._errors import Absent, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._io.kernelfs import KernelFS

    Structure = tuple[int, bytes, list[str]]

TABLE_FILE = "/sys/firmware/dmi/tables/DMI"
ARRAY, DEVICE, END = 16, 17, 127
#: The names of the values of the field for the type of a module. A firmware that does not know the last one says DDR5.
MODULE_TYPES = {0x1A: "DDR4", 0x22: "DDR5", 0x25: "MRDIMM"}
#: The value of the field for the use of an array: memory of the system, not of a graphics card or flash.
SYSTEM_MEMORY = 3
#: Special values of the field for the size: the size is in the field for large sizes; the size is unknown.
EXTENDED, UNKNOWN_SIZE = 0x7FFF, 0xFFFF
#: The kernel returns a page of the file at a time. Of a table above the maximum, only the beginning is read.
PAGE_BYTES, MAX_TABLE_BYTES = 4096, 1 << 20


class Slot:
    """A slot for a memory module. ``mib`` is the size of the module, 0 in an empty slot, None for an unknown size.

    ``rated`` is the highest speed of the module and ``configured`` its present speed, in MT/s; 0 is unknown.
    ``module_type`` is a text such as DDR5, "" for a type that MODULE_TYPES lacks.
    """

    def __init__(
        self, name: str, bank: str, mib: int | None, rated: int, configured: int, module_type: str = ""
    ) -> None:
        self.name = name
        self.bank = bank
        self.mib = mib
        self.rated = rated
        self.configured = configured
        self.module_type = module_type

    @property
    def has_module(self) -> bool:
        return self.mib != 0


class MemorySlots:
    """All slots of a host; ``missing_reason`` says why no slots are known, and is "" otherwise."""

    def __init__(self, slots: list[Slot], missing_reason: str = "") -> None:
        self.slots = slots
        self.missing_reason = missing_reason

    @property
    def filled_slots(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.has_module]

    def format_modules(self) -> str:
        """Return count, size, type and present speed of all modules, such as ``24x 64 GiB DDR5-4800``; "" for none."""
        counts: dict[str, int] = {}
        for slot in self.filled_slots:
            size = f"{slot.mib / 1024:g} GiB " if slot.mib else ""
            speed = slot.configured or slot.rated
            kind = f"{slot.module_type or 'memory'}{f'-{speed}' if speed else ''}"
            counts[f"{size}{kind}"] = counts.get(f"{size}{kind}", 0) + 1
        return ", ".join(f"{count}x {module}" for module, count in sorted(counts.items()))


def read_memory_slots(fs: KernelFS) -> MemorySlots:
    """Return the slots of a host, read from the table of the firmware."""
    try:
        data = _read_smbios_table(fs)
    except Absent:
        return MemorySlots([], f"there is no {TABLE_FILE}: the firmware describes no memory modules")
    except Refused:
        return MemorySlots([], f"only root can read {TABLE_FILE}")
    slots = parse_memory_slots(data)
    if not any(slot.has_module for slot in slots):
        return MemorySlots([], f"{TABLE_FILE} names no memory module")
    return MemorySlots(slots)


def parse_memory_slots(smbios_table: bytes) -> list[Slot]:
    """Return the slots that a table of SMBIOS describes, in its order."""
    arrays: dict[int, int] = {}
    devices = []
    for kind, raw, texts in parse_smbios_structures(smbios_table):
        if kind == ARRAY:
            arrays[_parse_number_or_zero(raw, 2, 2)] = _parse_number_or_zero(raw, 5, 1)
        elif kind == DEVICE:
            devices.append((raw, texts))
    # Slots whose array has no description count as memory of the system.
    return [
        _parse_slot(raw, texts)
        for raw, texts in devices
        if arrays.get(_parse_number_or_zero(raw, 4, 2), SYSTEM_MEMORY) == SYSTEM_MEMORY
    ]


def parse_smbios_structures(smbios_table: bytes) -> Iterator[Structure]:
    """Yield type, formatted part and texts of each structure, up to the end or to the first incomplete one."""
    at = 0
    while at + 4 <= len(smbios_table):
        kind, size = smbios_table[at], smbios_table[at + 1]
        end = smbios_table.find(b"\0\0", at + size)
        if size < 4 or end < 0:
            return
        texts = smbios_table[at + size : end].decode("utf-8", "replace").split("\0")
        yield kind, smbios_table[at : at + size], texts
        if kind == END:
            return
        at = end + 2


def _read_smbios_table(fs: KernelFS) -> bytes:
    data = b""
    while len(data) < MAX_TABLE_BYTES:
        page = fs.read_at(TABLE_FILE, len(data), PAGE_BYTES)
        if not page:
            break
        data += page
    return data


def _parse_slot(structure: bytes, texts: list[str]) -> Slot:
    name, bank = _parse_text(structure, 0x10, texts), _parse_text(structure, 0x11, texts)
    rated, configured = _parse_speed(structure, 0x15, 0x54), _parse_speed(structure, 0x20, 0x58)
    module_type = MODULE_TYPES.get(_parse_number_or_zero(structure, 0x12, 1), "")
    return Slot(name, bank, _parse_size_mib(structure), rated, configured, module_type)


def _parse_size_mib(structure: bytes) -> int | None:
    size = _parse_number_or_zero(structure, 0x0C, 2)
    if size == UNKNOWN_SIZE:
        return None
    if size == EXTENDED:
        return _parse_number_or_zero(structure, 0x1C, 4) & 0x7FFFFFFF or None
    # Where bit 15 is set, the size is in KiB.
    return (size & 0x7FFF) // 1024 if size & 0x8000 else size


def _parse_speed(structure: bytes, offset: int, extended_offset: int) -> int:
    speed = _parse_number_or_zero(structure, offset, 2)
    return _parse_number_or_zero(structure, extended_offset, 4) if speed == UNKNOWN_SIZE else speed


def _parse_text(structure: bytes, offset: int, texts: list[str]) -> str:
    number = _parse_number_or_zero(structure, offset, 1)
    return texts[number - 1].strip() if 0 < number <= len(texts) else ""


def _parse_number_or_zero(structure: bytes, offset: int, size: int) -> int:
    """Return a field as a number, 0 for a field that an older version of the structure does not have."""
    return int.from_bytes(structure[offset : offset + size], "little")
