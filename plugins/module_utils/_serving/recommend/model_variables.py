# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recommended variables of the models and their instances, each with its reason and its cost."""

from __future__ import annotations

from ..._notation.cpulist import format_cpulist
from ..._notation.sizes import format_bytes_short
from .engine_choice import engine_option_reason
from .variables_file import Variable, format_count_with_noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._models.model import Model
    from ..._models.model_source import FileToFetch
    from ..plan.instance_plan import InstancePlan
    from .largest_fit import Candidate

#: The order in which the file of variables lists the options of an instance.
OPTION_ORDER = (
    *("name", "engine", "model", "draft_model", "task", "speculation", "slots", "context", "context_per_slot", "cpus"),
    *("hugepages", "prompt_cache", "port"),
)


def describe_model(model: Model) -> str:
    """Return a line that describes a model: its architecture, the number and size of its weights, and its context."""
    weights = model.weight_bytes
    elements = sum(tensor.elements for tensor in model.tensors)
    experts = f", {model.expert_count} experts" if model.expert_count else ""
    trained = model.header_number_of_architecture("context_length")
    return (
        f"Model: {model.path}, {model.architecture}{experts}, {elements / 1e9:.1f} billion weights in "
        f"{format_bytes_short(weights)}{f', {8 * weights / elements:.1f} bits each' if elements else ''}"
        f"{f', trained for {trained} tokens' if trained else ''}."
    )


def list_variables_of_server_binary(binary: str | None) -> list[Variable]:
    """Return the variables that name the llama-server on the host; empty for a host without one."""
    if not binary:
        return []
    return [
        Variable(
            "epyc_llama_install", "binary", "The server is on the host already, and is taken as it is. Costs nothing."
        ),
        Variable("epyc_llama_binary", binary, "The path of the server. Costs nothing."),
    ]


def list_variables_of_files_to_fetch(files: Sequence[FileToFetch]) -> list[Variable]:
    """Return the variable with the model files to fetch; empty where all files are on the host."""
    if not files:
        return []
    rows = [
        [
            Variable(
                "path",
                file.path,
                f"Fetched once, and again when it is another file. Costs {format_bytes_short(file.size)} of disk.",
            ),
            Variable("url", file.url, "The source of the file."),
            Variable("checksum", file.checksum, "A file with another checksum is refused."),
        ]
        for file in files
    ]
    total = format_bytes_short(sum(file.size for file in files))
    return [
        Variable(
            "epyc_llama_models", None, f"The files that are fetched from their servers. Costs {total} of disk.", rows
        )
    ]


def build_instances_variable(
    candidates: Sequence[Candidate], services: Sequence[InstancePlan], left_out_draft_reasons: Sequence[str]
) -> Variable:
    """Return the variable with the instances; a reason for a left-out draft is "" where no draft was left out."""
    rows = []
    for candidate, service, note in zip(candidates, services, left_out_draft_reasons):
        values = candidate.llama_server_options()
        reasons = _reasons_by_option(candidate, service, note)
        rows.append([Variable(key, values[key], reasons[key]) for key in OPTION_ORDER if key in values])
    total = format_bytes_short(sum(service.need.total for service in services))
    reason = f"The instances, each a unit of systemd. Costs at most {total} of memory, and all cores that compute."
    return Variable("epyc_llama_instances", None, reason, rows)


def _reasons_by_option(candidate: Candidate, service: InstancePlan, left_out_draft_reason: str) -> dict[str, str]:
    need, place = service.need, service.placement
    slots, tokens = candidate.levels[candidate.level]
    nodes = f"{'nodes' if len(place.nodes) > 1 else 'node'} {format_cpulist(place.nodes)}"
    lies = f"evenly on {nodes}" if place.policy == "interleave" else f"on {nodes}"
    threads = max(service.parameters["threads"], service.parameters["threads_batch"])
    remarks = [remark for remark in service.remarks if remark != left_out_draft_reason]
    use = candidate.use
    smaller = "" if candidate.has_largest_context else " More does not fit."
    cache_cost = f"Costs {format_bytes_short(need.kv_cache)} of KV cache."
    return {
        "name": " ".join(
            [
                f"The unit is {service.unit}. Costs {format_bytes_short(need.total)} of memory {lies} "
                f"({need.format_parts_with_sizes()}), and {format_count_with_noun(threads, 'thread')} on CPUs "
                f"{format_cpulist(place.busy_cpus)}.",
                *([service.predicted_rate.describe()] if service.predicted_rate else []),
                *remarks,
            ]
        ),
        "engine": engine_option_reason(candidate.model),
        "model": (
            f"Its weights{' and those of the draft' if candidate.draft else ''} cost "
            f"{format_bytes_short(need.weights)} of memory."
        ),
        "draft_model": f"Drafts {service.parameters.get('draft_max', 0)} tokens at a time, which is computed to gain "
        "on this host. Measure it. Costs its own weights and KV cache.",
        "task": "The file says that this model makes no text. Costs nothing.",
        "speculation": _speculation_reason(candidate, left_out_draft_reason),
        "slots": f"For use {use.name}: {use.slots_reason}. {format_count_with_noun(slots, 'request')} at a time; "
        "others wait. Costs a context for each.",
        "context": f"Tokens of all slots together, with answers.{smaller} {cache_cost}",
        "context_per_slot": f"Tokens that each request may have, with its answer: {slots} times {tokens} in all."
        f"{smaller} {cache_cost}",
        "cpus": "A part of the host that no other instance has. Costs the others these cores.",
        "hugepages": "The weights are read into huge pages. Costs a slower start than to map the file, and its memory "
        "is not shared with other instances.",
        "prompt_cache": use.prompt_cache_reason
        if use.prompt_cache
        else f"{use.prompt_cache_reason} Costs up to {format_bytes_short(need.prompt_cache)} of memory.",
        "port": "On 127.0.0.1 only; set host and api_key_file to open it. Costs nothing.",
    }


def _speculation_reason(candidate: Candidate, left_out_draft_reason: str) -> str:
    """Return the reason for the value of the option speculation, after the reason why a draft was left out."""
    if candidate.draft:
        return "Tokens are looked up in the text so far, else drafted. Costs little where a guess is wrong."
    return f"{left_out_draft_reason} {candidate.use.speculation_reason}".strip()
