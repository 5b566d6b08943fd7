# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Samples about instances for the textfile of the host, in addition to the metrics of their servers.

Disturbances of the threads that compute are counters of the kernel, so that no measurement has to be awaited:
Prometheus computes their rates between two checks. llama-server measures no time to first token, so an idle one gets a
request for one token.
"""

from __future__ import annotations

import json
import time

from ..._errors import TuningError
from ..._io import textfile
from ..._io.store import HOME
from ..._kernel import interrupts, numa_maps
from ..._kernel import threads as kernel_threads
from ..._kernel.cgroups import list_processes
from ..._notation.cpulist import parse_cpulist
from ..catalogue import LLAMA
from ..hooks import event_stream, keys, server_http
from ..unit.installed import list_installed_instances
from .trial import PHRASE, Question

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._drift.metrics import Sample
    from ..._host.host import Host

INTERRUPTS = "sovereign_epyc_interrupts_total"
SWITCHES = "sovereign_epyc_involuntary_switches_total"
WAITED = "sovereign_epyc_waited_seconds_total"
MEMORY = "sovereign_epyc_service_memory_bytes"
FIRST_TOKEN = "sovereign_epyc_first_token_seconds"
CEILING = "sovereign_epyc_measured_over_ceiling"
HELP = {
    INTERRUPTS: "Interrupts of all CPUs on which an instance computes: ticks, of devices, or sent by other CPUs.",
    SWITCHES: "How often other tasks took a CPU from the threads with which an instance computes.",
    WAITED: "How long these threads were ready and another task had their CPU.",
    MEMORY: "Memory of an instance by node, as weights or anonymous, and whether the node is one of its plan.",
    CEILING: "The part of a step that reading its bytes takes at least, by kind of prompt: of the last benchmark.",
    FIRST_TOKEN: "How long an idle instance takes from a request of some forty tokens to its first token.",
}
#: The shares of the last benchmark by instance and kind of prompt: measured time over the ceiling.
BENCHMARK_SHARES = f"{HOME}/measured.json"
#: The most seconds that a first token may take; a slower one is not reported.
FIRST_TOKEN_LIMIT = 20.0


def read_samples_of_running_instances(host: Host, clock: Any = time) -> dict[str, list[Sample]]:
    """Return samples by metric name about all running instances; idle ones get a request for one token."""
    samples_by_name: dict[str, list[Sample]] = {name: [] for name in HELP}
    plans = {instance.name: instance.plan for instance in list_installed_instances(host.fs.root)}
    interrupt_counts = interrupts.read_interrupt_counts_if_shown(host.fs) if plans else {}
    shares = load_shares_of_last_benchmark(host.fs.root) if plans else {}
    for name, plan in plans.items():
        if plan is None:
            continue
        for kind, share in sorted(shares.get(name, {}).items()):
            samples_by_name[CEILING].append(({"service": name, "kind": kind}, share))
        try:
            processes = list_processes(host.fs, plan["unit"])
            _add_samples_of_computing_threads(samples_by_name, host, name, plan, processes)
            _add_samples_of_memory_locality(samples_by_name, host, name, plan, processes)
        except TuningError:
            continue  # The instance does not run; Prometheus sees this by the missing metrics of its server.
        for kind, by_cpu in interrupt_counts.items():
            total = sum(by_cpu.get(cpu, 0) for cpu in parse_cpulist(plan["expect"]["busy_cpus"]))
            samples_by_name[INTERRUPTS].append(({"service": name, "kind": kind}, total))
        seconds = measure_time_to_first_token(host, name, plan, clock)
        if seconds is not None:
            samples_by_name[FIRST_TOKEN].append(({"service": name}, round(seconds, 4)))
    return {name: samples for name, samples in samples_by_name.items() if samples}


def measure_time_to_first_token(host: Host, name: str, plan: Mapping[str, Any], clock: Any = time) -> float | None:
    """Return the seconds from a request to the first token of an idle instance; None where this cannot be measured.

    The time of a busy instance, of one that does not answer, of one for another task than completion, and of a router,
    whose models differ, cannot be measured.
    """
    if plan["task"] != "completion" or plan["models"] or plan["engine"] != LLAMA.key:
        return None
    try:
        key = keys.read_api_key_loaded_by_unit(host.fs, plan["unit"], plan["key_file"])
        status, text = server_http.send_get_request(plan["url"], "/metrics", server_http.HEALTH_TIMEOUT, key)
        if status != 200 or server_http.parse_unfinished_request_count(plan["url"], text):
            return None
        started_at = clock.monotonic()
        for event in event_stream.stream_events(
            plan["url"], Question(PHRASE, 1).to_completion_request(), started_at + FIRST_TOKEN_LIMIT, key, clock
        ):
            if event.get("content") or event.get("stop"):
                return float(clock.monotonic() - started_at)
    except TuningError:
        return None
    return None


def load_shares_of_last_benchmark(root: str = "/") -> dict[str, dict[str, float]]:
    """Return the shares of the last benchmark by instance and kind of prompt; nothing for an unreadable file."""
    try:
        shares = json.loads(textfile.read_text(textfile.path_in_tree(root, BENCHMARK_SHARES)) or "{}")
    except (TuningError, ValueError):
        return {}
    return {name: row for name, row in shares.items() if isinstance(row, dict)} if isinstance(shares, dict) else {}


def _add_samples_of_computing_threads(
    samples_by_name: dict[str, list[Sample]], host: Host, name: str, plan: Mapping[str, Any], processes: list[int]
) -> None:
    """Add waiting time and lost CPUs of the threads that compute; of all threads where none is bound to its CPUs."""
    busy_cpus = set(parse_cpulist(plan["expect"]["busy_cpus"]))
    threads = list(kernel_threads.sample_threads(host.fs, processes).values())
    computing = [thread for thread in threads if busy_cpus.issuperset(thread.allowed)] or threads
    labels = {"service": name}
    samples_by_name[SWITCHES].append((labels, sum(thread.involuntary or 0 for thread in computing)))
    samples_by_name[WAITED].append((labels, round(sum(thread.waited or 0.0 for thread in computing), 3)))


def _add_samples_of_memory_locality(
    samples_by_name: dict[str, list[Sample]], host: Host, name: str, plan: Mapping[str, Any], processes: list[int]
) -> None:
    planned_nodes = set(parse_cpulist(plan["expect"]["nodes"]))
    bytes_by_kind_and_node: dict[tuple[str, int], int] = {}
    for process in processes:
        kinds = numa_maps.read_process_memory(host.fs, process, plan["mapped"]).kinds or {}
        for kind in ("weights", "anonymous"):
            for node, size in (kinds[kind].nodes if kind in kinds else {}).items():
                bytes_by_kind_and_node[kind, node] = bytes_by_kind_and_node.get((kind, node), 0) + size
    for (kind, node), size in sorted(bytes_by_kind_and_node.items()):
        labels = {"service": name, "kind": kind, "node": str(node), "planned": str(node in planned_nodes).lower()}
        samples_by_name[MEMORY].append((labels, size))
