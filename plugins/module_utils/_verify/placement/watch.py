# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proof of the placement of a running service: its threads and memory, compared with the requested placement.

Nothing is written. A value that cannot be measured is reported as unknown.
"""

from __future__ import annotations

import os
import time

from ..._drift.verdict import OK
from ..._errors import BadRequest, TuningError
from ..._kernel import interrupts, numa_maps
from ..._kernel import threads as kernel_threads
from ..._kernel.cgroups import list_processes
from ..._models import weight_locality
from ..._notation.cpulist import format_cpulist
from . import judge, noise, resctrl_groups
from .observation import Observation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..._kernel.threads import Thread


#: The longest window in seconds. A larger number is refused as a mistake.
MAX_WINDOW_SECONDS = 24 * 3600


class ServiceWatch:
    """Observes a service from the construction of this object until a sample is taken."""

    def __init__(self, host: Host, options: Mapping[str, Any], clock: Any = time) -> None:
        self._host = host
        self._options = options
        self._request = judge.PlacementRequest(host, options)
        self._clock = clock
        self._threads_before = kernel_threads.sample_threads(host.fs, list_processes(host.fs, options["service"]))
        self._groups = resctrl_groups.ResctrlGroups(host.fs)
        self._begin = clock.monotonic()
        names = resctrl_groups.list_limiting_and_monitor_groups(
            self._groups.find_thread_groups(thread) for thread in self._threads_before.values()
        )
        self._counters_before = {name: self._groups.read_counters_by_l3_domain(*name) for name in names}
        self._interrupts_before = interrupts.read_interrupt_counts_if_shown(host.fs)

    def prove_placement_now(self) -> dict[str, object]:
        """Return the proof of this moment, without a statement on which threads are busy."""
        return self._build_proof(kernel_threads.without_measured_values(self._threads_before.values()), None)

    def prove_placement_since_start(self, relative_to_busiest: bool = False) -> dict[str, object]:
        """Return the proof of the time since the observation began.

        With ``relative_to_busiest``, a thread that worked half as much as the busiest thread counts as busy. This is
        for services that had work for a part of the time only.
        """
        service = self._options["service"]
        after = kernel_threads.sample_threads(self._host.fs, list_processes(self._host.fs, service))
        seconds = self._clock.monotonic() - self._begin
        threads = kernel_threads.measure_threads_between(self._threads_before, after, seconds)
        if relative_to_busiest:
            kernel_threads.scale_busy_to_busiest(threads)
        return self._build_proof(threads, seconds)

    def _build_proof(self, threads: Iterable[Thread], seconds: float | None) -> dict[str, object]:
        fs, options = self._host.fs, self._options
        observation = Observation(options["service"], threads, self._groups)
        if not observation.threads:
            raise BadRequest(
                f"{observation.service} has no threads: it has ended, or is being started. Ask again when it runs."
            )
        observation.seconds = seconds
        observation.noise = self._measure_noise_since_start(observation.threads, seconds)
        names = resctrl_groups.list_limiting_and_monitor_groups(observation.places.values())
        second = {name: self._groups.read_counters_by_l3_domain(*name) for name in names}
        observation.monitored = resctrl_groups.build_occupancy_and_bandwidth_rows(
            names, self._counters_before, second, seconds
        )
        models = [os.path.realpath(path) for path in options.get("model") or []]
        observation.memory = [
            numa_maps.read_process_memory(fs, pid, models) for pid in list_processes(fs, observation.service)
        ]
        nodes = len(self._request.nodes or ())
        observation.rows = {
            path: _read_locality_of_model_rows(path, threads, nodes) for path, threads in self._request.rows.items()
        }
        verdicts = judge.judge_requested_placement(self._request, observation)
        return {
            "clean": all(verdict["verdict"] == OK for verdict in verdicts),
            "verdicts": verdicts,
            "seconds": seconds,
            "threads": [_thread_to_dict(self._host.topology, observation, thread) for thread in observation.threads],
            "memory": [memory.to_dict() for memory in observation.memory],
            "rows": {path: None if isinstance(row, str) else row.to_dict() for path, row in observation.rows.items()},
            "groups": observation.monitored,
            "noise": observation.noise,
            "missing": observation.unreadable_value_messages,
        }

    def _measure_noise_since_start(self, threads: Iterable[Thread], seconds: float | None) -> dict[str, object] | None:
        after = interrupts.read_interrupt_counts_if_shown(self._host.fs) if seconds else {}
        if not (seconds and self._interrupts_before and after):
            return None
        return noise.measure_noise_of_busy_threads(self._interrupts_before, after, threads, seconds)


def prove_placement_of_service(host: Host, options: Mapping[str, Any], clock: Any = time) -> dict[str, object]:
    """Return the proof about the service that the options name, as plain data."""
    window = options.get("window") or 0
    if not 0 <= window <= MAX_WINDOW_SECONDS:
        raise BadRequest(
            f"window: {window} is no length of time; say 0 for none, or a number of seconds up to {MAX_WINDOW_SECONDS}."
        )
    watch = ServiceWatch(host, options, clock)
    if not window:
        return watch.prove_placement_now()
    clock.sleep(window)
    return watch.prove_placement_since_start()


def _read_locality_of_model_rows(path: str, threads: int, nodes: int) -> weight_locality.Locality | str:
    """Return the locality of the rows of a model, or the reason why the locality is unknown."""
    try:
        return weight_locality.measure_locality(weight_locality.read_headers_of_all_files(path), threads, nodes)
    except TuningError as error:
        return str(error)


def _thread_to_dict(topology: Topology, observation: Observation, thread: Thread) -> dict[str, object]:
    """Return a thread as plain data, with the L3 domain and the node of the CPU on which the thread ran last."""
    place = observation.places[thread.tid]
    return {
        "process": thread.process,
        "thread": thread.tid,
        "name": thread.name,
        "allowed": format_cpulist(thread.allowed),
        "cpu": thread.cpu,
        "l3": next((domain.id for domain in topology.l3 if thread.cpu in domain.cpus), None),
        "node": next((node.id for node in topology.nodes if thread.cpu in node.cpus), None),
        "groups": None if place is None else list(place.limiting_groups),
        "busy": thread.busy,
        "worked": thread.worked,
        "waited": thread.waited,
        "voluntary": thread.voluntary,
        "involuntary": thread.involuntary,
    }
