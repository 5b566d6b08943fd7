# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory modules that the firmware describes to the kernel (SMBIOS): a slot for each channel of the SKU.

Only shapes with `dimms` need this: by itself, QEMU describes one module without a speed. A structure that QEMU gets as
a file replaces its own structures of the same type.
Source: DMTF DSP0134, structures of type 16 (physical memory array) and 17 (memory device), as of version 2.8.
"""

from __future__ import annotations

import struct
from pathlib import Path

from .shapes import Shape

# The handles that QEMU gives to its own structures, because its other structures refer to them.
_ARRAY, _FIRST_DEVICE = 0x1000, 0x1100
_BOARD, _SYSTEM_MEMORY, _ECC, _NO_ERROR, _DIMM, _SYNCHRONOUS = 3, 3, 6, 0xFFFE, 9, 0x80
_DDR4, _DDR5, _MRDIMM = 0x1A, 0x22, 0x25
#: The highest speeds in MT/s of DDR4, and of DDR5 that is no MRDIMM, in an EPYC.
_MOST_DDR4_MTS, _MOST_DDR5_MTS = 3200, 8000


def build_structures(shape: Shape) -> list[bytes]:
    """Return the memory array and its slots, in the order of sockets and channels; the first slots have a module."""
    modules = shape.dimms
    if modules is None:
        return []
    total = shape.sockets * shape.channels
    array = struct.pack("<BBBIHHQ", _BOARD, _SYSTEM_MEMORY, _ECC, shape.memory_mib << 10, _NO_ERROR, total, 0)
    slots = [
        _build_memory_device(shape, number, shape.memory_mib // modules if number < modules else 0)
        for number in range(total)
    ]
    return [_build_structure(16, _ARRAY, array), *slots]


def _build_memory_device(shape: Shape, number: int, mib: int) -> bytes:
    """Return a slot with its names as on an AMI board; a slot of 0 MiB is empty."""
    socket, channel = divmod(number, shape.channels)
    letter = chr(ord("A") + channel)
    kind = _DDR4 if shape.memory_mts <= _MOST_DDR4_MTS else _DDR5 if shape.memory_mts <= _MOST_DDR5_MTS else _MRDIMM
    speed = shape.memory_mts if mib else 0
    fields = struct.pack("<HHHHHBB", _ARRAY, _NO_ERROR, 80, 64, mib, _DIMM, 0)
    # Strings are numbered: 1 and 2 are the names below, and 0 stands for no string.
    fields += struct.pack("<BBBHHBBBBBI", 1, 2, kind, _SYNCHRONOUS, speed, 0, 0, 0, 0, 0, 0)
    fields += struct.pack("<HHHH", speed, 1100, 1100, 1100)
    return _build_structure(
        17, _FIRST_DEVICE + number, fields, f"DIMM_P{socket}_{letter}0", f"P{socket} CHANNEL {letter}"
    )


def _build_structure(kind: int, handle: int, fields: bytes, *texts: str) -> bytes:
    end = b"".join(text.encode() + b"\0" for text in texts) + b"\0" if texts else b"\0\0"
    return struct.pack("<BBH", kind, 4 + len(fields), handle) + fields + end


def structure_file_names(shape: Shape) -> list[str]:
    """Return the names of the files that hold the structures, one for each."""
    return [f"smbios-{number:02}.bin" for number in range(len(build_structures(shape)))]


def write_structure_files(shape: Shape, folder: Path) -> None:
    """Write each structure into a file of the folder."""
    for name, data in zip(structure_file_names(shape), build_structures(shape), strict=True):
        (folder / name).write_bytes(data)
