#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures on which nodes the weights of a model are with each memory option, on the virtual 9354 and on two sockets.

A real llama-server decodes a few tokens. Then the kernel reports the share of the bytes that are on the node of the
thread that reads them, and the memory of the process. No speed is measured, because an emulated CPU has no memory
bandwidth; playbooks/ablation.yml measures the speed on a host.

Run as `make bench-rows`. Exit code 1 when a figure misses its bar.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import parse_cpulist
from tests.fixtures.virtual_epyc import Guest, guest_of
from tests.lab.random_model import random_model
from tests.lab.small_instance import ASK_FEW, BINARY, serve_instances
from vepyc.figures import Bar, Figures
from vepyc.llama.delivery import write_guest_file
from vepyc.llama.llama_cpp import GUEST, ensure_llama

SHAPES = ("epyc9354", TWO_SOCKETS := "epyc7543x2")
MODEL, PORT = "/srv/model.gguf", 8080
#: The number of words in the vocabulary of the model, which gives 40 MiB of weights.
WORDS = 80_000
DROP_CACHES = "echo 3 >/proc/sys/vm/drop_caches"
#: Puts the whole file into the page cache on the node of one CPU, as a download does.
CACHE_ON_ONE_NODE = f"{DROP_CACHES}; taskset -c 0 cat {MODEL} >/dev/null"


@dataclass(frozen=True)
class Arm:
    """A memory option, and the command that prepares the page cache before the server starts."""

    name: str
    memory: str
    before: str
    bar: Bar | None = None


ARMS = (
    Arm("interleave", "interleave", CACHE_ON_ONE_NODE),
    Arm("distribute_after_a_download", "distribute", CACHE_ON_ONE_NODE),
    Arm("distribute_with_an_empty_cache", "distribute", DROP_CACHES),
    Arm("rows_after_a_download", "rows", CACHE_ON_ONE_NODE, Bar(">=", 98)),
)


def main() -> int:
    """Measure every memory option and print the table."""
    figures = Figures()
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder, guest_of(shape, "rows", Path(folder)) as guest:
            guest.carry_modules()
            guest.module("epyc_host_tool")
            program = ensure_llama(GUEST) / "bin/llama-server"
            write_guest_file(guest.machine, BINARY, program.read_bytes(), mode=755)
            model = random_model(WORDS)
            write_guest_file(guest.machine, MODEL, model)
            for arm in ARMS:
                local, memory = measure_local_weights_and_memory(guest, arm, len(model))
                figures.print_figure(f"{shape}_{arm.name}_local", local, "%", arm.bar)
                figures.print_figure(f"{shape}_{arm.name}_memory", memory, "times the model")
            if shape == TWO_SOCKETS:
                local, memory = measure_copies_on_each_socket(guest, len(model))
                figures.print_figure(f"{shape}_copy_on_each_socket_local", local, "%", Bar(">=", 98))
                figures.print_figure(f"{shape}_copy_on_each_socket_memory", memory, "times the model")
    return int(figures.missed)


def measure_local_weights_and_memory(guest: Guest, arm: Arm, size: int) -> tuple[float, float]:
    """Return the percentage of weights on local nodes, and the memory of the process as a multiple of the model."""
    serve_instances(guest)
    guest.run(arm.before)
    options = {"name": "rows", "port": PORT, "model": MODEL, "memory": arm.memory, "nodes": "all"}
    plan = serve_instances(guest, options)["rows"]
    guest.machine.run(f"python3 - {PORT}", input=ASK_FEW)
    rows = {MODEL: plan["wants"]["threads"]}
    placement = guest.module("service_placement_info", service=plan["unit"], nodes=plan["nodes"], rows=rows)
    (memory,) = placement["memory"]
    held = sum(memory[kind]["bytes"] for kind in ("weights", "anonymous"))
    return placement["rows"][MODEL]["local"], held / size


def measure_copies_on_each_socket(guest: Guest, size: int) -> tuple[float, float]:
    """Return local percentage and memory of two instances that have a copy of the model on a socket each."""
    ports = {"socket0": PORT, "socket1": PORT + 1}
    common = {"model": MODEL, "hugepages": "thp"}
    plans = serve_instances(guest, *({"name": name, "port": ports[name], "cpus": name, **common} for name in ports))
    near = held = 0
    for name, plan in plans.items():
        guest.machine.run(f"python3 - {ports[name]}", input=ASK_FEW)
        (memory,) = guest.module("service_placement_info", service=plan["unit"], nodes=plan["nodes"])["memory"]
        nodes = memory["anonymous"]["nodes"]
        near += sum(nodes.get(str(node), 0) for node in parse_cpulist(plan["nodes"]))
        held += sum(nodes.values())
    return 100 * near / held, held / size


if __name__ == "__main__":
    sys.exit(main())
