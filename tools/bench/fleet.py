#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures what a drift check of a fleet costs, as a ratio to `ansible -m ping` on the same hosts.

The hosts are systemd containers with sshd that show the recorded kernel files of a tuned virtual EPYC 9754. They share
CPUs with the controller, so the ratios are the worst case. Run as `make bench-fleet`. With --recording FOLDER the
recording is taken from that folder, or stored there where the folder does not exist. Exit code 1 when a figure misses
its bar.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import psutil

from tools.bench.measurement import run_measurement
from vepyc import VepycError, start_machine
from vepyc.container import running_container
from vepyc.figures import Bar, Figures
from vepyc.machine.recording import record_guest, show_recording
from vepyc.playbook_runs import clean_environment, write_inventory

ROOT = Path(__file__).resolve().parents[2]
SHAPE = "epyc9754"
SIZES = (1, 10, 50)
ROUNDS = {1: 5, 10: 3, 50: 2}
#: Variables of the hosts: all layers but the boot parameters, which would wait for a reboot, and a setting of
#: prefetchers, which have none by default. No packages, because the containers do not have the packages of the recorded
#: host.
VARIABLES = {
    "epyc_steps": ["prerequisites", "base", "numa", "irq", "cat", "cpufreq", "prefetch"],
    "epyc_prefetch_draft": {"l1_stride": "disabled"},
    "epyc_prerequisites_packages": [],
}
PING = ["ansible", "all", "-m", "ansible.builtin.ping"]
DRIFT = ["ansible-playbook", "playbooks/drift.yml"]
CHECK = ["ansible-playbook", "playbooks/site.yml", "--check"]
SHELL = ["ansible-playbook", "tools/fleet/recipe_checks.yml"]


class Cost:
    """The cost of a command: wall time, CPU time and memory of the controller, with shared pages counted once."""

    def __init__(self, wall: float, processor: float, memory: float) -> None:
        self.wall = wall
        self.processor = processor
        self.memory = memory


def record_kernel_files_of_tuned_host(folder: Path) -> None:
    """Tune a virtual EPYC and record its kernel files into a folder."""
    machine = start_machine(SHAPE, name="bench-fleet")
    try:
        with tempfile.TemporaryDirectory() as place:
            hosts = {machine.name: {"ansible_port": machine.port, **VARIABLES}}
            inventory = write_inventory(Path(place), hosts, **{SHAPE: hosts})
            Path(place, "group_vars").symlink_to(ROOT / "inventories/lab/group_vars")
            measure_cost_of_ansible_command(["ansible-playbook", "playbooks/site.yml"], inventory, 0)
        record_guest(machine, folder)
    finally:
        machine.discard()


@contextlib.contextmanager
def raised_inotify_limit(count: int) -> Iterator[None]:
    """Raise the limit of inotify during the block; the default does not suffice for fifty systemd containers."""
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    before = limit.read_text()
    limit.write_text(str(max(int(before), 128 + 16 * count)))
    try:
        yield
    finally:
        limit.write_text(before)


