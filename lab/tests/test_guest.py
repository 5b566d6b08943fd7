# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernels of real guests say. The first run saves snapshots of the machines it needs, later ones use them.

Whatever asks the machines ``small`` and ``big`` is in this file, because a file has one worker: each is started once.
"""

from __future__ import annotations

import base64
import io
import re
import struct
import subprocess
import time
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vepyc import SHAPES, GuestError, Machine, VepycError, up
from vepyc.guest import FORK_SERVER, RELEASES
from vepyc.paths import PACKAGE

from .conftest import CPU, RESCTRL, check_l3_domains, check_schemata, cpulist, hwcr, machine_of, msrs, read, resctrl


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


def check_nodes(machine: Machine) -> None:
    shape = SHAPES[machine.shape]
    per_node = shape.cpus // shape.nodes
    found = read(machine, "/sys/devices/system/node/node[0-9]*/cpulist")
    assert {int(re.findall(r"node(\d+)/", path)[0]): cpulist(text) for path, text in found.items()} == {
        node: set(range(node * per_node, (node + 1) * per_node)) for node in range(shape.nodes)
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


# Commands


def test_a_failed_command_says_what_it_printed(small: Machine) -> None:
    with pytest.raises(GuestError, match=r"exit code 3: echo out; echo err >&2; exit 3\nout\nerr"):
        small.run("echo out; echo err >&2; exit 3")
    assert small.run("cat", input="given").stdout == "given"
    assert isinstance(small.run("true"), subprocess.CompletedProcess)


BYTECODE = "/root/.vepyc-bytecode"
# Imports a module out of an archive, as every module of Ansible is.
FROM_ARCHIVE = """
import sys, zipfile
with zipfile.ZipFile("/run/one.zip", "w") as archive:
    archive.writestr("module_of_this_test.py", f"NUMBER = {sys.argv[1]}  # in run {sys.argv[2]}")
sys.path.insert(0, "/run/one.zip")
import module_of_this_test
print(module_of_this_test.NUMBER)
"""


# Cuts the file of what other machines compiled within the code of one source.
CUT = """
import marshal, sys
with open("/root/.vepyc-given", "r+b") as file:
    start, length = marshal.loads(file.read(int.from_bytes(file.read(8), "big")))[sys.argv[1]]
    file.truncate(start + length - 1)
"""
# In the way of Ansible: a program that brings an archive, and says which of its modules it finds, and imported itself.
BRINGS = """
import base64, importlib, os, sys, tempfile
def main(zip_data):
    with tempfile.NamedTemporaryFile(suffix=".zip") as archive:
        archive.write(base64.b64decode(zip_data))
        archive.flush()
        sys.path.insert(0, archive.name)
        for name in NAMES:
            try:
                module = importlib.import_module(name)
                print(module.TEXT, "itself" if module.IMPORTED_BY == os.getpid() else "before", end=";")
            except ImportError:
                print("none", end=";")
main(
zip_data='ARCHIVE',
)
"""
BASIC, MORE = "ansible.module_utils.basic", "ansible.module_utils.more"
OURS, OTHER = (f"ansible_collections.a.b.plugins.module_utils.{name}" for name in ("ours", "other"))
SSH = PACKAGE / "ssh.py"
# What Ansible has its ssh run, with a module on the standard input.
NEW_PYTHON = "/bin/sh -c /usr/bin/python3"
# Says which program the parent of this one is, in the way of a module that failed.
PARENT = """
import os, sys
os.write(1, bytes([255]))  # no text in UTF-8
print(open(f"/proc/{os.getppid()}/cmdline").read().replace("\\0", " "), end="")
print(__name__, sys.argv, os.environ["HOME"], os.getcwd(), file=sys.stderr)
sys.exit(3)
"""


def as_ansible(machine: Machine, program: str) -> subprocess.CompletedProcess[str]:
    """Give a program to a new Python of the machine, in the way of Ansible's connection by ssh."""
    command = [str(SSH), "-o", f"Port={machine.port}", *machine.ssh_command()[1:], NEW_PYTHON]
    where, text = machine.run_dir.path, {"encoding": "utf-8", "errors": "surrogateescape"}
    return subprocess.run(command, input=program, cwd=where, capture_output=True, timeout=60, check=False, **text)


def kept(machine: Machine) -> set[str]:
    return set(machine.run(f"ls {BYTECODE}", check=False).stdout.split())


def number(machine: Machine, wanted: int, run: uuid.UUID) -> int:
    """A number out of an archive; the run makes sources that no guest before had."""
    return int(machine.run(f"python3 - {wanted} {run}", input=FROM_ARCHIVE).stdout)


def stacks(machine: Machine) -> set[str]:
    """Where the stacks of three programs are."""
    return set(machine.run("for i in 1 2 3; do grep -F '[stack]' /proc/self/maps; done").stdout.splitlines())


