# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the best slots, context and prompt cache with which instances fit into the free memory.

The planner of llama_server plans each instance as for a recent build of llama.cpp. No server is run.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._host.node_memory import unused_memory_sentences
from ..._models.token_cost import TokenWork
from ..._notation.sizes import UNITS, format_bytes_short, parse_bytes
from ..options.options import ENGINES, Options
from ..plan.memory.free_memory import FreeMemory
from ..plan.memory.memory_need import estimate_memory_need, shares_kv_cache
from ..plan.memory.slot_state import add_checkpoints, estimate_slot_bytes, round_up_cache_size
from ..plan.planner import plan_instance
from .engine_choice import engine_for_model
from .model_use import CHAT, CORES_PER_SLOT, RETRIEVAL, USES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._models.model import Model
    from ..plan.instance_plan import InstancePlan
    from .model_request import ModelRequest
    from .model_use import ModelUse

#: The sizes of the prompt cache to try where the plan's own choice leaves too little to other instances.
PROMPT_CACHES_GIB = (64, 32, 16, 8, 4, 2, 1)
#: The context to propose for a model that does not fit with the requested one.
SMALLEST_CONTEXT = 4096
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
NO_PROMPT_CACHE = "0MiB"
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
    """A candidate for an instance: ``fixed`` are its options except for slots, context and prompt cache.

    ``levels`` are the pairs of slots and tokens of each slot to try, the best pair first, and ``level`` is the index of
    the chosen pair. ``prompt_cache`` is the chosen size, None where the plan shall choose one.
    """

    __slots__ = ("draft", "fixed", "level", "levels", "model", "prompt_cache", "request", "task", "use")

    def __init__(self, request: ModelRequest, model: Model, draft: Model | None, fixed: Mapping[str, Any]) -> None:
        self.model = model
        self.draft = draft
        self.request = request
        self.task = task_option_of_model(model)
        self.use = choose_model_use(request, model)
        self.fixed = {**(self.task or {"speculation": self.use.speculation}), **fixed}
        self.levels: list[tuple[int, int]] = []
        self.level = 0
        self.prompt_cache: str | None = None
        self.limit_slots(self.use.levels[0][0])

    def limit_slots(self, most_slots: int) -> None:
        """List the levels with at most this number of slots, unless the request has its own, and take the smallest."""
        trained = self.model.header_number_of_architecture("context_length")
        self.levels = self.use.levels_for_model(trained, self.request.slots, self.request.context, most_slots)
        self.level = len(self.levels) - 1
        self.prompt_cache = None if self.task else NO_PROMPT_CACHE

    def llama_server_options(self, level: int | None = None) -> dict[str, Any]:
        """Return the options of the instance for the module llama_server, at the chosen level or at ``level``."""
        slots, tokens = self.levels[self.level if level is None else level]
        values = {"model": self.model.path, **self.fixed, "slots": slots}
        engine = engine_for_model(self.model)
        if engine != ENGINES[0]:
            values["engine"] = engine
        if self.request.context or slots == 1:
            values["context"] = self.request.context or tokens
        else:
            values["context_per_slot"] = tokens
        if self.prompt_cache is not None:
            values["prompt_cache"] = self.prompt_cache
        if self.draft:
            values.update(draft_model=self.draft.path, speculation="cascade")
        return values

    def parse_options(self, level: int | None = None) -> Options:
        """Return the parsed options of the instance, with a placeholder as binary; levels as there."""
        return Options.parse({"binary": "/usr/bin/llama-server", **self.llama_server_options(level)})

    @property
    def has_largest_context(self) -> bool:
        """Whether the chosen level is the best of all levels."""
        return self.levels[self.level] == self.levels[0]

    @property
    def keeps_prompts(self) -> bool:
        """Whether the instance may have a prompt cache: it generates text, and its requests continue earlier ones."""
        return not self.task and self.use.prompt_cache is None

    def size_of_full_slot(self, level: int) -> str:
        """Return the size of a prompt cache that holds one full slot at a level."""
        options, server = self.parse_options(level), RecentServer(self.model)
        need = estimate_memory_need(options, server, self.model, self.draft)[0]
        shared = shares_kv_cache(options, server, [self.model])
        slot = estimate_slot_bytes(options, server, self.model, shared, self.draft)
        return _format_cache_size(
            round_up_cache_size(add_checkpoints(options, slot, need).full_slot_file_bytes) // UNITS["MiB"]
        )

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


