# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's pure logic: no QEMU, no guest, no state outside pytest's temporary directory."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vepyc import (
    SHAPES,
    Shape,
    VepycError,
    acpi,
    bios,
    bring,
    guest,
    image,
    kernel,
    patch,
    prebuilt,
    qemu,
    smbios,
    snapshot,
    up,
)
from vepyc.cli import _settings
from vepyc.figures import Bar, Figures
from vepyc.firmware import Firmware
from vepyc.paths import locked, run_tool
from vepyc.rundir import Config, RunDir
from vepyc.sockets import await_server
from vepyc.start import choose_port

from .conftest import wait_while

KEEP = 0xFFFFFFFF
LAB = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    return tmp_path


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
    ],
)
def test_a_shape_has_the_size_of_its_sku(name: str, cpus: int, domains: int, l3_mib: int, nodes: int) -> None:
    shape = SHAPES[name]
    assert (shape.cpus, len(shape.l3_ids), shape.l3_mib, shape.nodes) == (cpus, domains, l3_mib, nodes)


def test_bios_settings_make_another_machine_of_a_shape() -> None:
    shape = SHAPES["epyc9754"]
    assert bios.shape_with(shape, {}) == shape
    one = bios.shape_with(shape, {"nps": 1, "smt": True, "boost": False})
    assert (one.nodes, one.threads, one.cpus) == (1, 2, 256)
    assert patch.cpuid_table(one) != patch.cpuid_table(shape)
    l3 = bios.shape_with(shape, {"nps": 2, "l3_as_numa": True})
    assert (l3.nodes, qemu.machine_args(l3, "x.aml").count("-object")) == (16, 16)
    few = bios.shape_with(shape, {"nps": 4, "l3_domains": 6, "cores_per_l3": 3})
    assert (few.nodes, few.cpus) == (1, 18), "NPS4 is impossible with six CCDs and falls back to NPS1"
    assert bios.shape_with(shape, {"cores_per_socket": 64}).cores_per_l3 == 4
    with pytest.raises(VepycError, match="there is no BIOS setting 'numa'"):
        bios.shape_with(shape, {"numa": 1})


def test_settings_from_the_start_are_those_of_the_bmc(tmp_path: Path) -> None:
    firmware = Firmware(RunDir(tmp_path), SHAPES["smt"], "lenovo", {"nps": 1, "smt": False, "cores_per_l3": 1})
    assert firmware.bmc
    try:
        active = firmware.bmc.active
        assert (active["Memory_NUMANodesperSocket"], active["Processors_SMTMode"]) == ("NPS1", "Disabled")
        made = firmware.boot()
        assert made and (made.nodes, made.threads, made.cpus) == (1, 1, 4)
        with pytest.raises(VepycError, match="send a PATCH"):
            firmware.change({"do": "bios", "settings": {"nps": 2}})
        firmware.change({"do": "bmc-faults", "faults": {"hung_posts": 1}})
        assert firmware.boot() is None, "a machine that hangs in its POST does not start"
    finally:
        firmware.bmc.stop()


def test_memory_modules_are_plugged_whatever_the_bmc_says(tmp_path: Path) -> None:
    firmware = Firmware(RunDir(tmp_path), SHAPES["small"], "dell", {"nps": 2})
    assert firmware.bmc
    try:
        firmware.change({"do": "bios", "settings": {"dimms": 11}})
        made = firmware.boot()
        assert made and (made.dimms, made.nodes) == (11, 2)
        with pytest.raises(VepycError, match="slots for 1 to 12 memory modules, and not for 13"):
            firmware.change({"do": "bios", "settings": {"dimms": 13}})
    finally:
        firmware.bmc.stop()


@pytest.mark.parametrize(("name", "total", "modules"), [("epyc9754", 12, 12), ("epyc7543x2", 16, 15)])
def test_firmware_describes_a_slot_for_each_channel(name: str, total: int, modules: int, tmp_path: Path) -> None:
    shape = replace(SHAPES[name], dimms=modules)
    smbios.write(shape, tmp_path)
    args = qemu.machine_args(shape, "x.aml")
    files = [text.removeprefix("file=") for text in args if text.startswith("file=smbios")]
    array, *slots = [(tmp_path / name).read_bytes() for name in files]
    assert (array[0], array[1], int.from_bytes(array[13:15], "little")) == (16, 23, total)
    sizes = [int.from_bytes(slot[12:14], "little") for slot in slots]
    assert [bool(size) for size in sizes] == [number < modules for number in range(total)]
    assert sum(sizes) <= shape.memory_mib < sum(sizes) + total
    assert {slot[0] for slot in slots} == {17} and {slot[1] for slot in slots} == {40}
    assert len({slot[40:] for slot in slots}) == total, "each slot has names of its own"
    saved = [snapshot.snapshot_dir(one, guest.get_release("6.12")) for one in (shape, replace(shape, dimms=3))]
    assert saved[0] != saved[1], "a machine of other modules is another machine"
    assert smbios.structures(SHAPES[name]) == []


