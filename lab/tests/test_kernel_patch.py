# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The code and the CPUID tables that go into a kernel, and the places where they go."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from vepyc import SHAPES, VepycError
from vepyc.epyc import kernel_addresses, kernel_patch

KEEP = 0xFFFFFFFF
pytestmark = pytest.mark.usefixtures("own_home")
# CPUID table


def rows(name: str) -> dict[tuple[int, int], tuple[int, ...]]:
    table = kernel_patch.cpuid_table(SHAPES[name])
    assert table[-4:] == b"\xff" * 4
    unpacked = struct.iter_unpack("<10I", table[:-4])
    return {(row[0], row[1]): row[2:] for row in unpacked}


@pytest.mark.parametrize(("name", "mib"), [("small", 16), ("epyc9654", 32)])
def test_l3_geometry_multiplies_to_the_size_of_the_domain(name: str, mib: int) -> None:
    _, eax, _, ebx, _, ecx, _, _ = rows(name)[0x8000001D, 3]
    assert eax == 0, "how many CPUs share the cache is QEMU's to say"
    ways, line, sets = (ebx >> 22) + 1, (ebx & 0xFFF) + 1, ecx + 1
    assert ways == 16
    assert ways * line * sets == mib * 1024 * 1024


def test_zen3_has_no_slow_memory_allocation() -> None:
    assert rows("epyc7543x2")[0x80000020, 0][3] == 1 << 1
    assert rows("epyc9654")[0x80000020, 0][3] == 1 << 1 | 1 << 2 | 1 << 3


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_has_a_prefetch_control_register(name: str) -> None:
    assert rows(name)[0x80000021, KEEP][:2] == (KEEP, 1 << 13)


def test_turin_counts_bandwidth_in_a_wider_field() -> None:
    assert rows("epyc9655")[0x80000020, 1][1] == 12


# The code that goes into the kernel

SITES = kernel_addresses.KernelAddresses(
    table=0xFFFFFFFF82000000, functions=(0x11, 0x22, 0x33, 0x44, 0x55), cave=0xFFFFFFFF81A50000
)


def test_the_header_points_at_the_originals_and_the_tables() -> None:
    blob, entries = kernel_patch.build_patch(SHAPES["small"], SITES)
    header = struct.unpack_from("<8Q", blob)
    assert header[:5] == SITES.functions
    cpuid_table, msr_list, msr_slots = (address - SITES.cave for address in header[5:])
    table = kernel_patch.cpuid_table(SHAPES["small"])
    assert blob[cpuid_table : cpuid_table + len(table)] == table
    assert struct.unpack_from(f"<{len(kernel_patch.MSR_RESET_VALUES) + 1}I", blob, msr_list) == (
        *kernel_patch.MSR_RESET_VALUES,
        0xFFFFFFFF,
    )
    assert msr_slots % 4096 == 0
    assert len(blob) - msr_slots == 16 * 8 * 8
    endbr = b"\xf3\x0f\x1e\xfa"
    assert all(blob[entry - SITES.cave :].startswith(endbr) for entry in entries)
    assert len(set(entries)) == 5


def test_a_kernel_that_passes_whole_values_gets_hooks_that_take_them() -> None:
    _, of_halves = kernel_patch.build_patch(SHAPES["small"], SITES)
    _, of_wholes = kernel_patch.build_patch(SHAPES["small"], replace(SITES, whole_values=True))
    changed = [first != second for first, second in zip(of_halves, of_wholes, strict=True)]
    assert changed == [False, False, True, True, True]
    assert len({*of_halves, *of_wholes}) == 8


def test_slots_hold_the_reset_values_of_every_possible_cpu() -> None:
    blob, _ = kernel_patch.build_patch(SHAPES["epyc7543x2"], SITES)
    slots = struct.unpack_from("<Q", blob, 7 * 8)[0] - SITES.cave
    per_cpu = [blob[start : start + 64] for start in range(slots, len(blob), 64)]
    assert len(per_cpu) == 72
    assert {struct.unpack_from("<4Q", cpu) for cpu in per_cpu} == {tuple(kernel_patch.MSR_RESET_VALUES.values())}


# Finding the kernel's functions

