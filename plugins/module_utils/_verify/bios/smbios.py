# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The slots for memory modules, as the firmware describes them to the kernel (SMBIOS).

Source: DMTF DSP0134, System Management BIOS Reference Specification: structures of type 16 (physical memory array) and
17 (memory device); Documentation/ABI/testing/sysfs-firmware-dmi-tables of the Linux kernel for the file.
"""

from __future__ import annotations

from ..._errors import Absent, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..._io.kernelfs import KernelFS

    Structure = tuple[int, bytes, list[str]]

TABLE = "/sys/firmware/dmi/tables/DMI"
ARRAY, DEVICE, END = 16, 17, 127
#: What an array is for: memory of the system, not of a graphics card or flash.
SYSTEM_MEMORY = 3
#: Sizes in MiB that say: look elsewhere, and: not known.
EXTENDED, UNKNOWN_SIZE = 0x7FFF, 0xFFFF
#: The kernel gives a page of the file at once.
PAGE, MOST = 4096, 1 << 20


class Slot:
    """A slot for a memory module. ``mib`` is 0 where it is empty, None where there is one of unknown size.

    ``rated`` is the highest speed of the module, ``configured`` the one it runs at, in MT/s; 0 is unknown.
    """

    __slots__ = ("bank", "configured", "mib", "name", "rated")

    def __init__(self, name: str, bank: str, mib: int | None, rated: int, configured: int) -> None:
        self.name = name
        self.bank = bank
        self.mib = mib
        self.rated = rated
        self.configured = configured

    @property
    def filled(self) -> bool:
        """Return whether there is a module in it."""
        return self.mib != 0


class Memory:
    """All slots; where there are none, ``why_not`` says why."""

    __slots__ = ("slots", "why_not")

    def __init__(self, slots: list[Slot], why_not: str = "") -> None:
        self.slots = slots
        self.why_not = why_not

    @property
    def modules(self) -> list[Slot]:
        """The slots with a module."""
        return [slot for slot in self.slots if slot.filled]


def read(fs: KernelFS) -> Memory:
    """Return the slots of a host."""
    try:
        data = _table(fs)
    except Absent:
        return Memory([], f"there is no {TABLE}: the firmware describes no memory modules")
    except Refused:
        return Memory([], f"only root can read {TABLE}")
    slots = parse(data)
    if not any(slot.filled for slot in slots):
        return Memory([], f"{TABLE} names no memory module")
    return Memory(slots)


def parse(data: bytes) -> list[Slot]:
    """Return the slots that a table describes, in its order."""
    arrays: dict[int, int] = {}
    devices = []
    for kind, raw, texts in structures(data):
        if kind == ARRAY:
            arrays[_number(raw, 2, 2)] = _number(raw, 5, 1)
        elif kind == DEVICE:
            devices.append((raw, texts))
    # An array that is not described is taken for the system's.
    return [
        _slot(raw, texts) for raw, texts in devices if arrays.get(_number(raw, 4, 2), SYSTEM_MEMORY) == SYSTEM_MEMORY
    ]


def structures(data: bytes) -> Iterator[Structure]:
    """Yield type, formatted part and texts of each structure; a table that ends too early ends there."""
    at = 0
    while at + 4 <= len(data):
        kind, size = data[at], data[at + 1]
        end = data.find(b"\0\0", at + size)
        if size < 4 or end < 0:
            return
        texts = data[at + size : end].decode("utf-8", "replace").split("\0")
        yield kind, data[at : at + size], texts
        if kind == END:
            return
        at = end + 2


def _table(fs: KernelFS) -> bytes:
    data = b""
    while len(data) < MOST:
        page = fs.read_at(TABLE, len(data), PAGE)
        if not page:
            break
        data += page
    return data


def _slot(raw: bytes, texts: list[str]) -> Slot:
    rated = _speed(raw, 0x15, 0x54)
    return Slot(_text(raw, 0x10, texts), _text(raw, 0x11, texts), _mib(raw), rated, _speed(raw, 0x20, 0x58))


def _mib(raw: bytes) -> int | None:
    size = _number(raw, 0x0C, 2)
    if size == UNKNOWN_SIZE:
        return None
    if size == EXTENDED:
        return _number(raw, 0x1C, 4) & 0x7FFFFFFF or None
    # Bit 15 says that it is in KiB.
    return (size & 0x7FFF) // 1024 if size & 0x8000 else size


def _speed(raw: bytes, at: int, extended: int) -> int:
    speed = _number(raw, at, 2)
    return _number(raw, extended, 4) if speed == UNKNOWN_SIZE else speed


def _text(raw: bytes, at: int, texts: list[str]) -> str:
    number = _number(raw, at, 1)
    return texts[number - 1].strip() if 0 < number <= len(texts) else ""


def _number(raw: bytes, at: int, size: int) -> int:
    """Return a field, 0 where an older version of the structure ends before it."""
    return int.from_bytes(raw[at : at + size], "little")
