# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shapes of machines: their sizes, BIOS settings and memory modules, their ACPI tables and QEMU's arguments."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from vepyc import SHAPES, Shape, VepycError
from vepyc.cli import _parse_bios_settings
from vepyc.epyc import acpi, bios, kernel_patch, smbios
from vepyc.images import guest_image, guest_system
from vepyc.machine import qemu_arguments, saved_states
from vepyc.machine.firmware import Firmware
from vepyc.machine.run_directory import RunDirectory

pytestmark = pytest.mark.usefixtures("own_home")


# Shapes


@pytest.mark.parametrize(
    ("name", "cpus", "domains", "l3_mib", "nodes"),
    [
        ("small", 16, 4, 16, 4),
        ("epyc9754", 128, 16, 16, 4),
        ("epyc9654", 96, 12, 32, 4),
        ("epyc9354", 32, 8, 32, 4),
        ("epyc7543x2", 64, 16, 32, 2),
        ("epyc9655", 96, 12, 32, 4),
        ("epyc9006", 144, 6, 64, 1),
    ],
)
def test_a_shape_has_the_size_of_its_sku(name: str, cpus: int, domains: int, l3_mib: int, nodes: int) -> None:
    shape = SHAPES[name]
    assert (shape.cpus, len(shape.l3_ids), shape.l3_mib, shape.nodes) == (cpus, domains, l3_mib, nodes)


def test_every_shape_has_its_own_port_and_name() -> None:
    assert len({shape.port for shape in SHAPES.values()}) == len(SHAPES)
    assert all(name == shape.name for name, shape in SHAPES.items())


def test_l3_ids_of_two_sockets_have_a_hole() -> None:
    assert SHAPES["epyc7543x2"].l3_ids == (*range(8), *range(16, 24))


def test_l3_ids_of_one_socket_are_contiguous() -> None:
    assert SHAPES["epyc9654"].l3_ids == tuple(range(12))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_memory_and_cpus_divide_among_the_nodes(shape: Shape) -> None:
    assert shape.memory_mib % shape.nodes == 0
    assert shape.possible_cpus % shape.nodes == 0


@pytest.mark.parametrize("name", ["epyc9654", "epyc7543x2"])
def test_nodes_cover_all_cpus_and_all_memory(name: str) -> None:
    shape = bios.apply_bios_settings(SHAPES[name], {"l3_as_numa": True})
    text = " ".join(qemu_arguments.build_machine_args(shape, "x.aml"))
    ranges = [tuple(map(int, found)) for found in re.findall(r"cpus=(\d+)-(\d+)", text)]
    assert [start for start, _ in ranges] == [0, *(end + 1 for _, end in ranges[:-1])]
    assert ranges[-1][1] == shape.possible_cpus - 1
    assert sum(map(int, re.findall(r"ram,id=mem\d+,size=(\d+)M", text))) == shape.memory_mib


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_every_cpu_has_an_apic_id_without_an_iommu(shape: Shape) -> None:
    """Without an IOMMU, which the lab does not have, interrupts reach the APIC ids up to 254 only."""
    largest = 0
    for size in (shape.sockets, shape.dies, shape.cores_per_l3, shape.threads):
        largest = largest << (size - 1).bit_length() | size - 1
    assert largest <= 254


# BIOS settings


def test_bios_settings_make_another_machine_of_a_shape() -> None:
    shape = SHAPES["epyc9754"]
    assert bios.apply_bios_settings(shape, {}) == shape
    one = bios.apply_bios_settings(shape, {"nps": 1, "smt": True, "boost": False})
    assert (one.nodes, one.threads, one.cpus) == (1, 2, 256)
    assert kernel_patch.cpuid_table(one) != kernel_patch.cpuid_table(shape)
    l3 = bios.apply_bios_settings(shape, {"nps": 2, "l3_as_numa": True})
    assert (l3.nodes, qemu_arguments.build_machine_args(l3, "x.aml").count("-object")) == (16, 16)
    few = bios.apply_bios_settings(shape, {"nps": 4, "l3_domains": 6, "cores_per_l3": 3})
    assert (few.nodes, few.cpus) == (1, 18), "NPS4 is impossible with six CCDs and falls back to NPS1"
    assert bios.apply_bios_settings(shape, {"cores_per_socket": 64}).cores_per_l3 == 4
    with pytest.raises(VepycError, match="there is no BIOS setting 'numa'"):
        bios.apply_bios_settings(shape, {"numa": 1})


def test_settings_from_the_start_are_those_of_the_bmc(tmp_path: Path) -> None:
    firmware = Firmware(RunDirectory(tmp_path), SHAPES["smt"], "lenovo", {"nps": 1, "smt": False, "cores_per_l3": 1})
    assert firmware.bmc
    try:
        active = firmware.bmc.active_settings
        assert (active["Memory_NUMANodesperSocket"], active["Processors_SMTMode"]) == ("NPS1", "Disabled")
        made = firmware.apply_boot()
        assert made and (made.nodes, made.threads, made.cpus) == (1, 1, 4)
        with pytest.raises(VepycError, match="send a PATCH"):
            firmware.handle_request({"do": "bios", "settings": {"nps": 2}})
        firmware.handle_request({"do": "bmc-faults", "faults": {"hung_posts": 1}})
        assert firmware.apply_boot() is None, "a machine that hangs in its POST does not start"
    finally:
        firmware.bmc.stop()


