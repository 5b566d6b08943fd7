# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the models and their instances, each with its reason and its cost."""

from __future__ import annotations

from ..._notation.cpulist import format_cpulist
from ..._notation.sizes import format_bytes_short
from .variables_file import Line, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._models.model import Model
    from ..._models.model_source import File
    from ..plan.instance_plan import InstancePlan
    from .largest_fit import Candidate

#: The order of the options of an instance.
ORDER = (
    "name",
    "model",
    "draft_model",
    "task",
    "speculation",
    "context",
    "slots",
    "cpus",
    "hugepages",
    "prompt_cache",
    "port",
)


def describe(model: Model) -> str:
    """Return what a model is, in one line."""
    weights = sum(part.data for part in model.parts)
    elements = sum(tensor.elements for tensor in model.tensors)
    experts = f", {model.experts} experts" if model.experts else ""
    trained = model.of_architecture("context_length")
    return (
        f"Model: {model.path}, {model.architecture}{experts}, {elements / 1e9:.1f} billion weights in "
        f"{format_bytes_short(weights)}{f', {8 * weights / elements:.1f} bits each' if elements else ''}"
        f"{f', trained for {trained} tokens' if trained else ''}."
    )


def server(binary: str | None) -> list[Line]:
    """Return which server runs, where it is on the host already."""
    if not binary:
        return []
    return [
        Line("llama_install", "binary", "The server is on the host already, and is taken as it is. Costs nothing."),
        Line("llama_binary", binary, "Where it is. Costs nothing."),
    ]


def models(files: Sequence[File]) -> list[Line]:
    """Return the files to fetch."""
    if not files:
        return []
    rows = [
        [
            Line(
                "path",
                file.path,
                f"Fetched once, and again when it is another file. Costs {format_bytes_short(file.size)} of disk.",
            ),
            Line("url", file.url, "Where it comes from."),
            Line("checksum", file.checksum, "Which file it must be; any other one is refused."),
        ]
        for file in files
    ]
    total = format_bytes_short(sum(file.size for file in files))
    return [Line("llama_models", None, f"The files that are fetched from their servers. Costs {total} of disk.", rows)]


def instances(candidates: Sequence[Candidate], services: Sequence[InstancePlan], notes: Sequence[str]) -> Line:
    """Return the instances; ``notes`` are the reasons for drafts that were left out, by instance, empty without one."""
    rows = []
    for one, service, note in zip(candidates, services, notes):
        values = one.values()
        whys = _whys(one, service, note)
        rows.append([Line(key, values[key], whys[key]) for key in ORDER if key in values])
    total = format_bytes_short(sum(service.need.total for service in services))
    why = f"What is served, each as a unit of systemd. Costs at most {total} of memory, and all cores that compute."
    return Line("llama_instances", None, why, rows)


def _whys(one: Candidate, service: InstancePlan, note: str) -> dict[str, str]:
    need, place = service.need, service.placement
    slots = one.fixed["slots"]
    nodes = f"{'nodes' if len(place.nodes) > 1 else 'node'} {format_cpulist(place.nodes)}"
    lies = f"evenly on {nodes}" if place.policy == "interleave" else f"on {nodes}"
    threads = service.parameters["threads"]
    remarks = [remark for remark in service.remarks if remark != note]
    smaller = "" if one.best_context else " A longer one does not fit."
    return {
        "name": " ".join(
            [
                f"The unit is {service.unit}. Costs {format_bytes_short(need.total)} of memory {lies} "
                f"({need.format_parts()}), and {counted(threads, 'thread')} on CPUs {format_cpulist(place.busy_cpus)}.",
                *remarks,
            ]
        ),
        "model": (
            f"Its weights{' and those of the draft' if one.draft else ''} cost {format_bytes_short(need.weights)} of "
            "memory."
        ),
        "draft_model": f"Drafts {service.parameters.get('draft_max', 0)} tokens at a time, which is computed to gain "
        "on this host. Measure it. Costs its own weights and KV cache.",
        "task": "The file says that this model makes no text. Costs nothing.",
        "speculation": _guesses(one, note),
        "context": f"Tokens of all slots together.{smaller} Costs {format_bytes_short(need.kv_cache)} of KV cache.",
        "slots": f"{counted(slots, 'request')} at a time; more share the context. Costs nothing.",
        "cpus": "A part of the host that no other instance has. Costs the others these cores.",
        "hugepages": "The weights are read into huge pages. Costs a slower start than to map the file, and its memory "
        "is not shared with other instances.",
        "prompt_cache": "Prompts of earlier requests that need not be read again. "
        f"Costs up to {format_bytes_short(need.prompt_cache)} of memory.",
        "port": "On 127.0.0.1 only; set host and api_key_file to open it. Costs nothing.",
    }


def _guesses(one: Candidate, note: str) -> str:
    """Return how tokens are guessed; ``note`` is why a draft is left out."""
    if one.draft:
        return "Tokens are looked up in the text so far, else drafted. Costs little where a guess is wrong."
    found = "Tokens are looked up in the text so far, which costs next to nothing where it finds none."
    return f"{note} {found}".strip()
