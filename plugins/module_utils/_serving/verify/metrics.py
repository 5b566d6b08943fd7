# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host tells of its instances beside what they tell of themselves, for its textfile.

What comes between the threads that compute are counters of the kernel, so that no window has to be waited for:
Prometheus has them from one check to the next. llama-server keeps no time to a first token, so that an idle one is
asked for a token.
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
from ..unit.installed import list_installed
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
#: What the last benchmark said of each instance and its memory: by name and kind of prompt, measured over ceiling.
BENCHMARK_SHARES = f"{HOME}/measured.json"
#: Seconds that the first token may take; one that takes longer is not told.
FIRST_TOKEN_LIMIT = 20.0


def read_metric_samples(host: Host, clock: Any = time) -> dict[str, list[Sample]]:
    """Return samples by name of all instances that run; those that are idle are asked for a token."""
    found: dict[str, list[Sample]] = {name: [] for name in HELP}
    plans = {instance.name: instance.plan for instance in list_installed(host.fs.root)}
    counted = interrupts.read_interrupt_counts_if_shown(host.fs) if plans else {}
    shares = load_benchmark_shares(host.fs.root) if plans else {}
    for name, plan in plans.items():
        if plan is None:
            continue
        for kind, share in sorted(shares.get(name, {}).items()):
            found[CEILING].append(({"service": name, "kind": kind}, share))
        try:
            processes = list_processes(host.fs, plan["unit"])
            _add_thread_samples(found, host, name, plan, processes)
            _add_memory_samples(found, host, name, plan, processes)
        except TuningError:
            continue  # It does not run, which its own metrics tell by their absence.
        for kind, by_cpu in counted.items():
            total = sum(by_cpu.get(cpu, 0) for cpu in parse_cpulist(plan["expect"]["busy_cpus"]))
            found[INTERRUPTS].append(({"service": name, "kind": kind}, total))
        seconds = measure_first_token(host, name, plan, clock)
        if seconds is not None:
            found[FIRST_TOKEN].append(({"service": name}, round(seconds, 4)))
    return {name: samples for name, samples in found.items() if samples}


def measure_first_token(host: Host, name: str, plan: Mapping[str, Any], clock: Any = time) -> float | None:
    """Return the seconds from a request to the first token; None of one that is busy, does not answer, or is no LLM.

    None of a router too, of which one model has nothing to do with another.
    """
    if plan["task"] != "completion" or plan["models"] or plan["engine"] != LLAMA.key:
        return None
    try:
        key = keys.read_key_of_unit(host.fs, plan["unit"], plan["key_file"])
        status, text = server_http.send_get(plan["url"], "/metrics", server_http.HEALTH_TIMEOUT, key)
        if status != 200 or server_http.parse_request_count(plan["url"], text):
            return None
        begun = clock.monotonic()
        for event in event_stream.stream_events(
            plan["url"], Question(PHRASE, 1).to_completion_request(), begun + FIRST_TOKEN_LIMIT, key, clock
        ):
            if event.get("content") or event.get("stop"):
                return float(clock.monotonic() - begun)
    except TuningError:
        return None
    return None


def load_benchmark_shares(root: str = "/") -> dict[str, dict[str, float]]:
    """Return by instance and kind what the last benchmark said; nothing of a file that cannot be read."""
    try:
        found = json.loads(textfile.read_text(textfile.path_in_tree(root, BENCHMARK_SHARES)) or "{}")
    except (TuningError, ValueError):
        return {}
    return {name: row for name, row in found.items() if isinstance(row, dict)} if isinstance(found, dict) else {}


def _add_thread_samples(
    found: dict[str, list[Sample]], host: Host, name: str, plan: Mapping[str, Any], processes: list[int]
) -> None:
    """Add what the threads that compute have waited and lost; where none is bound to its CPUs, of all threads."""
    busy = set(parse_cpulist(plan["expect"]["busy_cpus"]))
    threads = list(kernel_threads.sample_threads(host.fs, processes).values())
    computing = [thread for thread in threads if busy.issuperset(thread.allowed)] or threads
    labels = {"service": name}
    found[SWITCHES].append((labels, sum(thread.involuntary or 0 for thread in computing)))
    found[WAITED].append((labels, round(sum(thread.waited or 0.0 for thread in computing), 3)))


def _add_memory_samples(
    found: dict[str, list[Sample]], host: Host, name: str, plan: Mapping[str, Any], processes: list[int]
) -> None:
    planned = set(parse_cpulist(plan["expect"]["nodes"]))
    total: dict[tuple[str, int], int] = {}
    for process in processes:
        kinds = numa_maps.read_process_memory(host.fs, process, plan["mapped"]).kinds or {}
        for kind in ("weights", "anonymous"):
            for node, size in (kinds[kind].nodes if kind in kinds else {}).items():
                total[kind, node] = total.get((kind, node), 0) + size
    for (kind, node), size in sorted(total.items()):
        labels = {"service": name, "kind": kind, "node": str(node), "planned": str(node in planned).lower()}
        found[MEMORY].append((labels, size))
