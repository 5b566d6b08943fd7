# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the addresses to patch in a stock kernel binary without symbols."""

from __future__ import annotations

import lzma
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import VepycError

# What the functions execute that pv_ops names in a row: cpuid, read_msr, write_msr, read_msr_safe, write_msr_safe.
_CPUID, _RDMSR, _WRMSR = b"\x0f\xa2", b"\x0f\x32", b"\x0f\x30"
_INSTRUCTIONS = (_CPUID, _RDMSR, _WRMSR, _RDMSR, _WRMSR)
# The instruction is among the first bytes of such a function, and functions are aligned.
_BEGIN, _ALIGNMENT = 32, 16
# shr rdx, 32: a write takes both halves of the value from one register. Linux 6.16 changed the parameters of three
# functions at once: write_msr, write_msr_safe and read_msr_safe.
_SPLITS_VALUE = b"\x48\xc1\xea\x20"
_MIN_CAVE = 256 * 1024

_Functions = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class KernelAddresses:
    """Addresses in a kernel that is loaded without KASLR."""

    table: int  # of the pointers to cpuid, read_msr, write_msr, read_msr_safe and write_msr_safe in pv_ops
    functions: _Functions  # what the table points to, in that order
    cave: int  # a large run of int3 padding inside .text, executable and never freed
    whole_values: bool = False  # whether values of registers are passed as 64 bits instead of two halves


def unpack_vmlinuz(vmlinuz: Path) -> bytes:
    """Return the ELF image inside a bzImage, as the boot protocol describes it."""
    image = vmlinuz.read_bytes()
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    payload = image[(setup_sectors + 1) * 512 + offset :][:length]
    if payload.startswith(b"\xfd7zXZ"):
        elf = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):
        # The last four bytes are the size that the boot loader wants, not part of the stream.
        command = ["zstd", "--decompress", "--stdout", "--quiet"]
        elf = subprocess.run(command, input=payload[:-4], stdout=subprocess.PIPE, check=True).stdout
    else:
        raise VepycError(f"{vmlinuz.name} is compressed with neither xz nor zstd; the lab cannot unpack this kernel")
    if not elf.startswith(b"\x7fELF"):
        raise VepycError(f"{vmlinuz.name} does not hold an ELF image; the lab cannot use this kernel")
    return elf


def find_kernel_addresses(elf: bytes, release: str) -> KernelAddresses:
    """Find the addresses that the patch needs; ``release`` names the kernel in errors."""
    base, text = _find_text_section(elf, release)
    tables = _find_tables(elf, base, text)
    if len(tables) != 1:
        raise VepycError(
            f"kernel {release} has {len(tables)} tables that look like pv_ops, and the lab needs exactly one; adapt"
            " kernel_addresses.py to this kernel"
        )
    (address, functions) = tables[0]
    write_safe = functions[-1] - base
    before_write = text[write_safe : text.index(_WRMSR, write_safe)]
    return KernelAddresses(
        table=address,
        functions=functions,
        cave=_find_cave(base, text, release),
        whole_values=_SPLITS_VALUE in before_write,
    )


def _find_text_section(elf: bytes, release: str) -> tuple[int, bytes]:
    """Return address and bytes of the kernel's main executable section."""
    (section_offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    for index in range(count):
        _, _, flags, address, offset, length = struct.unpack_from("<IIQQQQ", elf, section_offset + index * size)
        if flags & 4 and address > 0xFFFFFFFF80000000:
            return address, elf[offset : offset + length]
    raise VepycError(f"kernel {release} has no executable section where a 64-bit kernel has its .text")


def _find_tables(elf: bytes, base: int, text: bytes) -> list[tuple[int, _Functions]]:
    """Return address and pointers of each table in the loaded image that points to functions like those of pv_ops."""
    (program_offset,) = struct.unpack_from("<Q", elf, 0x20)
    size, count = struct.unpack_from("<HH", elf, 0x36)
    first_pointers = {base + start for start in _find_possible_starts(text, _CPUID)}
    tables = []
    for index in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", elf, program_offset + index * size)
        if kind != 1:
            continue
        words = memoryview(elf)[offset : offset + length // 8 * 8].cast("Q")
        for place, word in enumerate(words[:-4]):
            if word in first_pointers and _are_functions_of_pv_ops(words[place : place + 5], base, text):
                cpuid, read_msr, write_msr, read_safe, write_safe = words[place : place + 5]
                tables.append((address + 8 * place, (cpuid, read_msr, write_msr, read_safe, write_safe)))
    return tables


def _find_possible_starts(text: bytes, instruction: bytes) -> Iterator[int]:
    """Yield the offsets where a function may begin that executes the instruction among its first bytes."""
    position = text.find(instruction)
    while position >= 0:
        last = position // _ALIGNMENT * _ALIGNMENT
        yield from range(last, max(-1, last - _BEGIN), -_ALIGNMENT)
        position = text.find(instruction, position + 1)


def _are_functions_of_pv_ops(pointers: Sequence[int], base: int, text: bytes) -> bool:
    """True if each pointer is to code that begins with what the function at that place of pv_ops executes."""
    return all(
        base <= pointer < base + len(text) and instruction in text[pointer - base : pointer - base + _BEGIN]
        for pointer, instruction in zip(pointers, _INSTRUCTIONS, strict=True)
    )


def _find_cave(base: int, text: bytes, release: str) -> int:
    """Return a page-aligned address inside a long run of int3 padding."""
    start = text.find(b"\xcc" * _MIN_CAVE)
    if start < 0:
        raise VepycError(
            f"kernel {release} has no run of int3 padding of {_MIN_CAVE} bytes in .text for the lab's code"
        )
    return (base + start + 4095) & ~4095