BASE = 0xFFFFFFFF81000000
CAVE = b"\xcc" * (300 * 1024)
#: The beginnings of the functions in Debian's 6.1 and 6.12, and those that are others in its 7.3.
FUNCTIONS = {
    "native_cpuid": bytes.fromhex("4989f8 53 4989c9 4889d7 418b00 8b0a 0fa2 418900"),
    "native_read_msr": bytes.fromhex("5389f9 0f32 48c1e220 4889d3 4809c3"),
    "native_write_msr": bytes.fromhex("89f089f9 0f30 6690"),
    "native_read_msr_safe": bytes.fromhex("5389f9 0f32 31ff 893e"),
    "native_write_msr_safe": bytes.fromhex("89f089f9 0f30 31c0 6690 e9d6 48c1e220"),
}
OF_WHOLE_VALUES = {
    "native_write_msr": bytes.fromhex("4889f2 89f9 89f0 48c1ea20 0f30 6690"),
    "native_read_msr_safe": bytes.fromhex("4154 89f9 55 4889f5 53 0f32 4531e4"),
    "native_write_msr_safe": bytes.fromhex("4889f2 89f0 89f9 48c1ea20 0f30 31c0"),
}


def made_up_kernel(functions: dict[str, bytes], *, tables: int = 1, cave: bytes = CAVE, marked: bool = False) -> bytes:
    """An ELF image with one section of code, in which the functions stand, and `tables` copies of a pv_ops."""
    text, addresses = bytearray(), {}
    for name, code in functions.items():
        text += b"\x90" * (-len(text) % 16)
        addresses[name] = BASE + len(text)
        text += (b"\xf3\x0f\x1e\xfa" if marked else b"") + code + b"\xc3"
    text += b"\x90" * 64 + cave
    text += b"\x90" * (8 - len(text) % 8)
    text += struct.pack("<5Q", *(addresses.get(name, 0) for name in FUNCTIONS)) * tables
    header = bytearray(64)
    header[:4] = b"\x7fELF"
    program = struct.pack("<IIQQQQQQ", 1, 7, 64 + 56 + 64, BASE, BASE, len(text), len(text), 4096)
    section = struct.pack("<IIQQQQIIQQ", 1, 1, 6, BASE, 64 + 56 + 64, len(text), 0, 0, 16, 0)
    struct.pack_into("<QQ", header, 0x20, 64, 64 + 56)
    struct.pack_into("<HHHH", header, 0x36, 56, 1, 64, 1)
    return bytes(header) + program + section + bytes(text)


@pytest.mark.parametrize("marked", [False, True], ids=["without landing marks", "with landing marks"])
@pytest.mark.parametrize("others", [{}, OF_WHOLE_VALUES], ids=["halves of values", "whole values"])
def test_functions_are_found_through_the_table_that_names_them(marked: bool, others: dict[str, bytes]) -> None:
    sites = kernel_addresses.find_kernel_addresses(made_up_kernel({**FUNCTIONS, **others}, marked=marked), "6.99")
    assert sites.functions[0] == BASE
    assert all(first < second for first, second in pairwise(sites.functions))
    assert sites.whole_values == bool(others)
    assert sites.cave % 4096 == 0


@pytest.mark.parametrize("other", FUNCTIONS)
def test_a_kernel_with_another_function_in_the_table_is_an_error(other: str) -> None:
    kernel = made_up_kernel({**FUNCTIONS, other: b"\x90" * 64})
    with pytest.raises(VepycError, match=r"kernel 6\.99 has 0 tables that look like pv_ops"):
        kernel_addresses.find_kernel_addresses(kernel, "6.99")


def test_two_tables_are_an_error() -> None:
    with pytest.raises(VepycError, match=r"kernel 6\.99 has 2 tables that look like pv_ops"):
        kernel_addresses.find_kernel_addresses(made_up_kernel(FUNCTIONS, tables=2), "6.99")


def test_a_kernel_without_padding_is_an_error() -> None:
    with pytest.raises(VepycError, match=r"kernel 6\.99 has no run of int3 padding"):
        kernel_addresses.find_kernel_addresses(made_up_kernel(FUNCTIONS, cave=b""), "6.99")


def test_an_unknown_compression_is_an_error(tmp_path: Path) -> None:
    vmlinuz = tmp_path / "vmlinuz-6.99"
    vmlinuz.write_bytes(bytes(4096))
    with pytest.raises(VepycError, match=r"vmlinuz-6\.99 is compressed with neither xz nor zstd"):
        kernel_addresses.unpack_vmlinuz(vmlinuz)
