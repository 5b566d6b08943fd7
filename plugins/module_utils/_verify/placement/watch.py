# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proof about a running service: where its threads and its memory are, compared with what was requested.

Nothing is written, and what cannot be measured is reported as unknown.
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
from .observation import Proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..._kernel.threads import Thread


#: Seconds. Who watches a service for longer has mistyped a number.
LONGEST_WINDOW = 24 * 3600


class Watch:
    """Observes a service from now on, until the proof is requested."""

    def __init__(self, host: Host, options: Mapping[str, Any], clock: Any = time) -> None:
        self._host = host
        self._options = options
        self._asked = judge.Asked(host, options)
        self._clock = clock
        self._before = kernel_threads.sample_threads(host.fs, list_processes(host.fs, options["service"]))
        self._groups = resctrl_groups.Groups(host.fs)
        self._begin = clock.monotonic()
        names = resctrl_groups.names_of(self._groups.place(thread) for thread in self._before.values())
        self._first = {name: self._groups.counters(*name) for name in names}
        self._interrupts = interrupts.read_interrupt_counts_if_shown(host.fs)

    def now(self) -> dict[str, object]:
        """Return the proof of this moment; whether a thread is busy is then unknown."""
        return self._result(kernel_threads.without_measurement(self._before.values()), None)

    def since(self, by_busiest: bool = False) -> dict[str, object]:
        """Return the proof of the time since the beginning.

        With ``by_busiest``, a thread counts as busy that worked half as much as the busiest one: for a service that had
        work for a part of the time only.
        """
        service = self._options["service"]
        after = kernel_threads.sample_threads(self._host.fs, list_processes(self._host.fs, service))
        seconds = self._clock.monotonic() - self._begin
        threads = kernel_threads.measure_between(self._before, after, seconds)
        if by_busiest:
            kernel_threads.scale_busy_to_busiest(threads)
        return self._result(threads, seconds)

    def _result(self, threads: Iterable[Thread], seconds: float | None) -> dict[str, object]:
        fs, options = self._host.fs, self._options
        proof = Proof(options["service"], threads, self._groups)
        if not proof.threads:
            raise BadRequest(
                f"{proof.service} has no threads: it has ended, or is being started. Ask again when it runs."
            )
        proof.seconds = seconds
        proof.noise = self._noise(proof.threads, seconds)
        names = resctrl_groups.names_of(proof.places.values())
        second = {name: self._groups.counters(*name) for name in names}
        proof.monitored = resctrl_groups.report(names, self._first, second, seconds)
        models = [os.path.realpath(path) for path in options.get("model") or []]
        proof.memory = [numa_maps.read_process_memory(fs, pid, models) for pid in list_processes(fs, proof.service)]
        nodes = len(self._asked.nodes or ())
        proof.rows = {path: _rows(path, threads, nodes) for path, threads in self._asked.rows.items()}
        verdicts = judge.judge(self._asked, proof)
        return {
            "clean": all(verdict["verdict"] == OK for verdict in verdicts),
            "verdicts": verdicts,
            "seconds": seconds,
            "threads": [_row(self._host.topology, proof, thread) for thread in proof.threads],
            "memory": [memory.to_dict() for memory in proof.memory],
            "rows": {path: None if isinstance(row, str) else row.to_dict() for path, row in proof.rows.items()},
            "groups": proof.monitored,
            "noise": proof.noise,
            "missing": proof.missing,
        }

    def _noise(self, threads: Iterable[Thread], seconds: float | None) -> dict[str, object] | None:
        after = interrupts.read_interrupt_counts_if_shown(self._host.fs) if seconds else {}
        if not (seconds and self._interrupts and after):
            return None
        return noise.between(self._interrupts, after, threads, seconds)


def prove(host: Host, options: Mapping[str, Any], clock: Any = time) -> dict[str, object]:
    """Return the proof about the service that the options name, as plain data."""
    window = options.get("window") or 0
    if not 0 <= window <= LONGEST_WINDOW:
        raise BadRequest(
            f"window: {window} is no length of time; say 0 for none, or a number of seconds up to {LONGEST_WINDOW}."
        )
    watch = Watch(host, options, clock)
    if not window:
        return watch.now()
    clock.sleep(window)
    return watch.since()


def _rows(path: str, threads: int, nodes: int) -> weight_locality.Locality | str:
    """Return where the rows of a model are, or why that is not known."""
    try:
        return weight_locality.measure_locality(weight_locality.read_file_headers(path), threads, nodes)
    except TuningError as error:
        return str(error)


def _row(top: Topology, proof: Proof, thread: Thread) -> dict[str, object]:
    """Return a thread as plain data; L3 domain and node are those of the CPU that it ran on last."""
    place = proof.places[thread.tid]
    return {
        "process": thread.process,
        "thread": thread.tid,
        "name": thread.name,
        "allowed": format_cpulist(thread.allowed),
        "cpu": thread.cpu,
        "l3": next((domain.id for domain in top.l3 if thread.cpu in domain.cpus), None),
        "node": next((node.id for node in top.nodes if thread.cpu in node.cpus), None),
        "groups": None if place is None else list(place.limits),
        "busy": thread.busy,
        "worked": thread.worked,
        "waited": thread.waited,
        "voluntary": thread.voluntary,
        "involuntary": thread.involuntary,
    }