def test_bios_settings_on_the_command_line() -> None:
    assert _settings("nps=1,smt=on,boost=off") == {"nps": 1, "smt": True, "boost": False}
    assert _settings("") == {}
    for wrong in ("nps", "nps=few", "nps=1=2"):
        with pytest.raises(VepycError, match="write them as"):
            _settings(wrong)


def test_settings_without_a_bmc_hold_from_the_next_boot_on(tmp_path: Path) -> None:
    firmware = Firmware(RunDir(tmp_path), SHAPES["small"], None, {})
    assert firmware.boot() == SHAPES["small"]
    assert firmware.change({"do": "bios", "settings": {"nps": 2}})
    assert firmware.change({"do": "bios", "settings": {"boost": False}})
    assert firmware.boot() == replace(SHAPES["small"], nodes=2, boost=False)
    with pytest.raises(VepycError, match="no BIOS setting"):
        firmware.change({"do": "bios", "settings": {"nodes": 2}})
    with pytest.raises(VepycError, match="has no BMC"):
        firmware.change({"do": "bmc-faults", "faults": {}})
    assert not firmware.change({"do": "something else"})


@pytest.mark.parametrize("name", ["epyc9654", "epyc7543x2"])
def test_nodes_cover_all_cpus_and_all_memory(name: str) -> None:
    shape = bios.shape_with(SHAPES[name], {"l3_as_numa": True})
    text = " ".join(qemu.machine_args(shape, "x.aml"))
    ranges = [tuple(map(int, found)) for found in re.findall(r"cpus=(\d+)-(\d+)", text)]
    assert [start for start, _ in ranges] == [0, *(end + 1 for _, end in ranges[:-1])]
    assert ranges[-1][1] == shape.possible_cpus - 1
    assert sum(map(int, re.findall(r"ram,id=mem\d+,size=(\d+)M", text))) == shape.memory_mib


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


# CPUID table


def rows(name: str) -> dict[tuple[int, int], tuple[int, ...]]:
    table = patch.cpuid_table(SHAPES[name])
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

SITES = kernel.Sites(table=0xFFFFFFFF82000000, functions=(0x11, 0x22, 0x33, 0x44, 0x55), cave=0xFFFFFFFF81A50000)


def test_the_header_points_at_the_originals_and_the_tables() -> None:
    blob, entries = patch.build(SHAPES["small"], SITES)
    header = struct.unpack_from("<8Q", blob)
    assert header[:5] == SITES.functions
    cpuid_table, msr_list, msr_slots = (address - SITES.cave for address in header[5:])
    table = patch.cpuid_table(SHAPES["small"])
    assert blob[cpuid_table : cpuid_table + len(table)] == table
    assert struct.unpack_from(f"<{len(patch.MSRS) + 1}I", blob, msr_list) == (*patch.MSRS, 0xFFFFFFFF)
    assert msr_slots % 4096 == 0
    assert len(blob) - msr_slots == 16 * 8 * 8
    endbr = b"\xf3\x0f\x1e\xfa"
    assert all(blob[entry - SITES.cave :].startswith(endbr) for entry in entries)
    assert len(set(entries)) == 5


def test_slots_hold_the_reset_values_of_every_possible_cpu() -> None:
    blob, _ = patch.build(SHAPES["epyc7543x2"], SITES)
    slots = struct.unpack_from("<Q", blob, 7 * 8)[0] - SITES.cave
    per_cpu = [blob[start : start + 64] for start in range(slots, len(blob), 64)]
    assert len(per_cpu) == 72
    assert {struct.unpack_from("<4Q", cpu) for cpu in per_cpu} == {tuple(patch.MSRS.values())}


# Finding the kernel's functions

BASE = 0xFFFFFFFF81000000
CPUID = bytes.fromhex("4989f8 0fa2 418900 c3")
CAVE = b"\xcc" * (300 * 1024)


