# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of speculation: its kinds, the length of a draft, the least probability of a token, and the draft's CPUs."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._host.memory_channels import data_sheet_gbps_of_socket
from ..._host.memory_speed import MEASURE_COMMAND, MEASURED
from ..._models import draft_compatibility
from ..._models.token_cost import TokenWork
from ..options.speculation_kinds import SERVER_KINDS, sort_speculation_kinds
from . import cpu_assignment, draft_estimate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..._host.host import Host
    from ..._models.model import Model
    from ..options.options import Options
    from .draft_estimate import ComputeResources, DraftEstimate


class SpeculationPlan:
    """How an instance speculates. ``draft_max`` is the length of a draft in tokens, 0 where no draft model runs.

    ``busy`` are the CPUs on which the model computes. ``cpus`` are the CPUs of the draft, empty where the draft and the
    model share all CPUs. A draft in its own process shares no CPU with the model.
    """

    __slots__ = ("busy", "cpus", "draft_left_out_reason", "draft_max", "kinds", "p_min", "placement", "remarks")

    def __init__(self, kinds: Sequence[str], busy: Sequence[int]) -> None:
        self.kinds = list(kinds)
        self.busy = list(busy)
        self.draft_max = 0
        self.p_min = 0.0
        self.placement = "shared"
        self.cpus: tuple[int, ...] = ()
        self.remarks: list[str] = []
        #: Why the requested draft is left out; empty where no draft was left out.
        self.draft_left_out_reason = ""

    @property
    def uses_ngrams(self) -> bool:
        """Whether one of the kinds of speculation looks up n-grams in the text so far."""
        return any(kind.startswith("ngram") for kind in self.kinds)

    @property
    def drafts_on_first_threads(self) -> bool:
        """Whether the draft computes on the first threads of the model, which are pinned to one CCD."""
        return bool(self.draft_max) and self.placement == "first_ccd"

    @property
    def has_draft_process(self) -> bool:
        return bool(self.draft_max) and self.placement == "own_ccd"


def plan_speculation(
    options: Options, host: Host, busy: Sequence[int], model: Model, draft: Model | None
) -> SpeculationPlan:
    """Return how an instance speculates. A draft that gains nothing here is left out, unless draft_max is set."""
    words = sort_speculation_kinds(options.speculation)
    result = SpeculationPlan([SERVER_KINDS[word] for word in words] if options.can_speculate else [], busy)
    if words != list(options.speculation):
        result.remarks.append(f"speculation: the server always asks the kinds in this order: {', '.join(words)}.")
    if words and options.projector:
        result.remarks.append(
            f"speculation {options.speculation_text} is left out, because servers of build 11434 end with an error "
            "when they guess tokens in a text with a picture. Set speculation to none to avoid this remark."
        )
    if not options.drafting_kind or not result.kinds:
        return result
    top = host.topology
    result.placement = options.draft_placement
    cpus = _choose_draft_cpus(options, host, busy) if options.draft_placement != "shared" else ()
    rest = [cpu for cpu in busy if cpu not in cpus] if options.draft_placement == "own_ccd" else busy
    # Memory is on the nodes of the model's CPUs: a draft on another socket must not move the model's memory there.
    resources = _count_resources(
        options, host, rest or busy, cpu_assignment.choose_memory_nodes(options, host, rest or busy)
    )
    near = [node.id for node in top.nodes if set(node.cpus) & set(cpus)]
    draft_resources = _count_resources(options, host, cpus, near) if cpus else resources
    draft_work = (
        TokenWork.of_model(draft)
        if draft and options.drafting_kind not in draft_compatibility.HEAD_KINDS
        else draft_compatibility.work_per_drafted_token(model, draft)
    )
    works = TokenWork.of_model(model, options.experts), draft_work
    # Without the draft, the model would compute on all CPUs, so the rate without a draft counts with all CPUs.
    alone = _count_resources(options, host, busy, cpu_assignment.choose_memory_nodes(options, host, busy))
    estimate = draft_estimate.estimate_best_draft_length(
        *works, resources, draft_resources, resources_without_draft=alone
    )
    result.draft_max = options.draft_max or estimate.draft_max
    if _measured_gbps(options, host, host.memory_speed.measured_by_node) is None and not data_sheet_gbps_of_socket(top):
        result.remarks.append(
            f"The memory bandwidth of {top.model or 'this CPU'} is not known, so {resources.bandwidth / 1e9:.0f} GB/s "
            f"are assumed to choose draft_max. Measure it ({MEASURE_COMMAND}), or set bandwidth."
        )
    if not estimate.draft_max:
        named = draft.path if draft else f"what {model.path} guesses by itself"
        message = _no_gain_message(named, estimate, bool(options.draft_max))
        result.remarks.append(message)
        result.draft_left_out_reason = "" if options.draft_max else message
    if not result.draft_max:
        result.kinds.remove(SERVER_KINDS[options.drafting_kind])
        return result
    result.cpus = tuple(cpus)
    if result.has_draft_process:
        result.busy = list(rest)
    if options.draft_p_min is not None:
        result.p_min = options.draft_p_min
    else:
        result.p_min = draft_estimate.least_token_probability_worth_drafting(
            *works, resources, draft_resources, result.draft_max
        )
    return result


def _count_resources(options: Options, host: Host, cpus: Sequence[int], nodes: Sequence[int]) -> ComputeResources:
    return draft_estimate.count_cores_and_bandwidth(host.topology, cpus, nodes, _measured_gbps(options, host, nodes))


def _measured_gbps(options: Options, host: Host, nodes: Collection[int]) -> float | None:
    """Return the GB/s that decoding reaches on some nodes: the option, or a share of what was measured; else None."""
    if options.bandwidth is not None:
        return float(options.bandwidth)
    gbps, source = host.memory_speed.gbps_for(nodes)
    return draft_estimate.UTILIZATION * gbps if source == MEASURED else None


def _no_gain_message(draft: str, estimate: DraftEstimate, insists: bool) -> str:
    left = "It runs because draft_max is set." if insists else "It is left out; set draft_max to run it nevertheless."
    return (
        f"On this host {draft} is computed to gain nothing: {estimate.rate:.1f} tokens per second at best, and "
        f"{estimate.rate_without_draft:.1f} without. {left}"
    )


def _choose_draft_cpus(options: Options, host: Host, busy: Sequence[int]) -> tuple[int, ...]:
    """Return the CPUs of the draft: the option draft_cpus, or else the role draft, or else one CCD.

    The chosen CCD is the one that has the most CPUs of the instance.
    """
    members = set(busy)
    if options.draft_cpus:
        named = cpu_assignment.parse_cpu_selection(host, options.draft_cpus)
        if options.draft_placement == "first_ccd" and not members.issuperset(named):
            raise BadRequest(
                f"draft_cpus {options.draft_cpus} are not all among cpus, and draft_placement first_ccd drafts on the "
                "first threads of the model. Say own_ccd, or CPUs of the instance."
            )
        return tuple(named)
    role_cpus = tuple(cpu for cpu in host.plan.draft if cpu in members)
    if role_cpus:
        return role_cpus
    ccds = [tuple(cpu for domain in ccd for cpu in domain.cpus if cpu in members) for ccd in host.topology.ccds]
    if not ccds:
        raise BadRequest("This host reports no CCD for the draft. Use draft_placement shared.")
    # The kernel works on CPU 0 most, so of CCDs with as many CPUs, the one with CPU 0 comes last.
    first = {cpu for ccd in host.topology.ccds[:1] for domain in ccd for cpu in domain.present}
    return max(ccds, key=lambda cpus: (len(cpus), first.isdisjoint(cpus)))