def test_bytecode_of_archives_is_kept_and_belongs_to_its_source(own_small: Machine) -> None:
    run, before = uuid.uuid4(), kept(own_small)
    assert [number(own_small, wanted, run) for wanted in (1, 2, 1)] == [1, 2, 1]
    first, second = (f"{BYTECODE}/{name}" for name in sorted(kept(own_small) - before))
    # It is what is kept that runs, and what was cut short is compiled anew.
    own_small.run(f"mv {first} /run/first && cp {second} {first} && cp /run/first {second}")
    assert [number(own_small, wanted, run) for wanted in (1, 2)] == [2, 1]
    own_small.run(f"truncate -s 7 {first} {second}")
    assert [number(own_small, wanted, run) for wanted in (1, 2)] == [1, 2]


def test_bytecode_of_other_machines_is_used_unless_it_was_cut_short(own_small: Machine) -> None:
    run, before = uuid.uuid4(), kept(own_small)
    assert number(own_small, 5, run) == 5
    (name,) = kept(own_small) - before
    store = own_small._bytecode()
    store.take()
    store.give()
    assert number(own_small, 5, run) == 5
    assert kept(own_small) == set(), "nothing was compiled again"
    own_small.run(f"python3 - {name}", input=CUT)
    assert number(own_small, 5, run) == 5
    assert kept(own_small) >= {name}


def test_addresses_are_equal(own_small: Machine) -> None:
    assert len(stacks(own_small)) == 1


def test_modules_of_ansible_run_in_a_python_that_is_there(own_small: Machine) -> None:
    done = as_ansible(own_small, PARENT)
    assert (done.returncode, done.stdout) == (3, f"\udcff/usr/bin/python3 /{FORK_SERVER} --socket ")
    assert done.stderr == "__main__ [''] /root /root\n"
    # It is neither the same process nor one that an earlier module has changed.
    assert as_ansible(own_small, "import os, sys; sys.changed = print(os.getpid())").stdout.strip().isdigit()
    assert as_ansible(own_small, "import sys; print(hasattr(sys, 'changed'))").stdout == "False\n"
    for program, error in (("1 / 0", "ZeroDivisionError"), ("open('/none')", "FileNotFoundError")):
        failed = as_ansible(own_small, program)
        assert failed.returncode == 1 and failed.stderr.splitlines()[-1].startswith(error)
    cut = as_ansible(own_small, "import os; os.kill(os.getppid(), 9)")
    assert (cut.returncode, cut.stderr) == (255, "The connection to the guest ended before the module did.\n")
    # What is not for a new Python is ssh's, and so are its errors.
    command = [str(SSH), *own_small.ssh_command()[1:], "exit 7"]
    assert subprocess.run(command, cwd=own_small.run_dir.path, check=False).returncode == 7


def brings(machine: Machine, **texts: str) -> str:
    """Run a program whose archive has these modules, and return what it says of all that there may be."""
    names = {"basic": BASIC, "more": MORE, "ours": OURS, "other": OTHER}
    files = {f"{names[name].replace('.', '/')}.py": text for name, text in texts.items()}
    packages = {f"{parent}/__init__.py" for file in files for parent in Path(file).parents if parent.name}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for package in packages:
            archive.writestr(package, "")
        for file, text in files.items():
            archive.writestr(file, f"import os\nTEXT, IMPORTED_BY = {text!r}, os.getpid()\n")
    program = BRINGS.replace("ARCHIVE", base64.b64encode(packed.getvalue()).decode())
    return as_ansible(machine, program.replace("NAMES", repr([BASIC, MORE, OURS, OTHER]))).stdout


def test_what_programs_bring_is_imported_once(own_small: Machine) -> None:
    """Of Ansible what every module needs, of a collection all that modules share; each program has what it brings."""
    own_small.run("systemctl restart vepyc-python.service")
    for texts, said in (
        ({"basic": "1", "more": "a", "ours": "x"}, "1 before;a itself;x before;none;"),
        ({"basic": "1", "more": "b", "other": "y"}, "1 before;b itself;none;y before;"),
        ({"basic": "1", "ours": "x", "other": "y"}, "1 before;none;x before;y before;"),
        # What differs is not used, nor is anything that may have been imported together with it.
        ({"basic": "1", "ours": "z", "other": "y"}, "1 itself;none;z itself;y itself;"),
        ({"basic": "2", "ours": "x"}, "2 itself;none;x itself;none;"),
    ):
        assert brings(own_small, **texts) == said
    assert as_ansible(own_small, "import sys; print('ansible' in sys.modules)").stdout == "False\n"


def test_where_something_is_measured_all_is_as_on_any_host(own_small: Machine) -> None:
    before = kept(own_small)
    own_small.as_any_host()
    parent = as_ansible(own_small, PARENT)
    assert (parent.returncode, parent.stdout) == (3, f"\udcff{NEW_PYTHON} ")
    assert number(own_small, 3, uuid.uuid4()) == 3
    assert kept(own_small) == before
    assert len(stacks(own_small)) == 3


# The machine that all of these share, from outside


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
