# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the memory of an instance allows: the bandwidth of its CPUs and nodes, and the bytes that its steps read."""

from __future__ import annotations

from ..._errors import TuningError
from ..._models import model as gguf_model
from ..._models.memory_traffic import DraftModel, StepTraffic, compute_step_traffic
from ..rounds import schedule
from ..statistics import figures
from . import bandwidth as bandwidths
from .bandwidth import Bandwidth
from .ceiling import Ceiling, ceiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..load.answer import Sample
    from ..target.measured_instance import Target

#: Bytes that stay free while memory is read.
ROOM = 2 << 30
#: The scope of a bandwidth that is of all CPUs and nodes of an instance.
INSTANCE = "instance"
#: The arms in which an instance runs as it was planned.
AS_PLANNED = (*schedule.ANCHORS, schedule.AGAIN)


def measure(host: Host, target: Target) -> Bandwidth:
    """Return what the CPUs of an instance read from its nodes; with its memory policy, while it is idle."""
    top = host.topology
    cpus, nodes = target.cpus, target.nodes
    far = bandwidths.local(top, cpus) != set(nodes)
    policy = "interleave" if target.plan["expect"]["interleaved"] else "bind" if far else ""
    available = host.fs.read("/proc/meminfo").partition("MemAvailable:")[2].split()
    if not available or 1024 * int(available[0]) < bandwidths.size(top, cpus) + ROOM:
        return bandwidths.paper(top, cpus, nodes, ["There is too little free memory to measure its bandwidth."])
    return bandwidths.measure(top, cpus, nodes, _under(policy, target.plan["expect"]["nodes"]) if policy else ())


def _under(policy: str, nodes: str) -> list[str]:
    """Return the command that runs another one under a memory policy. systemd does so for the instance too."""
    properties = (f"NUMAPolicy={policy}", f"NUMAMask={nodes}")
    return ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *(f"--property={one}" for one in properties)]


def record(found: Bandwidth) -> dict[str, Any]:
    """Return a bandwidth as the run document holds it."""
    told = found.to_dict()
    return {"scope": INSTANCE, **{name: told[name] for name in ("cpus", "nodes", "gbps", "source")}}


def steps(target: Target, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return what a mean step of one stream read for each kind of prompt; nothing where a header does not say enough.

    TuningError where a model cannot be read.
    """
    file = target.model()
    if file is None:
        return []
    model = gguf_model.read_model(file)
    drafting = target.argument("--model-draft", "-md", "--spec-draft-model")
    draft = gguf_model.read_model(drafting) if drafting else None
    types = (target.argument("--cache-type-k", "-ctk") or "f16", target.argument("--cache-type-v", "-ctv") or "f16")
    rows = []
    for kind, those in _of_one_stream(samples).items():
        context = round(sum(one["prompt_n"] + one["predicted_n"] / 2 for one in those) / len(those))
        guessed = sum(one["drafted"] for one in those) / figures.steps_of(those)
        guesses = DraftModel(draft, guessed) if draft else None
        traffic = compute_step_traffic(model, context, types, draft=guesses, guessed=guessed)
        if traffic is not None:
            parts = {name: round(size) for name, size in traffic.parts.items()}
            rows.append({"kind": kind, "context": context, "guessed": round(guessed, 3), "parts": parts})
    return rows


def ceilings(document: Mapping[str, Any], samples: Iterable[Sample]) -> dict[str, Ceiling]:
    """Return by kind the mean step of these samples held against the memory; nothing where no bandwidth is known."""
    known = [one for one in document["bandwidth"] if one["scope"] == INSTANCE]
    if not known:
        return {}
    told = Bandwidth((), (), known[-1]["gbps"], known[-1]["source"])
    there = _of_one_stream(samples)
    found = {}
    for row in document["steps"]:
        if row["kind"] in there:
            traffic = StepTraffic(dict(row["parts"]), 0, 1 + row["guessed"])
            milliseconds = figures.ms_per_step(there[row["kind"]])
            found[row["kind"]] = ceiling(traffic, told, milliseconds, document["cache"])
    return found


def _of_one_stream(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for one in samples:
        if one["streams"] == 1:
            found.setdefault(one["kind"], []).append(one)
    return found


def unread(error: TuningError) -> str:
    """Return the remark on a model whose header could not be read."""
    return f"How near it comes to what its memory allows is not known: {error}"