def test_memory_modules_are_plugged_whatever_the_bmc_says(tmp_path: Path) -> None:
    firmware = Firmware(RunDirectory(tmp_path), SHAPES["small"], "dell", {"nps": 2})
    assert firmware.bmc
    try:
        firmware.handle_request({"do": "bios", "settings": {"dimms": 11}})
        made = firmware.apply_boot()
        assert made and (made.dimms, made.nodes) == (11, 2)
        with pytest.raises(VepycError, match="slots for 1 to 12 memory modules, and not for 13"):
            firmware.handle_request({"do": "bios", "settings": {"dimms": 13}})
    finally:
        firmware.bmc.stop()


@pytest.mark.parametrize(
    ("name", "total", "modules", "kind"),
    [("epyc9754", 12, 12, 0x22), ("epyc7543x2", 16, 15, 0x1A), ("epyc9006", 16, 16, 0x25)],
)
def test_firmware_describes_a_slot_for_each_channel(
    name: str, total: int, modules: int, kind: int, tmp_path: Path
) -> None:
    shape = replace(SHAPES[name], dimms=modules)
    smbios.write_structure_files(shape, tmp_path)
    args = qemu_arguments.build_machine_args(shape, "x.aml")
    files = [text.removeprefix("file=") for text in args if text.startswith("file=smbios")]
    array, *slots = [(tmp_path / name).read_bytes() for name in files]
    assert (array[0], array[1], int.from_bytes(array[13:15], "little")) == (16, 23, total)
    sizes = [int.from_bytes(slot[12:14], "little") for slot in slots]
    assert [bool(size) for size in sizes] == [number < modules for number in range(total)]
    assert sum(sizes) <= shape.memory_mib < sum(sizes) + total
    assert {slot[0] for slot in slots} == {17} and {slot[1] for slot in slots} == {40}
    assert {slot[0x12] for slot in slots} == {kind}
    assert len({slot[40:] for slot in slots}) == total, "each slot has names of its own"
    saved = [
        saved_states.snapshot_dir(one, guest_system.get_release("6.12")) for one in (shape, replace(shape, dimms=3))
    ]
    assert saved[0] != saved[1], "a machine of other modules is another machine"
    assert smbios.build_structures(SHAPES[name]) == []


def test_bios_settings_on_the_command_line() -> None:
    assert _parse_bios_settings("nps=1,smt=on,boost=off") == {"nps": 1, "smt": True, "boost": False}
    assert _parse_bios_settings("") == {}
    for wrong in ("nps", "nps=few", "nps=1=2"):
        with pytest.raises(VepycError, match="write them as"):
            _parse_bios_settings(wrong)


def test_settings_without_a_bmc_hold_from_the_next_boot_on(tmp_path: Path) -> None:
    firmware = Firmware(RunDirectory(tmp_path), SHAPES["small"], None, {})
    assert firmware.apply_boot() == SHAPES["small"]
    assert firmware.handle_request({"do": "bios", "settings": {"nps": 2}})
    assert firmware.handle_request({"do": "bios", "settings": {"boost": False}})
    assert firmware.apply_boot() == replace(SHAPES["small"], nodes=2, boost=False)
    with pytest.raises(VepycError, match="no BIOS setting"):
        firmware.handle_request({"do": "bios", "settings": {"nodes": 2}})
    with pytest.raises(VepycError, match="has no BMC"):
        firmware.handle_request({"do": "bmc-faults", "faults": {}})
    assert not firmware.handle_request({"do": "something else"})


# The ACPI table and QEMU's arguments


def test_the_ssdt_names_processors_in_hexadecimal_and_compiles(tmp_path: Path) -> None:
    source = acpi.render_ssdt(SHAPES["epyc9754"])
    assert r"Scope (\_SB.CPUS.C07F)" in source
    assert "C080" not in source
    assert "Package () { 2250, " in source
    assert acpi.compile_ssdt(SHAPES["epyc9754"], tmp_path).read_bytes().startswith(b"SSDT")


def test_the_second_socket_is_filled_cpu_by_cpu() -> None:
    args = qemu_arguments.build_machine_args(SHAPES["epyc7543x2"], "ssdt.aml")
    assert "32,maxcpus=72,sockets=2,dies=9,cores=4,threads=1" in args
    plugged = [arg for arg in args if "socket-id=1" in arg]
    assert len(plugged) == 32
    assert not any("die-id=8" in arg for arg in plugged)


def test_nodes_of_two_sockets_are_far_apart() -> None:
    args = qemu_arguments.build_machine_args(SHAPES["epyc7543x2"], "ssdt.aml")
    assert "dist,src=0,dst=1,val=32" in args
    assert "dist,src=0,dst=1,val=12" in qemu_arguments.build_machine_args(SHAPES["small"], "ssdt.aml")


def test_each_kernel_has_an_image() -> None:
    keys = {guest_image.image_key(release) for release in guest_system.RELEASES.values()}
    assert len(keys) == len(guest_system.RELEASES)
