# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patch a guest kernel so that it sees an EPYC: the code and tables that are written into its memory, through gdb."""

from __future__ import annotations

import struct
import tempfile
from functools import cache
from pathlib import Path

from ..machine.gdb import Gdb
from ..paths import PACKAGE, run_tool
from .kernel_addresses import KernelAddresses
from .shapes import Shape

HOOKS_SOURCE = PACKAGE / "epyc/asm" / "epyc.s"

# Registers that hold a value per CPU, with their values at reset. QEMU itself reads 0 for them and ignores writes.
MSR_RESET_VALUES = {
    0xC0000108: 0,  # PrefetchControl
    0xC0011022: 0,  # DC_CFG
    0xC0010015: 1 << 24,  # HWCR; Linux complains when this bit, "TSC counts at P0 frequency", is not set
    0xC0010062: 0,  # P-state control
}
_SLOTS_PER_CPU = 8
_HEADER = struct.Struct("<8Q8I")
_KEEP = 0xFFFFFFFF
_ANY = 0xFFFFFFFF

RegisterChange = tuple[int, int]  # and-mask, or-mask


def _set_to(value: int) -> RegisterChange:
    return (0, value)


def _set_bits(*bits: int) -> RegisterChange:
    return (_KEEP, sum(1 << bit for bit in bits))


def _clear_bit(bit: int) -> RegisterChange:
    return (_KEEP & ~(1 << bit), 0)


def cpuid_row(
    leaf: int,
    subleaf: int = _ANY,
    *,
    eax: RegisterChange = (_KEEP, 0),
    ebx: RegisterChange = (_KEEP, 0),
    ecx: RegisterChange = (_KEEP, 0),
    edx: RegisterChange = (_KEEP, 0),
) -> bytes:
    """Return a row of the CPUID table. The first row that matches leaf and subleaf changes QEMU's answer."""
    return struct.pack("<10I", leaf, subleaf, *eax, *ebx, *ecx, *edx)


def cpuid_table(shape: Shape) -> bytes:
    """Return the rows of CPUID leaves that turn QEMU's processor into the EPYC of this shape."""
    l3_sets = shape.l3_mib * 1024 * 1024 // (16 * 64)
    mba = 1 << 1 | ((1 << 2 | 1 << 3) if shape.smba else 0)
    rows = [
        # Hide CMPXCHG16B: QEMU 7.2 leaves garbage in EFLAGS after it, and a guest crashes when an interrupt saves that.
        cpuid_row(0x1, ecx=_clear_bit(13)),
        cpuid_row(0x7, 0, ebx=_set_bits(12, 15)),  # resource monitoring and allocation
        cpuid_row(0xF, 0, eax=_set_to(0), ebx=_set_to(255), ecx=_set_to(0), edx=_set_to(2)),
        cpuid_row(
            0xF, 1, eax=_set_to(20), ebx=_set_to(64), ecx=_set_to(255), edx=_set_to(7)
        ),  # occupancy, total and local traffic
        cpuid_row(0x10, 0, eax=_set_to(0), ebx=_set_to(2), ecx=_set_to(0), edx=_set_to(0)),
        cpuid_row(
            0x10, 1, eax=_set_to(15), ebx=_set_to(0), ecx=_set_to(4), edx=_set_to(15)
        ),  # 16 ways, CDP, 16 classes
        cpuid_row(0x80000001, ecx=_set_bits(22)),  # topology extensions, which the L3 leaf belongs to
        # Hardware P-states, invariant TSC, core performance boost.
        cpuid_row(0x80000007, edx=_set_bits(7, 8, 9) if shape.boost else (_KEEP & ~(1 << 9), 1 << 7 | 1 << 8)),
        cpuid_row(0x80000008, ebx=_set_bits(6)),  # memory bandwidth allocation
        cpuid_row(0x8000001D, 3, ebx=_set_to(15 << 22 | 63), ecx=_set_to(l3_sets - 1)),  # 16 ways of 64-byte lines
        cpuid_row(0x80000020, 0, eax=_set_to(0), ebx=_set_to(mba), ecx=_set_to(0), edx=_set_to(0)),
        cpuid_row(
            0x80000020,
            1,
            eax=_set_to(shape.mba_bits),
            ebx=_set_to(0),
            ecx=_set_to(0),
            edx=_set_to(15),
        ),
    ]
    if shape.smba:
        rows += [
            cpuid_row(
                0x80000020,
                2,
                eax=_set_to(shape.mba_bits),
                ebx=_set_to(0),
                ecx=_set_to(0),
                edx=_set_to(15),
            ),
            cpuid_row(0x80000020, 3, eax=_set_to(0), ebx=_set_to(0), ecx=_set_to(0x7F), edx=_set_to(0)),
        ]
    rows.append(cpuid_row(0x80000021, eax=_set_bits(13)))  # PrefetchControl exists
    return b"".join(rows) + struct.pack("<I", _ANY)


@cache
def assemble_hooks() -> bytes:
    """Return the machine code of the hooks, assembled from epyc.s."""
    with tempfile.TemporaryDirectory(prefix="vepyc-") as scratch:
        unit, code = Path(scratch, "epyc.o"), Path(scratch, "epyc.bin")
        run_tool(["as", "--64", str(HOOKS_SOURCE), "-o", str(unit)])
        run_tool(["objcopy", "-O", "binary", "-j", ".text", str(unit), str(code)])
        return code.read_bytes()


def build_patch(shape: Shape, sites: KernelAddresses) -> tuple[bytes, tuple[int, ...]]:
    """Return the bytes to write into the cave, and the addresses that replace the five functions of pv_ops."""
    code = assemble_hooks()
    cpuid, read_msr, write_msr, read_safe, write_safe, *of_whole_values = _HEADER.unpack_from(code)[8:]
    if sites.whole_values:
        write_msr, read_safe, write_safe = of_whole_values
    entries = (cpuid, read_msr, write_msr, read_safe, write_safe)
    table = cpuid_table(shape)
    registers = struct.pack(f"<{len(MSR_RESET_VALUES) + 1}I", *MSR_RESET_VALUES, _ANY)
    slots = struct.pack(
        f"<{_SLOTS_PER_CPU}Q", *MSR_RESET_VALUES.values(), *[0] * (_SLOTS_PER_CPU - len(MSR_RESET_VALUES))
    )

    table_at = _align_up(sites.cave + len(code), 64)
    registers_at = _align_up(table_at + len(table), 64)
    # The slots start a page of their own, because QEMU discards translated code in pages that are written.
    slots_at = _align_up(registers_at + len(registers), 4096)
    blob = bytearray(slots_at - sites.cave)
    for address, data in ((sites.cave, code), (table_at, table), (registers_at, registers)):
        blob[address - sites.cave : address - sites.cave + len(data)] = data
    struct.pack_into("<8Q", blob, 0, *sites.functions, table_at, registers_at, slots_at)
    return bytes(blob) + slots * shape.possible_cpus, tuple(sites.cave + entry for entry in entries)


def patch_running_kernel(gdb: Gdb, shape: Shape, sites: KernelAddresses) -> None:
    """Stop the kernel at its first CPUID instruction, install the hooks, and let it go on inside the hook."""
    blob, entries = build_patch(shape, sites)
    gdb.run_until(sites.functions[0])
    gdb.write_memory(sites.cave, blob)
    gdb.write_memory(sites.table, struct.pack("<5Q", *entries))
    gdb.set_instruction_pointer(entries[0])
    gdb.detach()


def _align_up(address: int, size: int) -> int:
    return (address + size - 1) & -size
