# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory bandwidth of an instance, and the bytes that its steps read."""

from __future__ import annotations

from ..._errors import TuningError
from ..._models import model as gguf_model
from ..._models.known_architectures import unknown_architecture_remark
from ..._models.memory_traffic import DraftModel, compute_step_traffic
from ..._models.token_cost import DEFAULT_MLA, ModelLayers
from ..._notation.numbers import parse_whole_number
from ..._serving.llama_cpp.capabilities import IK
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
    from ..._models.model import Model
    from ..load.answer import Sample
    from ..target.measured_instance import MeasuredInstance

    #: The kind of prompts, the number of streams and the depth of the context.
    StepKey = tuple[str, int, int]

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
    """Return the bytes that a mean step reads, for each kind, number of streams and depth.

    None are returned where the header of the model lacks facts. A step has at most as many streams as the instance has
    slots. TuningError where a model file cannot be read.
    """
    file = target.gguf_model_path()
    if file is None:
        return []
    model = gguf_model.read_model(file)
    drafting = target.process_argument_value("--model-draft", "-md", "--spec-draft-model")
    draft = gguf_model.read_model(drafting) if drafting else None
    types, mla = _cache_types(target), _find_mla_method(target, model)
    rows = []
    for (kind, streams, depth), alike in _group_samples_by_kind_streams_and_depth(samples).items():
        answers = sum(len(sample["ttfts_ms"]) or 1 for sample in alike)
        context = depth + round(sum(sample["prompt_n"] + sample["predicted_n"] / 2 for sample in alike) / answers)
        guessed = sum(sample["drafted"] for sample in alike) / figures.count_decoding_steps(alike)
        draft_model = DraftModel(draft, guessed) if draft else None
        at_once = min(streams, target.slots)
        traffic = compute_step_traffic(model, context, types, at_once, draft_model, guessed_per_stream=guessed, mla=mla)
        if traffic is not None:
            parts = {name: round(size) for name, size in traffic.parts.items()}
            step = {"kind": kind, "streams": streams, "depth": depth, "context": context}
            rows.append({**step, "guessed": round(guessed, 3), "parts": parts})
    return rows


def predict_step_bytes_and_bandwidth(top: Topology, target: MeasuredInstance) -> tuple[float, float] | None:
    """Return the bytes of a step with a short context, and the bandwidth of the data sheet in GB/s; None if unknown."""
    model, gbps = target.read_gguf_model(), bandwidths.data_sheet_bandwidth(top, target.cpus, target.nodes).gbps
    if model is None or not gbps:
        return None
    traffic = compute_step_traffic(model, PREDICTED_CONTEXT, _cache_types(target), mla=_find_mla_method(target, model))
    return (traffic.total_bytes, gbps) if traffic else None


def list_model_remarks(target: MeasuredInstance) -> list[str]:
    """Return sentences why the bytes of a step may be wrong for the model of an instance."""
    model = target.read_gguf_model()
    remark = unknown_architecture_remark(model) if model else ""
    return [remark] if remark else []


def _cache_types(target: MeasuredInstance) -> tuple[str, str]:
    """Return the types of the keys and of the values in the cache of an instance."""
    return (
        target.process_argument_value("--cache-type-k", "-ctk") or "f16",
        target.process_argument_value("--cache-type-v", "-ctv") or "f16",
    )


def _find_mla_method(target: MeasuredInstance, model: Model) -> int:
    """Return the method by which ik_llama.cpp computes with the compressed keys of a model; 0 for another engine."""
    if not ModelLayers(model).compressed_rank or target.find_engine() != IK:
        return 0
    method = parse_whole_number(target.process_argument_value("--mla-use", "-mla"))
    return DEFAULT_MLA if method is None else method


def memory_ceilings(document: Mapping[str, Any], samples: Iterable[Sample]) -> dict[StepKey, Ceiling]:
    """Return the mean step of each kind, number of streams and depth compared with its memory time.

    The result is empty for an unknown bandwidth.
    """
    known = [bandwidth for bandwidth in document["bandwidth"] if bandwidth["scope"] == INSTANCE]
    if not known:
        return {}
    bandwidth = Bandwidth((), (), known[-1]["gbps"], known[-1]["source"])
    measured = _group_samples_by_kind_streams_and_depth(samples)
    ceilings = {}
    for row in document["steps"]:
        key = (row["kind"], row["streams"], row["depth"])
        if key in measured:
            step_bytes = sum(row["parts"].values())
            milliseconds = figures.ms_per_step(measured[key])
            ceilings[key] = compare_step_with_memory_time(step_bytes, bandwidth, milliseconds, document["cache"])
    return ceilings


def _group_samples_by_kind_streams_and_depth(samples: Iterable[Sample]) -> dict[StepKey, list[Sample]]:
    """Return the first turns with decoding times that were not sent at a rate, by what their steps read."""
    found: dict[StepKey, list[Sample]] = {}
    for sample in samples:
        if sample["predicted_n"] and sample["turn"] == 1 and sample["rate"] is None:
            found.setdefault((sample["kind"], sample["streams"], sample["depth"]), []).append(sample)
    return found


def unreadable_model_remark(error: TuningError) -> str:
    """Return the remark for a model whose header could not be read."""
    return f"How near it comes to what its memory allows is not known: {error}"