@contextlib.contextmanager
def running_fleet_of_containers(recording: Path, count: int, place: Path) -> Iterator[Path]:
    """Start containers that show a recording; yield the path of their inventory, which has a group for each size."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(raised_inotify_limit(count))
        hosts = {}
        for number in range(count):
            box = stack.enter_context(running_container(f"fleet-{number:02d}", {recording: "/recording"}))
            box.remove_speedups()
            hosts[f"fleet-{number:02d}"] = {**show_recording(box), **VARIABLES, "ansible_become": False}
        groups = {f"of{size}": dict.fromkeys(list(hosts)[:size]) for size in SIZES}
        inventory = write_inventory(place, hosts, **{SHAPE: hosts}, **groups)
        (place / "group_vars").mkdir()
        (place / f"group_vars/{SHAPE}.yml").symlink_to(ROOT / f"inventories/lab/group_vars/{SHAPE}.yml")
        yield inventory


def measure_cost_of_ansible_command(command: list[str], inventory: Path, *codes: int, **more: str) -> Cost:
    """Run a command of Ansible in the root of the clone; return its cost. An exit code not in ``codes`` is an error."""
    start = time.monotonic()
    process = psutil.Popen(
        [*command, "-i", str(inventory)],
        cwd=ROOT,
        env=clean_environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watch = ProcessWatch(process)
    output = process.communicate()[0]
    wall = time.monotonic() - start
    watch.stop_sampling()
    if process.returncode not in codes:
        raise VepycError(f"{' '.join(command)}: exit code {process.returncode}\n{output[-4000:]}")
    return Cost(wall, watch.processor_seconds, watch.memory)


class ProcessWatch(threading.Thread):
    """Samples CPU time and memory of a process and its children; usage of a child after its last sample is lost."""

    def __init__(self, process: psutil.Popen) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.memory = 0.0
        self._used: dict[tuple[int, float], float] = {}
        self._done = threading.Event()
        self.start()

    @property
    def processor_seconds(self) -> float:
        """Seconds of CPU time of the process and its children."""
        return sum(self._used.values())

    def run(self) -> None:
        """Sample until ``stop_sampling`` is called."""
        while not self._done.wait(0.2):
            memory = 0.0
            with contextlib.suppress(psutil.Error):
                for process in [self.process, *self.process.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        if process.name() in ("ssh", "nsenter", "sshd"):
                            continue  # Connections stay for later commands, and hosts are not the controller.
                        times = process.cpu_times()
                        self._used[process.pid, process.create_time()] = times.user + times.system
                        memory += process.memory_full_info().pss / 2**20
            self.memory = max(self.memory, memory)

    def stop_sampling(self) -> None:
        """End the sampling."""
        self._done.set()
        self.join()


def measure_fleet_of_each_size(inventory: Path, figures: Figures) -> None:
    """Measure ping and drift checks of each size, and print every figure."""
    contenders = {"drift": (DRIFT, (0,)), "site_check": (CHECK, (0,)), "shell_tasks": (SHELL, (0,))}
    bars = {("drift", 1): Bar("<=", 1.5), ("drift", 50): Bar("<=", 2), ("site_check", 50): Bar("<=", 8)}
    mitogen = find_spec("ansible_mitogen")
    settings: dict[str, dict[str, str]] = {}
    if mitogen is not None and mitogen.submodule_search_locations:
        contenders["drift_with_mitogen"] = contenders["drift"]
        strategies = str(Path(next(iter(mitogen.submodule_search_locations)), "plugins/strategy"))
        settings["drift_with_mitogen"] = {"ANSIBLE_STRATEGY_PLUGINS": strategies, "ANSIBLE_STRATEGY": "mitogen_linear"}
    costs: dict[int, Cost] = {}
    for size in SIZES:
        limit = ["-l", f"of{size}"]
        measure_cost_of_ansible_command([*PING, *limit], inventory, 0)  # opens the connections
        ratios: dict[str, list[float]] = {name: [] for name in contenders}
        for dummy in range(ROUNDS[size]):
            ping = measure_cost_of_ansible_command([*PING, *limit], inventory, 0).wall
            for name, (command, codes) in contenders.items():
                cost = measure_cost_of_ansible_command([*command, *limit], inventory, *codes, **settings.get(name, {}))
                ratios[name].append(cost.wall / ping)
                if name == "drift":
                    costs[size] = cost
        for name, values in ratios.items():
            figures.print_figure(f"{name}_against_ping_{size}_hosts", median(values), "x", bars.get((name, size)))
        figures.print_figure(
            f"drift_controller_processor_{size}_hosts", costs[size].processor / size * 1000, "ms per host"
        )
        figures.print_figure(f"drift_controller_memory_{size}_hosts", costs[size].memory / size, "MiB per host")
    few, many = SIZES[-2], SIZES[-1]
    for resource, unit in (("processor", "s"), ("memory", "MiB")):
        slope = (getattr(costs[many], resource) - getattr(costs[few], resource)) / (many - few)
        figures.print_figure(f"drift_{resource}_slope_{few}_to_{many}_hosts", slope, f"{unit} for each further host")


def main() -> int:
    """Measure, and print a line for each figure; return 1 if one misses its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recording", type=Path)
    options = parser.parse_args()

    def measure_all(figures: Figures) -> None:
        with tempfile.TemporaryDirectory() as folder:
            recording = (options.recording or Path(folder, "recording")).absolute()
            if not recording.exists():
                record_kernel_files_of_tuned_host(recording)
            with running_fleet_of_containers(recording, max(SIZES), Path(folder)) as inventory:
                measure_fleet_of_each_size(inventory, figures)

    return run_measurement("bench-fleet", measure_all)


if __name__ == "__main__":
    sys.exit(main())
