#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures how long the modules take on the virtual 9754, as ratios of wall times of alternating runs on one machine.

Only ratios are measured, because seconds of an emulated CPU mean nothing:
- a module to the shell commands of a well-known recipe for EPYC for the same setting; `ansible` starts both;
- each module without changes to `ansible -m ping`;
- site.yml without changes to that ping, on the small machine and while a reboot is pending;
- importing all knobs and reading the topology to an empty Python program;
- the CPU time of the regular drift check of a host to a loop. The loop runs in the guest and on this machine, so that
  the CPU time of the check on this machine can be computed.

Run as `make bench`. Exit code 1 when a figure misses its bar.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tools.bench.measurement import run_measurement
from vepyc import Machine, VepycError, start_machine
from vepyc.figures import Bar, Figures
from vepyc.images import debian_packages
from vepyc.playbook_runs import run_command, write_inventory

ROOT = Path(__file__).resolve().parents[2]
PING = "ansible.builtin.ping"
MODULES = "sovereign.epyc."
NO_CHANGE_ROUNDS = 7
SITE_ROUNDS = 5
IMPORT_ROUNDS = 30


@dataclass(frozen=True)
class Race:
    """A setting that a module and shell commands of the recipe apply.

    ``prepare`` sets another value before each run, and ``proof`` fails unless the setting is applied; neither is timed.
    """

    module: str
    options: dict[str, Any]
    recipe: str
    prepare: str
    proof: str
    bar: Bar | None = None

    def options_with_stored_request(self) -> dict[str, Any]:
        """Return options with which the module also stores the request, which the drift check then judges."""
        return {**self.options, "persistent": True}


