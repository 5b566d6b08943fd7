# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernels of real guests say. The first run saves snapshots of the machines it needs, later ones use them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from vepyc import SHAPES, GuestError, Machine, VepycError, up
from vepyc.guest import RELEASES
from vepyc.rundir import RunDir
from vepyc.snapshot import take_snapshot

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
def machine_of(shape: str, name: str, kernel: str = "6.12") -> Iterator[Machine]:
    """A machine of the tests' own, next to whatever else runs."""
    machine = up(shape, name=f"test-{name}-{os.getpid()}", kernel=kernel)
    try:
        yield machine
    finally:
        machine.down()


@pytest.fixture(scope="session", params=RELEASES)
def small(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The small machine, once with each kernel."""
    with machine_of("small", f"small-{request.param.replace('.', '-')}", request.param) as machine:
        yield machine


@pytest.fixture(scope="session", params=["epyc9754", "epyc7543x2"])
def big(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A machine in the size of its SKU."""
    with machine_of(request.param, request.param) as machine:
        yield machine


@pytest.fixture
def own_small() -> Iterator[Machine]:
    """A small machine that a test may break."""
    with machine_of("small", "own") as machine:
        yield machine


@contextlib.contextmanager
def resctrl(machine: Machine, options: str = "") -> Iterator[None]:
    machine.run(f"mount -t resctrl {options} resctrl {RESCTRL}")
    try:
        yield
    finally:
        machine.run(f"umount {RESCTRL}")


def read(machine: Machine, pattern: str) -> dict[str, str]:
    """The contents of the guest's files that match a pattern, by path."""
    lines = machine.run(f"grep -H . {pattern}").stdout.splitlines()
    return dict(line.split(":", 1) for line in lines)


def cpulist(text: str) -> set[int]:
    """The CPUs that a list like 0-3,8 names."""
    ends = (part.split("-") for part in text.split(","))
    return {cpu for end in ends for cpu in range(int(end[0]), int(end[-1]) + 1)}


def msrs(machine: Machine, writes: dict[int, int], reads: Sequence[int] = ()) -> dict[int, list[int]]:
    """Write registers on every CPU through /dev/cpu/N/msr, and say what these and others read back."""
    machine.run("modprobe msr")
    try:
        out = machine.run(f"python3 - '{json.dumps([writes, list(reads)])}'", input=MSR_SCRIPT).stdout
    finally:
        machine.run("modprobe -r msr")
    return {int(register): values for register, values in json.loads(out).items()}


def processes(machine: Machine) -> list[int]:
    """The machine's supervisor and QEMU."""
    supervisor = int(machine.run_dir.pid.read_text())
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return [supervisor, *map(int, children)]


def gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be collected by its parent has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 30
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if not gone(pid)]}"
        time.sleep(0.1)


# A machine as it is handed over


def test_the_kernel_is_the_one_asked_for(small: Machine) -> None:
    assert small.run("uname -r").stdout.startswith(small.kernel + ".")


def test_cpuinfo_shows_the_sku(small: Machine) -> None:
    text = small.run("cat /proc/cpuinfo").stdout
    found = dict(re.findall(r"^(vendor_id|cpu family|model|model name|stepping)\s*: (.*)$", text, re.MULTILINE))
    assert found == {
        "vendor_id": "AuthenticAMD",
        "cpu family": "25",
        "model": "160",
        "model name": "AMD EPYC 9754 128-Core Processor",
        "stepping": "2",
    }
    flags = set(re.findall(r"^flags\s*: (.*)$", text, re.MULTILINE)[0].split())
    assert flags >= {"cat_l3", "cdp_l3", "cqm_llc", "mba", "hw_pstate", "cpb", "topoext", "constant_tsc"}


def test_what_the_collection_does_itself_is_not_done_yet(small: Machine) -> None:
    modules = {line.split()[0] for line in small.run("cat /proc/modules").stdout.splitlines()}
    assert modules.isdisjoint({"msr", "cpuid"})
    assert RESCTRL not in small.run("cut -d' ' -f2 /proc/mounts").stdout.split()
    assert small.run("cat /proc/sys/kernel/tainted").stdout == "0\n"


def test_systemd_has_started_everything(small: Machine) -> None:
    assert small.run("systemctl is-system-running", check=False).stdout == "running\n"
    assert small.run("hostname").stdout == small.name + "\n"
    assert abs(float(small.run("date +%s").stdout) - time.time()) < 60


# Topology


