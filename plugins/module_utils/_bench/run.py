# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run and its document: the first and the last steps of every benchmark, ablation and tuning."""

from __future__ import annotations

import os

from .._errors import BadRequest, TuningError
from .._host.memory_speed import load_memory_speed
from .._io.store import BENCHMARK_FOLDER
from .._notation.numbers import format_utc_time
from .documents import run_document as documents
from .host_memory import are_other_instances_idle, store_bandwidth_of_instance
from .memory import instance_memory, rate_prediction
from .memory.bandwidth import l3_cache_bytes
from .sampling.meter import move_off_instance_cpus
from .target import fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._host.host import Host
    from .load.request import MeasuringRequest
    from .target.measured_instance import MeasuredInstance

FOLDER = BENCHMARK_FOLDER


class Run:
    """A run that has begun; ``settings`` are the settings of the host at the beginning of the run."""

    def __init__(
        self,
        host: Host,
        target: MeasuredInstance,
        request: MeasuringRequest,
        arms: list[dict[str, Any]],
        seed: int = 0,
        **plan: Any,
    ) -> None:
        """Begin a run without writing its file; BadRequest where the file exists already."""
        self.host = host
        self.target = target
        #: Whether the run continues after a boot, so that another call of the module ends the document.
        self.continues_after_boot = False
        started = format_utc_time()
        stamp = started.replace(":", "").replace("-", "")
        self.path = request.output or f"{FOLDER}/{target.name}-{stamp}.json"
        if os.path.lexists(self.path):
            raise BadRequest(f"{self.path} is there already, and is left as it is: give this run a file of its own.")
        if request.output is None:
            os.makedirs(FOLDER, 0o700, exist_ok=True)
        host_facts = fingerprint.read_fingerprint(host, target, request.all_prompts)
        self.settings = host_facts["settings"]
        identity, caches = f"{target.name[:20]}-{stamp}", l3_cache_bytes(host.topology, target.cpus)
        self.document = documents.new_run_document(
            identity, target.name, started, seed, host_facts, arms, caches, **plan
        )
        self.document["predictions"] = rate_prediction.predict_rates_of_instance(host, target)

    def leave_cpus_and_measure_bandwidth(self, report_step: Callable[[str], None]) -> None:
        """Move this process off the CPUs of the instance, and measure the bandwidth of its idle memory."""
        self.document["remarks"] += [
            *self.target.remarks,
            *instance_memory.list_model_remarks(self.target),
            *move_off_instance_cpus(self.host, self.target.cpus),
        ]
        report_step("it measures the bandwidth of the memory")
        others_are_idle = are_other_instances_idle(self.host)
        bandwidth = instance_memory.measure_instance_bandwidth(self.host, self.target)
        self.document["bandwidth"].append(instance_memory.bandwidth_to_run_record(bandwidth))
        if not bandwidth.measured:
            self.document["remarks"] += bandwidth.reasons
        if others_are_idle:
            store_bandwidth_of_instance(self.host, self.target, bandwidth)
        # What the run finds stands on these faults, so they are the first remarks.
        self.document["remarks"][:0] = load_memory_speed(self.host).faults

    def save(self) -> None:
        """Write the document to its file."""
        documents.save_document(self.path, self.document)

    def finish_document(self, restored: bool = True) -> None:
        """Write the end of the run into the document, unless the run continues after a boot.

        ``restored`` is whether the instance runs as before; the settings of the host are compared here.
        """
        try:
            samples = [sample for sample in self.document["samples"] if sample["arm"] in instance_memory.AS_PLANNED]
            self.document["steps"] = instance_memory.compute_step_read_bytes(self.target, samples)
        except TuningError as error:
            self.document["remarks"].append(instance_memory.unreadable_model_remark(error))
        restored = restored and fingerprint.read_values_of_stored_settings(self.host) == self.settings
        if not (self.continues_after_boot and restored):
            self.document.update(restored=restored, ended=format_utc_time())
        self.save()
