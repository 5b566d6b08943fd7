# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the largest context and prompt cache with which instances fit into the free memory.

The planner of llama_server plans each instance as for a recent build of llama.cpp. No server is run.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models.token_cost import TokenWork
from ..._notation.sizes import format_bytes_short
from ..options.options import ENGINES, Options
from ..plan.free_memory import FreeMemory
from ..plan.memory_need import estimate_memory_need
from ..plan.planner import plan_instance
from .engine_choice import engine_for_model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._models.model import Model
    from ..plan.instance_plan import InstancePlan
    from .model_request import ModelRequest

#: The contexts to try, in tokens of each slot, the best first. A CPU would take minutes to read a longer context.
CONTEXTS = (32768, 16384, 8192, 4096)
#: The sizes of the prompt cache to try, the best first. The server's default is 8 GiB. With many conversations, the
#: server reads fewer prompts again if the cache is larger.
PROMPT_CACHES = ("64GiB", "8GiB", "2GiB", "0MiB")
#: Types of weights, and the average bits of a weight.
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
#: Values of ARCHITECTURE.pooling_type in a model file: of models that generate text, and of models that rank texts.
NO_POOLING, RANK = 0, 4


class RecentServer:
    """The assumed server of a model: a build of its engine with OpenMP that has every flag of the plan."""

    openmp = True

    def __init__(self, model: Model) -> None:
        self.engine = engine_for_model(model)
        self.can_pin_threads = self.engine == ENGINES[0]

    def has_flag(self, dummy_flag: str) -> bool:
        """Return True for every flag."""
        return True

    def offered_values(self, dummy_flag: str) -> tuple[str, ...]:
        """Return no values, because none is assumed of any flag."""
        return ()


class Candidate:
    """A candidate for an instance: ``fixed`` are all its options except for context and prompt cache.

    ``levels`` are the pairs of context and prompt cache to try, the best pair first. ``level`` is the index of the
    chosen pair.
    """

    __slots__ = ("draft", "fixed", "level", "levels", "model")

    def __init__(self, request: ModelRequest, model: Model, draft: Model | None, fixed: Mapping[str, Any]) -> None:
        self.model = model
        self.draft = draft
        task = task_option_of_model(model)
        self.fixed = {"slots": request.slots or 1, **(task or {"speculation": "ngram"}), **fixed}
        # Only a server that generates text has a prompt cache.
        caches: Sequence[str | None] = (None,) if task else PROMPT_CACHES
        self.levels = [(context, cache) for context in list_contexts_to_try(request, model) for cache in caches]
        self.level = len(self.levels) - 1

    def llama_server_options(self, level: int | None = None) -> dict[str, Any]:
        """Return the options of the instance for the module llama_server, at the chosen level or at ``level``."""
        context, cache = self.levels[self.level if level is None else level]
        values = {"model": self.model.path, **self.fixed, "context": context}
        engine = engine_for_model(self.model)
        if engine != ENGINES[0]:
            values["engine"] = engine
        if cache is not None:
            values["prompt_cache"] = cache
        if self.draft:
            values.update(draft_model=self.draft.path, speculation="cascade")
        return values

    def parse_options(self, level: int | None = None) -> Options:
        """Return the parsed options of the instance, with a placeholder as binary; levels as there."""
        return Options.parse({"binary": "/usr/bin/llama-server", **self.llama_server_options(level)})

    @property
    def has_largest_context(self) -> bool:
        """Whether the chosen level has the largest context of all levels."""
        return self.levels[self.level][0] == self.levels[0][0]

    @property
    def bytes_per_token(self) -> float:
        """The bytes of weights that decoding one token reads."""
        return TokenWork.of_model(self.model).bytes_read_by_batch(1)

    def bytes_needed_at_level(self, level: int = -1) -> int:
        """Return the bytes of memory that the instance needs at a level, by default at the smallest level."""
        return estimate_memory_need(self.parse_options(level), RecentServer(self.model), self.model, self.draft)[
            0
        ].total


