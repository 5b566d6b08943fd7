# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests on guests share: machines of their own, and how to ask their kernels."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from vepyc import SHAPES, Machine, Preparation, start_machine
from vepyc.bmc import Bmc, serve_bmc

CPU = "/sys/devices/system/cpu"
RESCTRL = "/sys/fs/resctrl"
# Runs in the guest: writes registers on every CPU (CPU n gets value + n), then reads these and others on every CPU.
MSR_SCRIPT = """
import json, os, struct, sys
def access(cpu, register, value=None):
    descriptor = os.open(f"/dev/cpu/{cpu}/msr", os.O_RDWR)
    try:
        if value is not None:
            os.pwrite(descriptor, struct.pack("<Q", value), register)
        return struct.unpack("<Q", os.pread(descriptor, 8, register))[0]
    finally:
        os.close(descriptor)
cpus = range(os.cpu_count())
writes, reads = json.loads(sys.argv[1])
for register, value in writes.items():
    for cpu in cpus:
        access(cpu, int(register), value + cpu)
print(json.dumps({register: [access(cpu, int(register)) for cpu in cpus] for register in [*writes, *reads]}))
"""


@contextlib.contextmanager
def machine_of(shape: str, name: str, kernel: str = "6.12", prepared: Preparation | None = None) -> Iterator[Machine]:
    """A machine of the tests' own, next to whatever else runs."""
    machine = start_machine(shape, name=f"test-{name}-{os.getpid()}", kernel=kernel, prepared=prepared)
    try:
        yield machine
    finally:
        machine.discard()


def wait_while(left: Callable[[], object], seconds: float = 30) -> None:
    """Wait until nothing is left, or fail with what still is."""
    deadline = time.monotonic() + seconds
    while still := left():
        assert time.monotonic() < deadline, f"still there: {still}"
        time.sleep(0.05)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of the lab that is empty and of one test."""
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def own_small(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A small machine that the tests of a file may break, in the order in which they stand there."""
    with machine_of("small", f"own-{Path(request.node.name).stem.removeprefix('test_')}") as machine:
        yield machine


@pytest.fixture
def bmc() -> Iterator[Callable[..., Bmc]]:
    """Starts BMCs without machines, with the arguments of `vepyc.bmc.serve_bmc`, and ends them after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *given, **named: stack.enter_context(serve_bmc(*given, **named))


@contextlib.contextmanager
def mounted_resctrl(machine: Machine, options: str = "") -> Iterator[None]:
    machine.run(f"mount -t resctrl {options} resctrl {RESCTRL}")
    try:
        yield
    finally:
        machine.run(f"umount {RESCTRL}")


def read_files(machine: Machine, pattern: str) -> dict[str, str]:
    """The contents of the guest's files that match a pattern, by path."""
    lines = machine.run(f"grep -H . {pattern}").stdout.splitlines()
    return dict(line.split(":", 1) for line in lines)


def parse_cpulist(text: str) -> set[int]:
    """The CPUs that a list like 0-3,8 names."""
    ends = (part.split("-") for part in text.split(","))
    return {cpu for end in ends for cpu in range(int(end[0]), int(end[-1]) + 1)}


def write_and_read_msrs(machine: Machine, writes: dict[int, int], reads: Sequence[int] = ()) -> dict[int, list[int]]:
    """Write registers on every CPU through /dev/cpu/N/msr, and say what these and others read back."""
    machine.run("modprobe msr")
    try:
        out = machine.run(f"python3 - '{json.dumps([writes, list(reads)])}'", input=MSR_SCRIPT).stdout
    finally:
        machine.run("modprobe -r msr")
    return {int(register): values for register, values in json.loads(out).items()}


def read_hwcr(machine: Machine) -> list[int]:
    """The hardware configuration register of every CPU."""
    return write_and_read_msrs(machine, {}, reads=[0xC0010015])[0xC0010015]


def check_l3_domains(machine: Machine) -> None:
    shape = SHAPES[machine.shape]
    sizes = read_files(machine, f"{CPU}/cpu[0-9]*/cache/index3/size")
    assert len(sizes) == shape.cpus
    assert set(sizes.values()) == {f"{shape.l3_mib * 1024}K"}
    ids = read_files(machine, f"{CPU}/cpu[0-9]*/cache/index3/id")
    lists = read_files(machine, f"{CPU}/cpu[0-9]*/cache/index3/shared_cpu_list")
    found = {int(l3_id): parse_cpulist(lists[path.replace("/id", "/shared_cpu_list")]) for path, l3_id in ids.items()}
    per_domain = shape.cores_per_l3
    assert found == {
        l3_id: set(range(index * per_domain, (index + 1) * per_domain)) for index, l3_id in enumerate(shape.l3_ids)
    }


def check_schemata(machine: Machine) -> None:
    shape = SHAPES[machine.shape]
    with mounted_resctrl(machine):
        lines = machine.run(f"cat {RESCTRL}/schemata").stdout.replace(" ", "").split()
    resources = {"L3": "ffff", "MB": str(1 << shape.mba_bits)}
    if shape.smba and machine.kernel != "6.1":  # Linux learned of slow memory in 6.3
        resources["SMBA"] = str(1 << shape.mba_bits)
    assert dict(line.split(":") for line in lines) == {
        resource: ";".join(f"{l3_id}={value}" for l3_id in shape.l3_ids) for resource, value in resources.items()
    }