def made_up_kernel(functions: dict[str, bytes], *, tables: int = 1, cave: bytes = CAVE, marked: bool = False) -> bytes:
    """An ELF image with one section of code, in which the functions stand, and `tables` copies of a pv_ops."""
    text, addresses = bytearray(), {}
    for name, code in {"native_cpuid": CPUID, **functions}.items():
        text += b"\x90" * (-len(text) % 16)
        addresses[name] = BASE + len(text)
        text += (b"\xf3\x0f\x1e\xfa" if marked else b"") + code + b"\xc3"
    text += b"\x90" * 64 + cave + b"\x90"
    names = ("native_cpuid", *kernel.PATTERNS)
    text += struct.pack("<5Q", *(addresses.get(name, 0) for name in names)) * tables
    header = bytearray(64)
    header[:4] = b"\x7fELF"
    program = struct.pack("<IIQQQQQQ", 1, 7, 64 + 56 + 64, BASE, BASE, len(text), len(text), 4096)
    section = struct.pack("<IIQQQQIIQQ", 1, 1, 6, BASE, 64 + 56 + 64, len(text), 0, 0, 16, 0)
    struct.pack_into("<QQ", header, 0x20, 64, 64 + 56)
    struct.pack_into("<HHHH", header, 0x36, 56, 1, 64, 1)
    return bytes(header) + program + section + bytes(text)


@pytest.mark.parametrize("marked", [False, True], ids=["without landing marks", "with landing marks"])
def test_functions_are_found_through_the_table_that_names_them(marked: bool) -> None:
    sites = kernel.find_sites(made_up_kernel(kernel.PATTERNS, marked=marked), "6.99")
    assert sites.functions[0] == BASE
    assert all(first < second for first, second in pairwise(sites.functions))
    assert sites.cave % 4096 == 0


@pytest.mark.parametrize("missing", kernel.PATTERNS)
def test_a_missing_pattern_is_named_with_its_kernel(missing: str) -> None:
    functions = {name: code for name, code in kernel.PATTERNS.items() if name != missing}
    with pytest.raises(VepycError, match=rf"kernel 6\.99 has no code that looks like {missing}"):
        kernel.find_sites(made_up_kernel(functions), "6.99")


def test_two_tables_are_an_error() -> None:
    with pytest.raises(VepycError, match=r"kernel 6\.99 has 2 tables that look like pv_ops"):
        kernel.find_sites(made_up_kernel(kernel.PATTERNS, tables=2), "6.99")


def test_a_kernel_without_padding_is_an_error() -> None:
    with pytest.raises(VepycError, match=r"kernel 6\.99 has no run of int3 padding"):
        kernel.find_sites(made_up_kernel(kernel.PATTERNS, cave=b""), "6.99")


def test_an_unknown_compression_is_an_error(tmp_path: Path) -> None:
    vmlinuz = tmp_path / "vmlinuz-6.99"
    vmlinuz.write_bytes(bytes(4096))
    with pytest.raises(VepycError, match=r"vmlinuz-6\.99 is compressed with neither xz nor zstd"):
        kernel.unpack(vmlinuz)


# The ACPI table and QEMU's arguments


def test_the_ssdt_names_processors_in_hexadecimal_and_compiles(tmp_path: Path) -> None:
    source = acpi.ssdt(SHAPES["epyc9754"])
    assert r"Scope (\_SB.CPUS.C07F)" in source
    assert "C080" not in source
    assert "Package () { 2250, " in source
    assert acpi.compile_ssdt(SHAPES["epyc9754"], tmp_path).read_bytes().startswith(b"SSDT")


def test_the_second_socket_is_filled_cpu_by_cpu() -> None:
    args = qemu.machine_args(SHAPES["epyc7543x2"], "ssdt.aml")
    assert "32,maxcpus=72,sockets=2,dies=9,cores=4,threads=1" in args
    plugged = [arg for arg in args if "socket-id=1" in arg]
    assert len(plugged) == 32
    assert not any("die-id=8" in arg for arg in plugged)


def test_nodes_of_two_sockets_are_far_apart() -> None:
    args = qemu.machine_args(SHAPES["epyc7543x2"], "ssdt.aml")
    assert "dist,src=0,dst=1,val=32" in args
    assert "dist,src=0,dst=1,val=12" in qemu.machine_args(SHAPES["small"], "ssdt.aml")


