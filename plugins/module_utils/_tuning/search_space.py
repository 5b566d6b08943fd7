# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The search space of a tuning: options of an instance, each with its values to try from the smallest to the largest.

Options for the model, its answers, its clients or its limits are never tried. The values depend on host and instance;
the planner refuses impossible combinations.
"""

from __future__ import annotations

from .._errors import BadRequest
from .._serving.options.options import ENGINES, MEMORY_POLICIES, POLICIES_BY_THREAD
from .._serving.plan.cpu_assignment import first_cpu_of_each_core
from .._serving.plan.decode_threads import LEAST_CORES, THREADS_STEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .._host.host import Host
    from .._serving.plan.instance_plan import InstancePlan
    from .._serving.plan.placement import ServerCapabilities

#: Numbers of threads to try, as shares of the cores: some of the cores often read as fast as all cores.
CORE_SHARES = (0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
DRAFT_MAX, DRAFT_P_MIN = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16), (0.0, 0.25, 0.5, 0.75, 0.9)
NGRAM_LOOKUP, NGRAM_MAX = (3, 4, 6, 8, 12), (2, 4, 6, 8, 12, 16, 24, 32)
UBATCH = (128, 256, 512, 1024, 2048)
#: The default of llama-server.
DEFAULT_UBATCH = 512
#: Option -> the standard deviation of the effect that a search expects of its values, as a log ratio, before it has
#: measured any. Options with large effects are tried first. Source: effects that were published of other hosts.
EXPECTED_EFFECTS = {
    "speculation": 0.12,
    "repack_at_start": 0.12,
    "threads": 0.08,
    "draft_max": 0.08,
    "ngram_max": 0.06,
    "memory": 0.06,
}
OTHER_EXPECTED_EFFECT = 0.05
POLICIES = ("local", *(policy for policy in MEMORY_POLICIES if policy != "local"))


class SearchSpace:
    """Options by name: ``values`` has the values to try, and ``default`` the present value."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.default: dict[str, Any] = {}

    def add_option_with_other_values(self, option: str, default: Any, values_to_try: Iterable[Any]) -> None:
        """Add an option with its values to try, unless its present value is the only one."""
        values = list(values_to_try)
        if default not in values:
            values = sorted([*values, default])
        if len(values) > 1:
            self.values[option] = values
            self.default[option] = default

    @property
    def promising_options(self) -> list[str]:
        """The options with the largest expected effects first."""
        effects = self.expected_effects
        return sorted(self.values, key=lambda option: -effects[option])

    @property
    def expected_effects(self) -> dict[str, float]:
        """The standard deviation of the effect of the values of each option, before any measurement."""
        return {option: EXPECTED_EFFECTS.get(option, OTHER_EXPECTED_EFFECT) for option in self.values}

    def remove_other_options(self, options: Sequence[str]) -> None:
        """Remove all options but these; BadRequest for an option that cannot be tried."""
        for option in options:
            if option not in self.values:
                known = ", ".join(self.values) or "none"
                raise BadRequest(f"options: {option} cannot be tried for this instance; here are {known}.")
        self.values = {option: values for option, values in self.values.items() if option in options}
        self.default = {option: self.default[option] for option in self.values}


def build_search_space(service: InstancePlan, host: Host, server: ServerCapabilities) -> SearchSpace:
    """Return the search space of a planned instance, whose program is ``server``."""
    options, parameters, space = service.options, service.parameters, SearchSpace()
    computing = sorted(set(service.placement.cpus).difference(service.placement.http_cpus))
    cores = len(first_cpu_of_each_core(host.topology, computing))
    for option in ("threads", "threads_batch"):
        space.add_option_with_other_values(option, parameters[option], _thread_counts_to_try(cores))
    if options.can_speculate or not options.speculation:
        kind = options.drafting_kind or ("draft" if options.draft_model else "")
        with_draft = (kind, f"ngram,{kind}") if kind else ()
        space.add_option_with_other_values(
            "speculation", options.speculation_text, ("none", "ngram", "ngram_mod", *with_draft)
        )
    if parameters.get("draft_max"):
        space.add_option_with_other_values("draft_max", parameters["draft_max"], DRAFT_MAX)
        space.add_option_with_other_values("draft_p_min", parameters["draft_p_min"], DRAFT_P_MIN)
    if "ngram_max" in parameters:
        space.add_option_with_other_values("ngram_lookup", options.ngram_lookup, NGRAM_LOOKUP)
        space.add_option_with_other_values("ngram_max", parameters["ngram_max"], NGRAM_MAX)
    most = options.batch or UBATCH[-1]
    space.add_option_with_other_values(
        "ubatch", options.ubatch or min(DEFAULT_UBATCH, most), [size for size in UBATCH if size <= most]
    )
    if len(host.topology.nodes) > 1:
        several = len(service.placement.nodes) > 1
        policies = [policy for policy in POLICIES if policy != "mirror" or policy in server.offered_values("--numa")]
        space.add_option_with_other_values(
            "memory", service.placement.policy, policies if several else ("local", "bind")
        )
    if options.hugepages != "hugetlbfs" and not options.lock:
        space.add_option_with_other_values("hugepages", options.hugepages, ("none", "thp", "pool"))
    mapped = options.hugepages == "hugetlbfs" or service.placement.policy in POLICIES_BY_THREAD
    if server.engine != ENGINES[0] and not mapped:
        space.add_option_with_other_values("repack_at_start", options.repack_at_start, (False, True))
    return space


def _thread_counts_to_try(cores: int) -> list[int]:
    """Return shares of the cores; where there are many, in numbers that divide the rows of most models."""
    step = THREADS_STEP if cores >= LEAST_CORES else 1
    return sorted({*(max(step, step * round(cores * share / step)) for share in CORE_SHARES if share < 1), cores})