def check_l3_domains(machine: Machine) -> None:
    shape = SHAPES[machine.shape]
    sizes = read(machine, f"{CPU}/cpu[0-9]*/cache/index3/size")
    assert len(sizes) == shape.cpus
    assert set(sizes.values()) == {f"{shape.l3_mib * 1024}K"}
    ids = read(machine, f"{CPU}/cpu[0-9]*/cache/index3/id")
    lists = read(machine, f"{CPU}/cpu[0-9]*/cache/index3/shared_cpu_list")
    found = {int(l3_id): cpulist(lists[path.replace("/id", "/shared_cpu_list")]) for path, l3_id in ids.items()}
    per_domain = shape.cores_per_l3
    assert found == {
        l3_id: set(range(index * per_domain, (index + 1) * per_domain)) for index, l3_id in enumerate(shape.l3_ids)
    }


def check_nodes(machine: Machine) -> None:
    shape = SHAPES[machine.shape]
    per_node = shape.cpus // shape.nodes
    found = read(machine, "/sys/devices/system/node/node[0-9]*/cpulist")
    assert {int(re.findall(r"node(\d+)/", path)[0]): cpulist(text) for path, text in found.items()} == {
        node: set(range(node * per_node, (node + 1) * per_node)) for node in range(shape.nodes)
    }


def check_schemata(machine: Machine) -> None:
    shape = SHAPES[machine.shape]
    with resctrl(machine):
        lines = machine.run(f"cat {RESCTRL}/schemata").stdout.replace(" ", "").split()
    resources = {"L3": "ffff", "MB": str(1 << shape.mba_bits)}
    if shape.smba and machine.kernel != "6.1":  # Linux learned of slow memory in 6.3
        resources["SMBA"] = str(1 << shape.mba_bits)
    assert dict(line.split(":") for line in lines) == {
        resource: ";".join(f"{l3_id}={value}" for l3_id in shape.l3_ids) for resource, value in resources.items()
    }


def test_topology(small: Machine) -> None:
    check_l3_domains(small)
    check_nodes(small)


def test_topology_of_a_big_machine(big: Machine) -> None:
    check_l3_domains(big)
    check_nodes(big)
    sockets = set(read(big, f"{CPU}/cpu[0-9]*/topology/physical_package_id").values())
    assert len(sockets) == SHAPES[big.shape].sockets


def test_each_node_has_huge_pages_of_its_own(small: Machine) -> None:
    pool = "/sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages"
    small.run(f"echo 16 > {pool}")
    pools = read(small, "/sys/devices/system/node/node[0-9]*/hugepages/hugepages-2048kB/nr_hugepages")
    small.run(f"echo 0 > {pool}")
    assert list(pools.values()) == ["0", "0", "16", "0"]


# resctrl


def test_schemata(small: Machine) -> None:
    check_schemata(small)


def test_schemata_of_a_big_machine(big: Machine) -> None:
    check_schemata(big)


def test_code_and_data_can_be_told_apart(small: Machine) -> None:
    with resctrl(small, "-o cdp"):
        assert {"L3CODE", "L3DATA"} <= set(small.run(f"ls {RESCTRL}/info").stdout.split())


def test_groups_take_masks_as_on_amd(small: Machine) -> None:
    with resctrl(small):
        small.run(f"mkdir {RESCTRL}/draft && echo 'L3:1=ff0f' > {RESCTRL}/draft/schemata")
        assert "1=ff0f" in small.run(f"cat {RESCTRL}/draft/schemata").stdout
        refused = small.run(f"echo 'L3:1=1ffff' > {RESCTRL}/draft/schemata", check=False)
        assert "Invalid argument" in refused.stderr
        small.run(f"rmdir {RESCTRL}/draft")


def test_traffic_and_occupancy_are_counted(small: Machine) -> None:
    with resctrl(small):
        counters = small.run(f"ls {RESCTRL}/mon_data/mon_L3_03").stdout.split()
    assert counters == ["llc_occupancy", "mbm_local_bytes", "mbm_total_bytes"]


# cpufreq


def test_acpi_cpufreq_drives_three_pstates(small: Machine) -> None:
    files = read(small, f"{CPU}/cpufreq/policy3/{{scaling_driver,scaling_available_*,cpuinfo_max_freq}}")
    values = {path.rsplit("/", 1)[1]: value.split() for path, value in files.items()}
    assert values["scaling_driver"] == ["acpi-cpufreq"]
    assert values["scaling_available_frequencies"] == ["2250000", "1900000", "1500000"]
    assert set(values["scaling_available_governors"]) == {
        "conservative",
        "ondemand",
        "performance",
        "powersave",
        "schedutil",
        "userspace",
    }
    assert values["cpuinfo_max_freq"] == ["2250000"]


