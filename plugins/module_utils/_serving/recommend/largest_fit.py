# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The largest context and prompt cache with which instances fit into the memory that is there.

The planner of llama_server plans and counts each, for a recent build of llama.cpp; the server itself is not asked.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models.token_cost import Work
from ..._notation.sizes import format_bytes_short
from ..options.options import Options
from ..plan.free_memory import FreeMemory, sum_over_nodes
from ..plan.memory_need import estimate_memory_need
from ..plan.planner import plan_instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._models.model import Model
    from ..plan.instance_plan import InstancePlan
    from .model_request import Asked

#: Tokens of each slot that are tried, from the best down. Longer ones take minutes to read on a CPU.
CONTEXTS = (32768, 16384, 8192, 4096)
#: Memory for prompts of earlier requests that is tried. 8 GiB is the default of the server; with many conversations,
#: more of it saves the reading of prompts again.
PROMPT_CACHES = ("64GiB", "8GiB", "2GiB", "0MiB")
#: Types of weights and about how many bits each takes for a weight.
#: Source: tools/quantize/README.md of llama.cpp, Llama 3.1 8B.
BITS = (
    ("Q8_0", 8.5),
    ("Q6_K", 6.6),
    ("Q5_K_M", 5.7),
    ("Q4_K_M", 4.9),
    ("Q3_K_M", 4.0),
    ("Q2_K", 3.2),
    ("IQ2_XXS", 2.4),
    ("IQ1_S", 2.0),
)
#: Values of ARCHITECTURE.pooling_type in a model file: none, and the one of models that rank.
NO_POOLING, RANK = 0, 4


class Recent:
    """What is assumed of the server: a build of llama.cpp that has all that a plan makes use of."""

    engine = "llama.cpp"
    pins_work = openmp = True

    def works(self, dummy_flag: str) -> bool:
        """Return that it has the flag."""
        return True


class Candidate:
    """An instance to be: its options but for context and prompt cache, of which ``levels`` has what to try in order.

    ``level`` is the number of the chosen one.
    """

    __slots__ = ("draft", "fixed", "level", "levels", "model")

    def __init__(self, asked: Asked, model: Model, draft: Model | None, fixed: Mapping[str, Any]) -> None:
        self.model = model
        self.draft = draft
        task = task_of(model)
        self.fixed = {"slots": asked.slots or 1, **(task or {"speculation": "ngram"}), **fixed}
        # Only a server that goes on with texts keeps prompts.
        caches: Sequence[str | None] = (None,) if task else PROMPT_CACHES
        self.levels = [(context, cache) for context in contexts(asked, model) for cache in caches]
        self.level = len(self.levels) - 1

    def values(self, level: int | None = None) -> dict[str, Any]:
        """Return the options of the instance as llama_server takes them, at the chosen level or another one."""
        context, cache = self.levels[self.level if level is None else level]
        values = {"model": self.model.path, **self.fixed, "context": context}
        if cache is not None:
            values["prompt_cache"] = cache
        if self.draft:
            values.update(draft_model=self.draft.path, speculation="cascade")
        return values

    def options(self, level: int | None = None) -> Options:
        """Return the same in the types of the planner, to which it does not matter which program it is."""
        return Options.parse({"binary": "/usr/bin/llama-server", **self.values(level)})

    @property
    def best_context(self) -> bool:
        """Whether it has the largest context that was to be tried."""
        return self.levels[self.level][0] == self.levels[0][0]

    @property
    def reading(self) -> float:
        """The bytes that a token reads."""
        return Work.of(self.model).bytes(1)

    def least(self, level: int = -1) -> int:
        """Return the bytes that it needs at least."""
        return estimate_memory_need(self.options(level), Recent(), self.model, self.draft)[0].total


def task_of(model: Model) -> dict[str, str]:
    """Return the option ``task`` for a model that makes vectors or compares texts, nothing for one that makes texts."""
    pooling = model.of_architecture("pooling_type") or NO_POOLING
    return {"task": "rerank" if pooling == RANK else "embedding"} if pooling != NO_POOLING else {}


def contexts(asked: Asked, model: Model) -> list[int]:
    """Return the contexts to try, of all slots together, from the largest down, or only the one that was asked for."""
    if asked.context:
        return [asked.context]
    trained = model.of_architecture("context_length") or CONTEXTS[0]
    each = [context for context in CONTEXTS if context <= trained] or [trained]
    return [context * (asked.slots or 1) for context in each]


def fit(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    """Plan all candidates beside each other, each at the best level that leaves the others their last one.

    Sets their levels. BadRequest is the planner's, where not even their last levels fit.
    """
    for one in candidates:
        one.level = len(one.levels) - 1
    services = _planned(host, free, candidates)
    for one in candidates:
        last = one.level
        for level in range(last):
            one.level = level
            try:
                services = _planned(host, free, candidates)
                break
            except BadRequest:
                one.level = last
    return services


def _planned(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    left = FreeMemory(
        free.available, free.free, free.default_kb, free.hugetlbfs_kb, free.isolated, free.thp, (), free.partition
    )
    services = []
    for one in candidates:
        service = plan_instance(one.options(), host, Recent(), one.model, one.draft, left)
        left.reserve(service.need.total, service.placement.nodes)
        services.append(service)
    return services


def refuse_what_never_fits(host: Host, free: FreeMemory, one: Candidate, asked: Asked) -> None:
    """Raise BadRequest where the whole host is too small for an instance, with numbers and what would fit."""
    nodes = [node.id for node in host.topology.nodes if node.cpus and node.bytes] or [0]
    there = sum_over_nodes({node: free.available.get(node, 0) for node in nodes}, len(nodes) > 1)
    whole = estimate_memory_need(one.options(-1), Recent(), one.model, one.draft)[0]
    if whole.total <= there:
        return
    evenly = " evenly on its nodes" if len(nodes) > 1 else ""
    raise BadRequest(
        f"{one.model.path} does not fit on this host: it needs at least {format_bytes_short(whole.total)} "
        f"({whole.format_parts()}) with a context of {one.levels[-1][0]}, and {format_bytes_short(max(there, 0))} are "
        f"available{evenly}. {_what_would(there, whole.total, one, asked)} Nothing is recommended."
    )


def _what_would(there: int, total: int, one: Candidate, asked: Asked) -> str:
    ways = []
    smallest = CONTEXTS[-1] * (asked.slots or 1)
    if asked.context and asked.context > smallest:
        options = Options.parse({"binary": "/usr/bin/llama-server", **one.values(-1), "context": smallest})
        if estimate_memory_need(options, Recent(), one.model, one.draft)[0].total <= there:
            ways.append(f"With a context of {smallest} it would fit.")
    elements = sum(tensor.elements for tensor in one.model.tensors)
    weights = sum(part.data for part in one.model.parts)
    bits = 8 * (there - (total - weights)) / elements if elements else 0
    name = next((name for name, each in BITS if each <= bits), None)
    if name:
        now = 8 * weights / elements
        ways.append(f"A file with {bits:.1f} bits for each weight would fit, as {name} has; this one has {now:.1f}.")
    return " ".join(ways) or "Take a smaller model."