def test_two_kernels_have_two_images() -> None:
    first, second = (image.image_key(release) for release in guest.RELEASES.values())
    assert first != second


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": "epyc1"}, "there is no shape 'epyc1'; the shapes are small, "),
        ({"shape": "small", "kernel": "5.4"}, "there is no guest with kernel '5.4'; choose 6.12 or 6.1"),
        ({"shape": "small", "name": "No Host"}, "'No Host' cannot be a host name"),
    ],
)
def test_up_refuses_what_it_does_not_know(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(VepycError, match=message):
        up(**arguments)


def test_a_taken_port_names_the_option_before_an_image_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vepyc.start.ensure_image", lambda release: pytest.fail("an image was looked for"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(VepycError, match=f"port {port} on 127.0.0.1 is taken, .* choose another port with --port"):
            up("small", port=port)


def test_nothing_is_begun_that_would_fill_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("vepyc.paths.shutil.disk_usage", lambda folder: SimpleNamespace(free=1 << 30))
    has = "in .*, which has 1.0 GiB free; make room there, or name a folder on another disk"
    with pytest.raises(VepycError, match=f"the trixie image needs 4 GiB {has}"):
        up("small", name="full")
    monkeypatch.setattr("vepyc.start.image_dir", lambda release: tmp_path)
    with pytest.raises(VepycError, match=f"the first boot of a small needs 1.5 GiB {has}"):
        up("small", name="full")
    assert not RunDir.of("full").path.exists()


def test_a_tool_that_fails_is_named_with_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(VepycError, match=f"sh failed with exit code 3: No space left on device; see {log}"):
        run_tool(["sh", "-c", "echo begun; echo No space left on device >&2; exit 3"], log)


def test_what_a_killed_build_has_begun_ends_with_it(tmp_path: Path) -> None:
    """With a mmdebstrap that mounts something in the new root, and then stays."""
    root, begun, tool = tmp_path / "root", tmp_path / "begun", tmp_path / "mmdebstrap"
    root.mkdir()
    tool.write_text(f"#!/bin/sh\nmount -t tmpfs none {root} && touch {begun} && sleep 600\n")
    tool.chmod(0o755)
    build = (
        f"from pathlib import Path; import vepyc.debian as d; d.bootstrap('a', ['b'], Path({str(root)!r}), Path('log'))"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(LAB)}
    building = subprocess.Popen([sys.executable, "-c", build], cwd=tmp_path, env=environment)
    wait_while(lambda: not begun.exists())
    assert running(tool) and not root.is_mount(), "the mount is none of ours"
    building.kill()
    building.wait()
    wait_while(lambda: running(tool))
    root.rmdir()


def running(program: Path) -> bool:
    return subprocess.run(["pgrep", "-f", f"^/bin/sh {program}"], stdout=subprocess.DEVNULL).returncode == 0


def test_a_run_directory_without_a_supervisor_is_stale() -> None:
    run_dir = RunDir.of("gone")
    run_dir.create(Config(name="gone", shape="small", kernel="6.12", port=1, image="", snapshot=None))
    assert not run_dir.alive()
    run_dir.stop()
    assert not run_dir.path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ssh", "nobody", "true"], "vepyc: machine 'nobody' is not running; start it with: vepyc up"),
        (["status", "nobody"], "vepyc: machine 'nobody' is not running; start it with: vepyc up"),
        (["down", "nobody"], "vepyc: there is no machine 'nobody'; vepyc status lists those that run"),
        (["down"], "vepyc: name one machine, or say --all"),
    ],
)
def test_the_command_line_fails_with_one_sentence(arguments: list[str], message: str) -> None:
    done = subprocess.run([sys.executable, LAB / "bin/vepyc", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message + "\n")


def test_list_shows_every_shape() -> None:
    done = subprocess.run([sys.executable, LAB / "bin/vepyc", "list"], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(SHAPES)


def test_a_port_that_another_machine_is_about_to_use_is_not_free() -> None:
    first = choose_port(SHAPES["small"], "one", None)
    RunDir.of("one").create(Config("one", "small", "6.12", first, "image", None))
    RunDir.of("going").path.mkdir()
    assert choose_port(SHAPES["small"], "two", None) > first


def test_a_server_is_waited_for_until_it_listens(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, subprocess.Popen(["sleep", "20"]) as process:
        server.bind(str(tmp_path / "named"))
        threading.Timer(0.2, server.listen).start()
        await_server(tmp_path / "named", process, 30).close()
        with pytest.raises(VepycError, match=r"behind absent did not listen in 0\.1 seconds"):
            await_server(tmp_path / "absent", process, 0.1)
        process.kill()
        with pytest.raises(VepycError, match="behind absent ended with -9 instead of listening"):
            await_server(tmp_path / "absent", process, 30)


# Figures


@pytest.mark.parametrize(
    ("value", "bar", "missed", "line"),
    [
        (44.9, Bar("<", 45), False, "figure start 44.90 s (bar < 45)"),
        (45, Bar("<", 45), True, "figure start 45.00 s (bar < 45)"),
        (1.5, Bar("<=", 1.5), False, "figure start 1.50 s (bar <= 1.5)"),
        (9.99, Bar(">=", 10), True, "figure start 9.99 s (bar >= 10)"),
        (1e9, None, False, "figure start 1000000000.00 s"),
    ],
)
def test_a_figure_that_misses_its_bar_is_remembered(
    value: float, bar: Bar | None, missed: bool, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = Figures()
    figures.show("start", value, "s", bar)
    figures.show("other", 1, "s", Bar("<", 2))
    assert (figures.missed, capsys.readouterr().out.splitlines()[0]) == (missed, line)


def test_what_is_made_meanwhile_ends_with_a_block_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is taken is said at once, not when llama.cpp is built."""
    monkeypatch.setattr(bring, "_MAKE", ("sleep", "600"))
    with pytest.raises(VepycError, match="port is taken"), bring.made_meanwhile():
        raise VepycError("the port is taken")


def test_who_waits_for_another_process_says_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    with locked("image"):
        waiting = threading.Thread(target=lambda: locked("image", "the image (1 to 3 minutes)").__enter__())
        waiting.start()
        printed: list[str] = []
        wait_while(lambda: not printed.append(capsys.readouterr().out) and not "".join(printed))
    waiting.join()
    assert "".join(printed) == "waiting for the image (1 to 3 minutes), which another process makes\n"


# llama-server from Debian


def library(folder: Path, name: str, code: str, *more: str) -> Path:
    """A shared library of this assembly."""
    made = folder / name
    subprocess.run(["as", "--64", "-o", f"{made}.o", "-"], input=code, text=True, check=True)
    subprocess.run(["ld", "-shared", "-soname", name, *more, "-o", str(made), f"{made}.o"], check=True)
    return made


def caller(folder: Path, function: str) -> Path:
    """A library that calls a function which the C library got in its version 2.43, and one that it always had."""
    exports = f"GLIBC_2.2.5 {{ global: cosf; }}; GLIBC_2.43 {{ global: {function}; local: *; }};"
    (folder / "versions").write_text(exports)
    code = "".join(f".globl {name}\n.type {name}, @function\n{name}: ret\n" for name in ("cosf", function))
    math = library(folder, "libm.so.6", code, "--version-script", str(folder / "versions"))
    return library(folder, "libcaller.so", f"call cosf@PLT\ncall {function}@PLT\n", str(math))


def required(file: Path) -> set[tuple[str, str]]:
    """Each function that a library calls, with the version that it asks for."""
    listed = subprocess.run(["objdump", "-T", str(file)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\((GLIBC_[\d.]+)\)\s+(\S+)", listed))


def test_a_newer_version_of_the_same_function_is_replaced_by_the_oldest(tmp_path: Path) -> None:
    file = caller(tmp_path, "sqrtf")
    assert required(file) == {("GLIBC_2.2.5", "cosf"), ("GLIBC_2.43", "sqrtf")}
    prebuilt.accept_guest_glibc(file)
    assert required(file) == {("GLIBC_2.2.5", "cosf"), ("GLIBC_2.2.5", "sqrtf")}
    shown = subprocess.run(["objdump", "-p", str(file)], capture_output=True, text=True, check=True).stdout
    assert "GLIBC_2.43" not in shown


def test_a_function_that_guests_do_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VepycError, match=r"libcaller.so .* needs a newer C library than guests have: \['newf'\]"):
        prebuilt.accept_guest_glibc(caller(tmp_path, "newf"))


def test_without_the_packages_of_debian_the_server_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail() -> Path:
        raise VepycError("apt-get failed")

    monkeypatch.setattr(bring, "ensure_prebuilt", fail)
    monkeypatch.setattr(bring, "ensure_llama", lambda runs_in: tmp_path)
    assert bring.server_files() == {"/opt/llama/bin/llama-server": tmp_path / "bin/llama-server"}


def test_what_could_not_be_made_is_said_after_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bring, "_MAKE", ("false",))
    with pytest.raises(VepycError, match="for the reason above"), bring.made_meanwhile():
        pass