def test_a_chosen_frequency_is_what_the_hardware_reports(small: Machine) -> None:
    policy = f"{CPU}/cpufreq/policy3"
    small.run(f"echo userspace > {policy}/scaling_governor")
    for mhz in (1900, 2250, 1500):
        small.run(f"echo {mhz}000 > {policy}/scaling_setspeed")
        assert small.run(f"cat {policy}/cpuinfo_cur_freq").stdout == f"{mhz}000\n"
    small.run(f"echo schedutil > {policy}/scaling_governor")


def test_boost_is_switched_in_the_register_of_each_cpu(small: Machine) -> None:
    """The file reads back the state of the whole machine on these kernels; only the register tells the CPU's own."""
    assert small.run(f"cat {CPU}/cpufreq/boost").stdout == "1\n"
    small.run(f"echo 0 > {CPU}/cpufreq/policy2/cpb")
    disabled = [bool(value & 1 << 25) for value in hwcr(small)]
    small.run(f"echo 1 > {CPU}/cpufreq/policy2/cpb")
    assert disabled == [cpu == 2 for cpu in range(16)]


def test_boost_is_switched_for_all(small: Machine) -> None:
    small.run(f"echo 0 > {CPU}/cpufreq/boost")
    disabled = {bool(value & 1 << 25) for value in hwcr(small)}
    small.run(f"echo 1 > {CPU}/cpufreq/boost")
    assert disabled == {True}
    assert not any(value & 1 << 25 for value in hwcr(small))


def hwcr(machine: Machine) -> list[int]:
    """The hardware configuration register of every CPU."""
    return msrs(machine, {}, reads=[0xC0010015])[0xC0010015]


# Model-specific registers


def test_registers_keep_a_value_per_cpu(small: Machine) -> None:
    found = msrs(small, {0xC0000108: 0x20, 0xC0011022: 0x1000})
    assert found == {
        0xC0000108: [0x20 + cpu for cpu in range(16)],
        0xC0011022: [0x1000 + cpu for cpu in range(16)],
    }


def test_a_register_the_lab_does_not_know_drops_writes_in_silence(small: Machine) -> None:
    assert msrs(small, {0xC0011029: 2}) == {0xC0011029: [0] * 16}


def test_registers_of_a_big_machine_keep_a_value_per_cpu(big: Machine) -> None:
    cpus = SHAPES[big.shape].cpus
    assert msrs(big, {0xC0000108: 1}) == {0xC0000108: [1 + cpu for cpu in range(cpus)]}


def test_cpuid_says_that_prefetch_control_exists(small: Machine) -> None:
    small.run("modprobe cpuid")
    script = "import os; print(os.pread(os.open('/dev/cpu/5/cpuid', os.O_RDONLY), 16, 0x80000021).hex())"
    registers = struct.unpack("<4I", bytes.fromhex(small.run(f'python3 -c "{script}"').stdout))
    small.run("modprobe -r cpuid")
    assert registers[0] & 1 << 13


# Interrupts


def test_there_are_movable_and_managed_interrupts(small: Machine) -> None:
    moved: set[str] = set()
    refused: set[str] = set()
    for line in small.run("grep virtio /proc/interrupts").stdout.splitlines():
        number, name = line.split(":")[0].strip(), line.split()[-1]
        done = small.run(f"echo 7 > /proc/irq/{number}/smp_affinity_list", check=False)
        (refused if done.returncode else moved).add(name)
    assert {"virtio1-input.0", "virtio1-output.0"} <= moved
    assert refused == {f"virtio0-req.{queue}" for queue in range(4)}


# Power


def test_a_reboot_comes_back_as_the_same_epyc(own_small: Machine) -> None:
    before = own_small.run("cat /proc/sys/kernel/random/boot_id").stdout
    own_small.run("sed -i 's/quiet/quiet hugepages=8/' /etc/default/grub && update-grub")
    msrs(own_small, {0xC0000108: 0x20})
    own_small.reboot()
    assert own_small.run("cat /proc/sys/kernel/random/boot_id").stdout != before
    assert "Loading Linux" in own_small.console.read_text(errors="replace")
    assert "hugepages=8" in own_small.run("cat /proc/cmdline").stdout.split()
    assert own_small.run("hostname").stdout == own_small.name + "\n"
    check_l3_domains(own_small)
    check_schemata(own_small)
    assert hwcr(own_small) == [1 << 24] * 16
    assert msrs(own_small, {0xC0000108: 0x20}) == {0xC0000108: [0x20 + cpu for cpu in range(16)]}


