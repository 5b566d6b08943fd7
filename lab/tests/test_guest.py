# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernels of real guests say. The first run saves snapshots of the machines it needs, later ones use them.

Whatever asks the machines ``small`` and ``big`` is in this file, because a file has one worker: each is started once.
"""

from __future__ import annotations

import re
import struct
import subprocess
import time
from collections.abc import Iterator

import pytest

from vepyc import SHAPES, GuestError, Machine, VepycError, start_machine
from vepyc.images.guest_system import RELEASES

from .conftest import (
    CPU,
    RESCTRL,
    check_l3_domains,
    check_schemata,
    machine_of,
    mounted_resctrl,
    parse_cpulist,
    read_files,
    read_hwcr,
    write_and_read_msrs,
)

pytestmark = pytest.mark.slow


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


# A machine as it is handed over


def test_the_kernel_is_the_one_asked_for(small: Machine) -> None:
    release = small.run("uname -r").stdout
    if small.kernel in ("backports", "forky"):
        assert tuple(map(int, release.split(".")[:2])) > (6, 12)
    else:
        assert release.startswith(small.kernel + ".")


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


def check_nodes(machine: Machine) -> None:
    shape = SHAPES[machine.shape]
    per_node = shape.cpus // shape.nodes
    found = read_files(machine, "/sys/devices/system/node/node[0-9]*/cpulist")
    assert {int(re.findall(r"node(\d+)/", path)[0]): parse_cpulist(text) for path, text in found.items()} == {
        node: set(range(node * per_node, (node + 1) * per_node)) for node in range(shape.nodes)
    }


def test_topology(small: Machine) -> None:
    check_l3_domains(small)
    check_nodes(small)


def test_topology_of_a_big_machine(big: Machine) -> None:
    check_l3_domains(big)
    check_nodes(big)
    sockets = set(read_files(big, f"{CPU}/cpu[0-9]*/topology/physical_package_id").values())
    assert len(sockets) == SHAPES[big.shape].sockets


def test_each_node_has_huge_pages_of_its_own(small: Machine) -> None:
    pool = "/sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages"
    small.run(f"echo 16 > {pool}")
    pools = read_files(small, "/sys/devices/system/node/node[0-9]*/hugepages/hugepages-2048kB/nr_hugepages")
    small.run(f"echo 0 > {pool}")
    assert list(pools.values()) == ["0", "0", "16", "0"]


# resctrl


def test_schemata(small: Machine) -> None:
    check_schemata(small)


def test_schemata_of_a_big_machine(big: Machine) -> None:
    check_schemata(big)


def test_code_and_data_can_be_told_apart(small: Machine) -> None:
    with mounted_resctrl(small, "-o cdp"):
        assert {"L3CODE", "L3DATA"} <= set(small.run(f"ls {RESCTRL}/info").stdout.split())


def test_groups_take_masks_as_on_amd(small: Machine) -> None:
    with mounted_resctrl(small):
        small.run(f"mkdir {RESCTRL}/draft && echo 'L3:1=ff0f' > {RESCTRL}/draft/schemata")
        assert "1=ff0f" in small.run(f"cat {RESCTRL}/draft/schemata").stdout
        refused = small.run(f"echo 'L3:1=1ffff' > {RESCTRL}/draft/schemata", check=False)
        assert "Invalid argument" in refused.stderr
        small.run(f"rmdir {RESCTRL}/draft")


def test_traffic_and_occupancy_are_counted(small: Machine) -> None:
    with mounted_resctrl(small):
        counters = small.run(f"ls {RESCTRL}/mon_data/mon_L3_03").stdout.split()
    assert counters == ["llc_occupancy", "mbm_local_bytes", "mbm_total_bytes"]


# cpufreq


def test_acpi_cpufreq_drives_three_pstates(small: Machine) -> None:
    files = read_files(small, f"{CPU}/cpufreq/policy3/{{scaling_driver,scaling_available_*,cpuinfo_max_freq}}")
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


def test_acpi_idle_has_the_states_of_an_epyc(small: Machine) -> None:
    assert set(read_files(small, f"{CPU}/cpuidle/current_driver").values()) == {"acpi_idle"}
    for file, values in (("name", ["POLL", "C1", "C2"]), ("latency", ["0", "1", "800"])):
        found = read_files(small, f"{CPU}/cpu*/cpuidle/state*/{file}")
        assert [found[path] for path in sorted(found)] == values * 16
    counted = read_files(small, f"{CPU}/cpu*/cpuidle/state2/usage")
    assert len(counted) == 16 and all(int(count) > 0 for count in counted.values())


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
    disabled = [bool(value & 1 << 25) for value in read_hwcr(small)]
    small.run(f"echo 1 > {CPU}/cpufreq/policy2/cpb")
    assert disabled == [cpu == 2 for cpu in range(16)]


def test_boost_is_switched_for_all(small: Machine) -> None:
    small.run(f"echo 0 > {CPU}/cpufreq/boost")
    disabled = {bool(value & 1 << 25) for value in read_hwcr(small)}
    small.run(f"echo 1 > {CPU}/cpufreq/boost")
    assert disabled == {True}
    assert not any(value & 1 << 25 for value in read_hwcr(small))


# Model-specific registers


def test_registers_keep_a_value_per_cpu(small: Machine) -> None:
    found = write_and_read_msrs(small, {0xC0000108: 0x20, 0xC0011022: 0x1000})
    assert found == {
        0xC0000108: [0x20 + cpu for cpu in range(16)],
        0xC0011022: [0x1000 + cpu for cpu in range(16)],
    }


def test_a_register_the_lab_does_not_know_drops_writes_in_silence(small: Machine) -> None:
    assert write_and_read_msrs(small, {0xC0011029: 2}) == {0xC0011029: [0] * 16}


def test_registers_of_a_big_machine_keep_a_value_per_cpu(big: Machine) -> None:
    cpus = SHAPES[big.shape].cpus
    assert write_and_read_msrs(big, {0xC0000108: 1}) == {0xC0000108: [1 + cpu for cpu in range(cpus)]}


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


# Commands


def test_a_failed_command_says_what_it_printed(small: Machine) -> None:
    with pytest.raises(GuestError, match=r"exit code 3: echo out; echo err >&2; exit 3\nout\nerr"):
        small.run("echo out; echo err >&2; exit 3")
    assert small.run("cat", input="given").stdout == "given"
    assert isinstance(small.run("true"), subprocess.CompletedProcess)


# The machine that all of these share, from outside


def test_up_again_gives_the_same_machine(small: Machine) -> None:
    again = start_machine("small", name=small.name, kernel=small.kernel)
    assert (again.port, again.run_dir.path) == (small.port, small.run_dir.path)
    with pytest.raises(VepycError, match="is already up as small"):
        start_machine("epyc9354", name=small.name)


def test_two_machines_of_one_snapshot_are_apart(small: Machine, own_small: Machine) -> None:
    small.run("echo here > /root/only-here")
    assert own_small.run("test -e /root/only-here", check=False).returncode == 1
    assert write_and_read_msrs(small, {0xC0000108: 0x100})[0xC0000108][5] == 0x105
    assert write_and_read_msrs(own_small, {}, reads=[0xC0000108])[0xC0000108][5] == 0
    names = {machine.run("cat /etc/machine-id").stdout for machine in (small, own_small)}
    assert len(names) == 2