TEN_TIMES = Bar(">=", 10)
RACES = (
    Race(
        "msr_bits",
        {
            "allow_undocumented": True,
            "settings": [
                {"cpus": "16-127", "register": "0xc0011022", "bits": "13", "value": "0"},
                {"cpus": "16-127", "register": "0xc0011022", "bits": "15", "value": "0"},
                {"cpus": "0-15", "register": "0xc0011022", "bits": "15", "value": "1"},
            ],
        },
        r"""
        for cpu in $(seq 16 127); do
          # Read current value
          sudo rdmsr -p $cpu 0xC0011022
          # Clear bits 13 and 15 to ensure prefetchers are ON
          val=$(sudo rdmsr -p $cpu 0xC0011022)
          newval=$(printf "0x%x" $(( 0x$val & ~0xA000 )) )
          sudo wrmsr -p $cpu 0xC0011022 $newval
        done
        for cpu in $(seq 0 15); do
          val=$(sudo rdmsr -p $cpu 0xC0011022)
          newval=$(printf "0x%x" $(( 0x$val | 0x8000 )) )
          sudo wrmsr -p $cpu 0xC0011022 $newval
        done
        """,
        prepare="modprobe -a msr cpuid; wrmsr -a 0xc0011022 0x2000",
        proof="rdmsr -a 0xc0011022 | sed 's/.*: //' | uniq -c | tr -s ' \\n' ' ' | grep -x ' 16 a000 112 0 '",
        bar=TEN_TIMES,
    ),
    Race(
        # The recipe requests 3.1 GHz on the first CCD, and the kernel silently sets the base frequency instead.
        "cpufreq_per_ccd",
        {"settings": [{"cpus": "all", "governor": "userspace", "speed": "base"}]},
        r"""
        for cpu in $(seq 0 127); do
          echo userspace | sudo tee /sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor
        done
        for cpu in $(seq 0 15); do
          echo 3100000 | sudo tee /sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_setspeed
        done
        for cpu in $(seq 16 127); do
          echo 2250000 | sudo tee /sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_setspeed
        done
        """,
        prepare="for file in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do echo powersave >$file; done",
        proof="cat /sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq | uniq -c | grep -x ' *128 2250000'",
        bar=TEN_TIMES,
    ),
    Race(
        "irq_affinity",
        {"cpus": "0"},
        r"""
        for irq in $(ls /proc/irq/ | grep -E '^[0-9]+$'); do
          echo 1 | sudo tee /proc/irq/$irq/smp_affinity 2>/dev/null
        done
        """,
        prepare="for file in /proc/irq/*/smp_affinity_list; do echo 0-127 >$file; done 2>/dev/null; true",
        proof="cat $(grep -l virtio1- /sys/kernel/irq/*/actions | sed 's,/sys/kernel,/proc,; s,actions,"
        "smp_affinity_list,') | uniq | grep -x 0",
    ),
    Race(
        "resctrl_schemata",
        {
            "mount": True,
            "groups": [
                {"name": "draft", "l3": {"0": "fff0"}},
                {"name": "verify", "l3": {"1-7": "fff0"}},
            ],
        },
        r"""
        sudo mount -t resctrl resctrl /sys/fs/resctrl
        sudo mkdir /sys/fs/resctrl/draft
        echo "L3:0=fff0" | sudo tee /sys/fs/resctrl/draft/schemata
        sudo mkdir /sys/fs/resctrl/verify
        echo "L3:1=fff0;2=fff0;3=fff0;4=fff0;5=fff0;6=fff0;7=fff0" \
          | sudo tee /sys/fs/resctrl/verify/schemata
        """,
        prepare="umount /sys/fs/resctrl 2>/dev/null; true",
        proof="cd /sys/fs/resctrl; grep 'L3:0=fff0;1=ffff' draft/schemata && grep ';7=fff0;8=ffff' verify/schemata",
    ),
    Race(
        # All nodes together have as many pages as the pool of the recipe.
        "hugepages",
        {"pools": [{"pages": 16}]},
        "echo 64 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        prepare="echo 0 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        proof="grep -x 64 /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    ),
    Race(
        "sysfs_settings",
        {"numa_balancing": False},
        "echo 0 | sudo tee /proc/sys/kernel/numa_balancing",
        prepare="echo 1 >/proc/sys/kernel/numa_balancing",
        proof="grep -x 0 /proc/sys/kernel/numa_balancing",
    ),
)
#: Modules for which the recipe has no commands, with their options.
MODULES_WITHOUT_RECIPE: dict[str, dict[str, Any]] = {
    "kernel_cmdline": {"parameters": ["nohz_full=1-127"]},
    "epyc_plan": {},
    "epyc_drift_info": {},
    "epyc_host_tool": {},
}

#: A program for the guest: the ratio of the median times of two Python programs that start in turns.
IMPORT = f"""
import os, statistics, sys, time
ENGINE = '''
import sys
sys.path.insert(0, "/usr/lib/sovereign-epyc")
from sovereign_epyc._knobs.catalogue import KNOBS
for name in KNOBS:
    KNOBS[name].import_knob_file()
from sovereign_epyc._host.host import Host
from sovereign_epyc._io.kernelfs import KernelFS
assert len(Host(KernelFS(read_only=True)).topology.online) == 128
'''
times = {{"pass": [], ENGINE: []}}
for turn in range({IMPORT_ROUNDS}):
    for code in times:
        start = time.perf_counter()
        pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", code], os.environ)
        assert os.waitpid(pid, 0)[1] == 0
        times[code].append(time.perf_counter() - start)
print(statistics.median(times[ENGINE]) / statistics.median(times["pass"]))
"""


#: A program for the guest: the median CPU time of a drift check of all stored requests, with its metrics file.
CHECK = """
import resource, statistics, subprocess

def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

times = []
for turn in range(5):
    before = spent()
    done = subprocess.run(["sovereign-epyc", "check", "--textfile", "/run/bench.prom"], stdout=subprocess.DEVNULL)
    assert done.returncode in (0, 2), done.returncode
    times.append(spent() - before)
print(statistics.median(times))
"""
#: A program for the guest and this machine: the least CPU time of a loop.
LOOP = """
import time

def spent():
    begun = time.process_time()
    sum(number * number % 7 for number in range(500_000))
    return time.process_time() - begun

print(min(spent() for turn in range(7)))
"""
#: Seconds between two checks.
INTERVAL = 900


class Ansible:
    """The command `ansible` on a machine, as a user would run it from the root of the clone."""

    def __init__(self, machine: Machine) -> None:
        variables = f"@{ROOT}/inventories/lab/group_vars/all.yml"
        self.command = ["ansible", "all", "-i", f"{machine.name},", "-e", variables]
        self.command += ["-e", f"ansible_port={machine.port}"]

    def measure_seconds(self, module: str, options: dict[str, Any], changed: bool) -> float:
        """Return the wall time of a module; VepycError where its result is not ``changed`` as expected."""
        arguments = json.dumps(options) if options else ""
        start = time.monotonic()
        done = run_command(*self.command, "-m", module, "-a", arguments)
        seconds = time.monotonic() - start
        if done.returncode or f"| {'CHANGED' if changed else 'SUCCESS'}" not in done.stdout:
            expected = "to change something" if changed else "to change nothing"
            raise VepycError(f"{module} was expected {expected}, but said:\n{done.stdout}")
        return seconds


def measure_module_and_recipe_seconds(ansible: Ansible, machine: Machine, entry: Race) -> tuple[float, float]:
    """Return the seconds that the module and the recipe take to apply a setting."""

    def measure_seconds_to_apply(module: str, options: dict[str, Any]) -> float:
        machine.run(entry.prepare)
        seconds = ansible.measure_seconds(module, options, changed=True)
        machine.run(entry.proof)
        return seconds

    recipe = measure_seconds_to_apply("ansible.builtin.shell", {"cmd": entry.recipe})
    return measure_seconds_to_apply(MODULES + entry.module, entry.options_with_stored_request()), recipe


def measure_unchanged_modules_against_ping(ansible: Ansible, settings: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return the time of each module without changes as a multiple of a ping, from medians of alternating runs."""
    pings: list[float] = []
    seconds: dict[str, list[float]] = {module: [] for module in settings}
    for dummy in range(NO_CHANGE_ROUNDS):
        pings.append(ansible.measure_seconds(PING, {}, changed=False))
        for module, options in settings.items():
            seconds[module].append(ansible.measure_seconds(MODULES + module, options, changed=False))
    return {module: median(values) / median(pings) for module, values in seconds.items()}


class Site:
    """The playbook site.yml on a machine."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        hosts = {machine.name: {"ansible_port": machine.port}}
        self.inventory = write_inventory(folder, hosts, **{machine.shape: hosts})
        (folder / "group_vars").symlink_to(ROOT / "inventories/lab/group_vars")

    def measure_seconds(self, *options: str, pattern: str) -> float:
        """Return the wall time of a run; VepycError where its output does not match the pattern."""
        start = time.monotonic()
        done = run_command("ansible-playbook", "-i", str(self.inventory), "playbooks/site.yml", *options)
        seconds = time.monotonic() - start
        if done.returncode or not re.search(pattern, done.stdout):
            raise VepycError(f"site.yml was expected to say '{pattern}', but said:\n{done.stdout}")
        return seconds


def measure_unchanged_site(machine: Machine, figures: Figures) -> None:
    """Measure and print site.yml without changes while a reboot is pending; the machine is not rebooted."""
    ansible = Ansible(machine)
    ansible.measure_seconds(PING, {}, changed=False)  # opens the connection
    options_by_name: dict[str, tuple[str, ...]] = {
        "site_check_while_a_reboot_waits": ("--check",),
        "site_run_without_change": (),
    }
    seconds: dict[str, list[float]] = {name: [] for name in options_by_name}
    pings: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        site = Site(machine, Path(folder))
        first = site.measure_seconds(pattern=r"changed=[1-9]")
        for dummy in range(SITE_ROUNDS):
            pings.append(ansible.measure_seconds(PING, {}, changed=False))
            for name, options in options_by_name.items():
                seconds[name].append(site.measure_seconds(*options, pattern=r"(?s)\bto\s+be\s+rebooted\b.* changed=0 "))
    figures.print_figure("site_first_run_against_ping", first / median(pings), "x")
    for name, values in seconds.items():
        figures.print_figure(f"{name}_against_ping", median(values) / median(pings), "x", Bar("<=", 5))


def measure_modules(machine: Machine, figures: Figures) -> None:
    """Measure every module and print its figures."""
    debian_packages.install_packages(machine, "msr-tools")
    ansible = Ansible(machine)
    for module, options in MODULES_WITHOUT_RECIPE.items():
        if module in ("kernel_cmdline", "epyc_host_tool"):
            ansible.measure_seconds(MODULES + module, options, changed=True)
    figures.print_figure(
        "engine_import_and_topology", float(machine.run(f"python3 - <<'END'{IMPORT}END").stdout), "x", Bar("<=", 3)
    )
    for entry in RACES:
        module_seconds, recipe = measure_module_and_recipe_seconds(ansible, machine, entry)
        figures.print_figure(f"{entry.module}_faster_than_recipe", recipe / module_seconds, "x", entry.bar)
    settings = {**{entry.module: entry.options_with_stored_request() for entry in RACES}, **MODULES_WITHOUT_RECIPE}
    for module, ratio in measure_unchanged_modules_against_ping(ansible, settings).items():
        # The drift check has no bar, because it reads the settings of all other modules.
        bar = None if module == "epyc_drift_info" else Bar("<=", 1.5)
        figures.print_figure(f"{module}_no_change_against_ping", ratio, "x", bar)

    measure_cpu_share_of_drift_check(machine, figures)


def measure_cpu_share_of_drift_check(machine: Machine, figures: Figures) -> None:
    """Measure and print the share of a CPU that the regular drift check of a host takes."""
    loop = run_command("/usr/bin/python3", "-IS", "-c", LOOP)
    if loop.returncode:
        raise VepycError(f"the loop failed here: {loop.stdout}")
    slowdown = float(machine.run("python3 -IS -", input=LOOP).stdout) / float(loop.stdout)
    seconds = float(machine.run("python3 -IS -", input=CHECK).stdout) / slowdown
    figures.print_figure("check_on_a_processor_as_fast_as_this", seconds, "s")
    figures.print_figure("check_of_one_processor", 100 * seconds / INTERVAL, "%", Bar("<=", 0.2))


def measure_all(figures: Figures) -> None:
    """Measure on both machines, and print every figure."""
    for shape, measure in (("epyc9754", measure_modules), ("small", measure_unchanged_site)):
        machine = start_machine(shape, name="bench")
        try:
            machine.remove_speedups()
            measure(machine, figures)
        finally:
            machine.discard()


if __name__ == "__main__":
    sys.exit(run_measurement("bench", measure_all))