def choose_model_use(request: ModelRequest, model: Model) -> ModelUse:
    """Return the use of a requested model; BadRequest where the model cannot be used so, or a draft has no effect."""
    makes_text = not task_option_of_model(model)
    if not makes_text and request.use not in (None, RETRIEVAL):
        raise BadRequest(f"use {request.use}: {request.model} makes no text. Leave use out, or say {RETRIEVAL}.")
    if makes_text and request.use == RETRIEVAL:
        raise BadRequest(
            f"use {RETRIEVAL}: the header of {request.model} states no pooling, as of a model that makes text. Take a "
            "model of embeddings or of ranking, or another use."
        )
    name = request.use or (request.default_use if request.default_use != RETRIEVAL else CHAT)
    use = USES[name if makes_text else RETRIEVAL]
    if request.draft and makes_text and use.speculation == "none":
        raise BadRequest(f"use {use.name} guesses no tokens, so that a draft has no effect. Leave draft out.")
    return use


def choose_best_levels_that_fit(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    """Set each candidate to the best level with which all candidates fit on the host together, and return all plans.

    Earlier candidates choose first. A level with room for a prompt cache of one full slot is better than any without.
    BadRequest from the planner where not even the smallest levels fit.
    """
    cores = len(host.topology.cores) // len(candidates)
    for candidate in candidates:
        candidate.limit_slots(max(1, cores // CORES_PER_SLOT))
    services = _plan_candidates(host, free, candidates)
    for candidate in candidates:
        services = _set_to_best_level_that_fits(host, free, candidates, candidate) or services
    for candidate in candidates:
        if candidate.keeps_prompts:
            services = _enlarge_prompt_cache(host, free, candidates, candidate) or services
    return services


def _set_to_best_level_that_fits(
    host: Host, free: FreeMemory, candidates: Sequence[Candidate], candidate: Candidate
) -> list[InstancePlan] | None:
    """Set a candidate to its best level that fits, and return all plans; None where only the smallest one fits."""
    smallest = candidate.level
    for with_prompt_cache in (True, False) if candidate.keeps_prompts else (False,):
        for level in range(len(candidate.levels)):
            candidate.level = level
            if not candidate.task:
                candidate.prompt_cache = candidate.size_of_full_slot(level) if with_prompt_cache else NO_PROMPT_CACHE
            services = _plan_candidates_if_all_fit(host, free, candidates)
            if services:
                return services
    candidate.level = smallest
    return None


def _enlarge_prompt_cache(
    host: Host, free: FreeMemory, candidates: Sequence[Candidate], candidate: Candidate
) -> list[InstancePlan] | None:
    """Give a candidate the largest useful prompt cache that fits, and return all plans; None where nothing changes."""
    before = candidate.prompt_cache or NO_PROMPT_CACHE
    least = parse_bytes(before, "prompt_cache")
    for size in (None, *(f"{gib}GiB" for gib in PROMPT_CACHES_GIB if gib * UNITS["GiB"] > least)):
        candidate.prompt_cache = size
        services = _plan_candidates_if_all_fit(host, free, candidates)
        if services:
            candidate.prompt_cache = _format_cache_size(
                services[candidates.index(candidate)].parameters["prompt_cache"]
            )
            return services
    candidate.prompt_cache = before
    return None


def _format_cache_size(mib: int) -> str:
    """Return a size in MiB as the option prompt_cache has it, such as "16GiB"."""
    return f"{mib // 1024}GiB" if mib and not mib % 1024 else f"{mib}MiB"


def _plan_candidates_if_all_fit(
    host: Host, free: FreeMemory, candidates: Sequence[Candidate]
) -> list[InstancePlan] | None:
    try:
        return _plan_candidates(host, free, candidates)
    except BadRequest:
        return None


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
        f"({whole.format_parts_with_sizes()}) with a context of {candidate.parse_options(-1).context}, and "
        f"{format_bytes_short(max(available, 0))} are available{evenly}.{unused_memory_sentences(host.topology)} "
        f"{_ways_to_fit_message(available, whole.total, candidate, request)} Nothing is recommended."
    )


def _ways_to_fit_message(available_bytes: int, total: int, candidate: Candidate, request: ModelRequest) -> str:
    ways = []
    smallest = SMALLEST_CONTEXT * (request.slots or 1)
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
