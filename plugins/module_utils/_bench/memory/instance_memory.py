# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory bandwidth of an instance, and the bytes that its steps read."""

from __future__ import annotations

from ..._errors import TuningError
from ..._models import model as gguf_model
from ..._models.memory_traffic import DraftModel, compute_step_traffic
from ..rounds import schedule
from ..statistics import figures
from . import bandwidth as bandwidths
from .bandwidth import Bandwidth
from .ceiling import Ceiling, compare_step_with_memory_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..load.answer import Sample
    from ..target.measured_instance import MeasuredInstance

#: Bytes that must stay free while the bandwidth is measured.
FREE_BYTES = 2 << 30
#: The scope, in the run document, of a bandwidth of all CPUs and nodes of an instance.
INSTANCE = "instance"
#: Tokens of the context of a step whose bytes are predicted before any measurement.
PREDICTED_CONTEXT = 250
#: The arms in which an instance runs as planned.
AS_PLANNED = (*schedule.ANCHORS, schedule.AGAIN)


def measure_instance_bandwidth(host: Host, target: MeasuredInstance) -> Bandwidth:
    """Return the bandwidth with which the CPUs of an idle instance read its nodes, under its memory policy."""
    top = host.topology
    cpus, nodes = target.cpus, target.nodes
    far = bandwidths.nodes_of_cpus(top, cpus) != set(nodes)
    policy = "interleave" if target.plan["expect"]["interleaved"] else "bind" if far else ""
    available = host.fs.read("/proc/meminfo").partition("MemAvailable:")[2].split()
    if not available or 1024 * int(available[0]) < bandwidths.bytes_to_read_for_measurement(top, cpus) + FREE_BYTES:
        return bandwidths.data_sheet_bandwidth(
            top, cpus, nodes, ["There is too little free memory to measure its bandwidth."]
        )
    return bandwidths.measure_bandwidth(
        top, cpus, nodes, _memory_policy_command(policy, target.plan["expect"]["nodes"]) if policy else ()
    )


def _memory_policy_command(policy: str, nodes: str) -> list[str]:
    """Return the command that runs another command under a memory policy, as systemd runs the instance."""
    properties = (f"NUMAPolicy={policy}", f"NUMAMask={nodes}")
    return [
        "systemd-run",
        "--quiet",
        "--pipe",
        "--wait",
        "--collect",
        *(f"--property={setting}" for setting in properties),
    ]


def bandwidth_to_run_record(bandwidth: Bandwidth) -> dict[str, Any]:
    """Return a bandwidth in the format of the run document."""
    data = bandwidth.to_dict()
    return {"scope": INSTANCE, **{name: data[name] for name in ("cpus", "nodes", "gbps", "source")}}


def compute_step_read_bytes(target: MeasuredInstance, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return for each kind the bytes that a mean step with one stream reads; none where the header lacks facts.

    TuningError where a model file cannot be read.
    """
    file = target.gguf_model_path()
    if file is None:
        return []
    model = gguf_model.read_model(file)
    drafting = target.process_argument_value("--model-draft", "-md", "--spec-draft-model")
    draft = gguf_model.read_model(drafting) if drafting else None
    types = _cache_types(target)
    rows = []
    for kind, of_kind in _one_stream_samples_by_kind(samples).items():
        context = round(sum(sample["prompt_n"] + sample["predicted_n"] / 2 for sample in of_kind) / len(of_kind))
        guessed = sum(sample["drafted"] for sample in of_kind) / figures.count_decoding_steps(of_kind)
        draft_model = DraftModel(draft, guessed) if draft else None
        traffic = compute_step_traffic(model, context, types, draft=draft_model, guessed_per_stream=guessed)
        if traffic is not None:
            parts = {name: round(size) for name, size in traffic.parts.items()}
            rows.append({"kind": kind, "context": context, "guessed": round(guessed, 3), "parts": parts})
    return rows


def predict_step_bytes_and_bandwidth(top: Topology, target: MeasuredInstance) -> tuple[float, float] | None:
    """Return the bytes of a step with a short context, and the bandwidth of the data sheet in GB/s; None if unknown."""
    file = target.gguf_model_path()
    try:
        model = gguf_model.read_model(file) if file else None
    except TuningError:
        model = None
    traffic = compute_step_traffic(model, PREDICTED_CONTEXT, _cache_types(target)) if model else None
    gbps = bandwidths.data_sheet_bandwidth(top, target.cpus, target.nodes).gbps
    return (traffic.total_bytes, gbps) if traffic and gbps else None


def _cache_types(target: MeasuredInstance) -> tuple[str, str]:
    """Return the types of the keys and of the values in the cache of an instance."""
    return (
        target.process_argument_value("--cache-type-k", "-ctk") or "f16",
        target.process_argument_value("--cache-type-v", "-ctv") or "f16",
    )


def memory_ceilings_by_prompt_kind(document: Mapping[str, Any], samples: Iterable[Sample]) -> dict[str, Ceiling]:
    """Return the mean step of each kind compared with its memory time; empty for an unknown bandwidth."""
    known = [bandwidth for bandwidth in document["bandwidth"] if bandwidth["scope"] == INSTANCE]
    if not known:
        return {}
    bandwidth = Bandwidth((), (), known[-1]["gbps"], known[-1]["source"])
    by_kind = _one_stream_samples_by_kind(samples)
    ceilings = {}
    for row in document["steps"]:
        if row["kind"] in by_kind:
            step_bytes = sum(row["parts"].values())
            milliseconds = figures.ms_per_step(by_kind[row["kind"]])
            ceilings[row["kind"]] = compare_step_with_memory_time(
                step_bytes, bandwidth, milliseconds, document["cache"]
            )
    return ceilings


def _one_stream_samples_by_kind(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    by_kind: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample["streams"] == 1:
            by_kind.setdefault(sample["kind"], []).append(sample)
    return by_kind


def unreadable_model_remark(error: TuningError) -> str:
    """Return the remark for a model whose header could not be read."""
    return f"How near it comes to what its memory allows is not known: {error}"