def test_a_power_cut_keeps_what_was_synced(own_small: Machine) -> None:
    own_small.run("echo kept > /root/kept && sync")
    own_small.kill()
    assert own_small.run("cat /root/kept").stdout == "kept\n"
    check_schemata(own_small)


def test_a_poweroff_in_the_guest_ends_the_machine() -> None:
    with machine_of("small", "off") as machine:
        pids = processes(machine)
        with contextlib.suppress(GuestError):
            machine.run("systemctl poweroff")
        wait_until_gone(pids)
        assert not machine.run_dir.path.exists()


# Processes and files on the host


def test_down_leaves_nothing() -> None:
    with machine_of("small", "brief") as machine:
        pids = processes(machine)
    wait_until_gone(pids)
    assert not machine.run_dir.path.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", machine.port), timeout=5)


def test_a_killed_supervisor_leaves_no_qemu() -> None:
    name = f"test-orphan-{os.getpid()}"
    machine = up("small", name=name)
    pids = processes(machine)
    assert len(pids) == 2
    os.kill(pids[0], 9)
    wait_until_gone(pids)
    assert not RunDir.of(name).alive()
    with pytest.raises(VepycError, match="is not running"):
        Machine.find(name)
    # The directory it left does not stop the next one.
    up("small", name=name).down()
    assert not machine.run_dir.path.exists()


def test_up_again_gives_the_same_machine(small: Machine) -> None:
    again = up("small", name=small.name, kernel=small.kernel)
    assert (again.port, again.run_dir.path) == (small.port, small.run_dir.path)
    with pytest.raises(VepycError, match="is already up as small"):
        up("epyc9354", name=small.name)


def test_two_machines_of_one_snapshot_are_apart(small: Machine, own_small: Machine) -> None:
    small.run("echo here > /root/only-here")
    assert own_small.run("test -e /root/only-here", check=False).returncode == 1
    assert msrs(small, {0xC0000108: 0x100})[0xC0000108][5] == 0x105
    assert msrs(own_small, {}, reads=[0xC0000108])[0xC0000108][5] == 0
    names = {machine.run("cat /etc/machine-id").stdout for machine in (small, own_small)}
    assert len(names) == 2


def test_a_machine_out_of_a_snapshot_cannot_make_one(own_small: Machine) -> None:
    with pytest.raises(VepycError, match="came out of a snapshot itself; start it with --cold"):
        take_snapshot(own_small, SHAPES["small"], RELEASES["6.12"], replace=True)


def test_a_failed_command_says_what_it_printed(small: Machine) -> None:
    with pytest.raises(GuestError, match=r"exit code 3: echo out; echo err >&2; exit 3\nout\nerr"):
        small.run("echo out; echo err >&2; exit 3")
    assert small.run("cat", input="given").stdout == "given"
    assert isinstance(small.run("true"), subprocess.CompletedProcess)


def test_bytecode_of_archives_is_kept_and_belongs_to_its_source(own_small: Machine) -> None:
    program = """
import sys, zipfile
with zipfile.ZipFile("/run/one.zip", "w") as archive:
    archive.writestr("module_of_this_test.py", f"NUMBER = {sys.argv[1]}")
sys.path.insert(0, "/run/one.zip")
import module_of_this_test
print(module_of_this_test.NUMBER)
"""

    def kept() -> set[str]:
        return set(own_small.run("ls /dev/shm/vepyc-bytecode", check=False).stdout.split())

    def number(wanted: int) -> int:
        return int(own_small.run(f"python3 - {wanted}", input=program).stdout)

    before = kept()
    assert (number(1), number(2), number(1)) == (1, 2, 1)
    first, second = (f"/dev/shm/vepyc-bytecode/{name}" for name in sorted(kept() - before))
    # It is what is kept that runs, and what was cut short is compiled anew.
    own_small.run(f"mv {first} /run/first && cp {second} {first} && cp /run/first {second}")
    assert (number(1), number(2)) == (2, 1)
    own_small.run(f"truncate -s 7 {first} {second}")
    assert (number(1), number(2)) == (1, 2)
    own_small.slow_modules()
    assert number(3) == 3
    assert len(kept() - before) == 2
