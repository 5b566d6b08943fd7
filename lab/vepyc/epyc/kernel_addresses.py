# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the addresses to patch in a stock kernel binary without symbols."""

from __future__ import annotations

import itertools
import lzma
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import VepycError

# The code with which these functions begin, as compiled for Debian 12 and 13, without the landing mark (endbr64).
_ENDBR = b"\xf3\x0f\x1e\xfa"
PATTERNS = {
    "native_read_msr": bytes.fromhex("5389f9 0f32 48c1e220 4889d3 4809c3"),
    "native_write_msr": bytes.fromhex("89f089f9 0f30 6690"),
    "native_read_msr_safe": bytes.fromhex("5389f9 0f32 31ff 893e"),
    "native_write_msr_safe": bytes.fromhex("89f089f9 0f30 31c0"),
}
_CPUID = b"\x0f\xa2"
_MIN_CAVE = 256 * 1024


@dataclass(frozen=True)
class KernelAddresses:
    """Addresses in a kernel that is loaded without KASLR."""

    table: int  # of the pointers to cpuid, read_msr, write_msr, read_msr_safe and write_msr_safe in pv_ops
    functions: tuple[int, int, int, int, int]  # what the table points to, in that order
    cave: int  # a large run of int3 padding inside .text, executable and never freed


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
    candidates = []
    for name, pattern in PATTERNS.items():
        hits = [base + start for start in _find_function_starts(text, pattern)]
        if not hits:
            raise VepycError(
                f"kernel {release} has no code that looks like {name}; add its pattern to kernel_addresses.py"
            )
        candidates.append(hits)
    # pv_ops has pointers to the four functions in a row, after cpuid's. So a combination of hits is right if it is
    # there.
    tables = [
        (address, combination)
        for combination in itertools.product(*candidates)
        for address in _find_addresses(elf, struct.pack("<4Q", *combination))
    ]
    if len(tables) != 1:
        raise VepycError(f"kernel {release} has {len(tables)} tables that look like pv_ops, wanted exactly one")
    (address, (read_msr, write_msr, read_safe, write_safe)) = tables[0]
    cpuid = _read_pointer_before(elf, struct.pack("<4Q", *tables[0][1]))
    if _CPUID not in text[cpuid - base : cpuid - base + 32]:
        raise VepycError(f"kernel {release}: the function before read_msr in pv_ops is not native_cpuid")
    return KernelAddresses(
        table=address - 8,
        functions=(cpuid, read_msr, write_msr, read_safe, write_safe),
        cave=_find_cave(base, text, release),
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


def _find_addresses(elf: bytes, needle: bytes) -> list[int]:
    """Return the virtual addresses at which the loaded image has these bytes."""
    (program_offset,) = struct.unpack_from("<Q", elf, 0x20)
    size, count = struct.unpack_from("<HH", elf, 0x36)
    addresses = []
    for index in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", elf, program_offset + index * size)
        if kind != 1:
            continue
        position = elf.find(needle, offset, offset + length)
        while position >= 0:
            addresses.append(address + position - offset)
            position = elf.find(needle, position + 1, offset + length)
    return addresses


def _read_pointer_before(elf: bytes, needle: bytes) -> int:
    """Return the 64-bit value in front of these bytes."""
    (value,) = struct.unpack_from("<Q", elf, elf.index(needle) - 8)
    return int(value)


def _find_function_starts(text: bytes, pattern: bytes) -> list[int]:
    """Return the offsets of functions that begin with the pattern, or with a landing mark and the pattern."""
    starts = []
    position = text.find(pattern)
    while position >= 0:
        marked = text.startswith(_ENDBR, position - len(_ENDBR))
        starts.append(position - len(_ENDBR) if marked else position)
        position = text.find(pattern, position + 1)
    return starts


def _find_cave(base: int, text: bytes, release: str) -> int:
    """Return a page-aligned address inside a long run of int3 padding."""
    start = text.find(b"\xcc" * _MIN_CAVE)
    if start < 0:
        raise VepycError(
            f"kernel {release} has no run of int3 padding of {_MIN_CAVE} bytes in .text for the lab's code"
        )
    return (base + start + 4095) & ~4095