def task_option_of_model(model: Model) -> dict[str, str]:
    """Return the option ``task`` for a model that computes embeddings or ranks texts; empty for a text generator."""
    pooling = model.header_number_of_architecture("pooling_type") or NO_POOLING
    return {"task": "rerank" if pooling == RANK else "embedding"} if pooling != NO_POOLING else {}


def list_contexts_to_try(request: ModelRequest, model: Model) -> list[int]:
    """Return the contexts to try, in tokens of all slots, from the largest down, or only the requested context."""
    if request.context:
        return [request.context]
    trained = model.header_number_of_architecture("context_length") or CONTEXTS[0]
    slot_contexts = [context for context in CONTEXTS if context <= trained] or [trained]
    return [context * (request.slots or 1) for context in slot_contexts]


def choose_best_levels_that_fit(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    """Set each candidate to the best level with which all candidates fit on the host together, and return all plans.

    Earlier candidates choose first. BadRequest from the planner where not even the smallest levels fit.
    """
    for candidate in candidates:
        candidate.level = len(candidate.levels) - 1
    services = _plan_candidates(host, free, candidates)
    for candidate in candidates:
        last = candidate.level
        for level in range(last):
            candidate.level = level
            try:
                services = _plan_candidates(host, free, candidates)
                break
            except BadRequest:
                candidate.level = last
    return services


def _plan_candidates(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    left = FreeMemory(
        free.available, free.free, free.default_kb, free.hugetlbfs_kb, free.isolated, free.thp, (), free.partition
    )
    services = []
    for candidate in candidates:
        service = plan_instance(
            candidate.parse_options(), host, RecentServer(candidate.model), candidate.model, candidate.draft, left
        )
        left.reserve(service.need.total, service.placement.nodes)
        services.append(service)
    return services


def require_candidate_fits_on_host(host: Host, free: FreeMemory, candidate: Candidate, request: ModelRequest) -> None:
    """Raise BadRequest where the whole host is too small for a candidate; its message says what would fit."""
    nodes = [node.id for node in host.topology.nodes if node.cpus and node.bytes] or [0]
    available = free.count_free_bytes(nodes, even=len(nodes) > 1)
    whole = estimate_memory_need(
        candidate.parse_options(-1), RecentServer(candidate.model), candidate.model, candidate.draft
    )[0]
    if whole.total <= available:
        return
    evenly = " evenly on its nodes" if len(nodes) > 1 else ""
    raise BadRequest(
        f"{candidate.model.path} does not fit on this host: it needs at least {format_bytes_short(whole.total)} "
        f"({whole.format_parts_with_sizes()}) with a context of {candidate.levels[-1][0]}, and "
        f"{format_bytes_short(max(available, 0))} are available{evenly}. "
        f"{_ways_to_fit_message(available, whole.total, candidate, request)} Nothing is recommended."
    )


def _ways_to_fit_message(available_bytes: int, total: int, candidate: Candidate, request: ModelRequest) -> str:
    ways = []
    smallest = CONTEXTS[-1] * (request.slots or 1)
    if request.context and request.context > smallest:
        options = Options.parse(
            {"binary": "/usr/bin/llama-server", **candidate.llama_server_options(-1), "context": smallest}
        )
        if (
            estimate_memory_need(options, RecentServer(candidate.model), candidate.model, candidate.draft)[0].total
            <= available_bytes
        ):
            ways.append(f"With a context of {smallest} it would fit.")
    elements = sum(tensor.elements for tensor in candidate.model.tensors)
    weights = candidate.model.weight_bytes
    bits = 8 * (available_bytes - (total - weights)) / elements if elements else 0
    name = next((name for name, each in BITS if each <= bits), None)
    if name:
        current_bits = 8 * weights / elements
        ways.append(
            f"A file with {bits:.1f} bits for each weight would fit, as {name} has; this one has {current_bits:.1f}."
        )
    return " ".join(ways) or "Take a smaller model."
