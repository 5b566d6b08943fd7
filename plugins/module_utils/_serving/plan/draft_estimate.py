# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Estimates how many tokens a draft should propose on this host, from the cost of a token.

A token takes the longer of two times: the time to read the weights, and the time to compute. Tokens that are verified
together share the reading, but each needs its own computing, so that a host with few cores gains little.
"""

from __future__ import annotations

from ..._host import memory_channels
from ..prediction.step_floor import MEASURED_PARAMETERS, one_core_batch_milliseconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.topology import Topology
    from ..._models.token_cost import TokenWork

#: The share of the bandwidth that llama.cpp reaches: 0.55 to 0.75 of the data sheet, 0.51 to 0.87 of what was measured.
UTILIZATION = 0.65
#: Seconds for which threads wait at barriers, for each core and drafted token. Measured with 128 cores.
BARRIER_SECONDS = 0.001 / 128
#: The share of drafted tokens that is accepted. Reports have 0.6 to 0.7 for prose, and more for code.
ACCEPTANCE = 0.7
LONGEST_DRAFT = 16
#: A draft model that multiplies the rate by less than this is left out.
LEAST_GAIN = 1.1
NEARLY_BEST = 0.98


class ComputeResources:
    """The resources with which a model computes: its cores, and the bytes per second that all its cores read."""

    __slots__ = ("bandwidth", "cores")

    def __init__(self, cores: int, bandwidth: float) -> None:
        self.cores = cores
        self.bandwidth = bandwidth


class DraftEstimate:
    """The best length of a draft, 0 where a draft gains too little, and tokens per second with and without a draft."""

    __slots__ = ("draft_max", "rate", "rate_without_draft")

    def __init__(self, draft_max: int, rate: float, rate_without_draft: float) -> None:
        self.draft_max = draft_max
        self.rate = rate
        self.rate_without_draft = rate_without_draft


def count_cores_and_bandwidth(
    top: Topology, cpus: Sequence[int], nodes: Sequence[int], bandwidth: float | None = None
) -> ComputeResources:
    """Return the number of cores among some CPUs, and the bandwidth with which these cores read memory of some nodes.

    ``bandwidth`` is the measured bandwidth of these nodes in GB/s; None takes a share of the data sheet's peak.
    """
    members = set(cpus)
    cores = sum(1 for core in top.cores if members.intersection(core))
    if bandwidth is None:
        share = len(nodes) / len(top.nodes)
        peak = memory_channels.data_sheet_gbps_of_socket(top) or memory_channels.ASSUMED_SOCKET_GBPS
        bandwidth = UTILIZATION * peak * max(1, len(top.sockets)) * share
    ccds, link = len(memory_channels.numbers_of_ccds(top, cpus)), memory_channels.ccd_gbps(top)
    return ComputeResources(cores, 1e9 * min(bandwidth, link * ccds) if ccds and link else 1e9 * bandwidth)


def estimate_batch_seconds(work: TokenWork, resources: ComputeResources, tokens: int) -> float:
    """Return the seconds for a batch of tokens: the longer of the times to read the weights and to compute."""
    computing = (
        one_core_batch_milliseconds(tokens) / 1000 * work.parameters_per_token / MEASURED_PARAMETERS / resources.cores
    )
    return max(work.bytes_read_by_batch(tokens) / resources.bandwidth, computing)


def expected_tokens_per_step(acceptance: float, drafted: int) -> float:
    """Return the average number of tokens that a step gives, including the token that the model itself adds."""
    return sum(acceptance**number for number in range(drafted + 1))


def estimate_tokens_per_second(
    target: TokenWork,
    draft: TokenWork,
    resources: ComputeResources,
    draft_resources: ComputeResources,
    drafted: int,
    acceptance: float = ACCEPTANCE,
) -> float:
    """Return the tokens per second of a model when each step drafts ``drafted`` tokens, one after the other."""
    step = estimate_batch_seconds(target, resources, drafted + 1)
    if drafted:
        step += drafted * _estimate_draft_token_seconds(draft, draft_resources)
    return expected_tokens_per_step(acceptance, drafted) / step


def _estimate_draft_token_seconds(draft: TokenWork, resources: ComputeResources) -> float:
    return estimate_batch_seconds(draft, resources, 1) + BARRIER_SECONDS * resources.cores


def least_token_probability_worth_drafting(
    target: TokenWork, draft: TokenWork, resources: ComputeResources, draft_resources: ComputeResources, drafted: int
) -> float:
    """Return the least probability of a token at which drafting that token gains time.

    One more token costs the time to draft it and its share of the longer batch. In the same time, the server would
    generate tokens at the usual rate. A drafted token counts only when all tokens before it were accepted. ``drafted``
    is the length of a draft.
    """
    batch = (
        estimate_batch_seconds(target, resources, drafted + 1) - estimate_batch_seconds(target, resources, 1)
    ) / drafted
    cost = (batch + _estimate_draft_token_seconds(draft, draft_resources)) * estimate_tokens_per_second(
        target, draft, resources, draft_resources, drafted
    )
    return round(min(max(cost / ACCEPTANCE ** (drafted - 1), 0.05), 0.9), 2)


def estimate_best_draft_length(
    target: TokenWork,
    draft: TokenWork,
    resources: ComputeResources,
    draft_resources: ComputeResources,
    acceptance: float = ACCEPTANCE,
    resources_without_draft: ComputeResources | None = None,
) -> DraftEstimate:
    """Return the estimate for the shortest draft with nearly the best rate; length 0 where no draft gains enough.

    ``resources`` are the resources of the model while a draft runs too. ``resources_without_draft`` are more than these
    where the draft has CPUs of its own.
    """
    plain = estimate_tokens_per_second(target, draft, resources_without_draft or resources, draft_resources, 0)
    rates = {
        k: estimate_tokens_per_second(target, draft, resources, draft_resources, k, acceptance)
        for k in range(1, LONGEST_DRAFT + 1)
    }
    # Among nearly equal rates, the shortest draft loses least when fewer tokens are accepted than assumed.
    best = min(k for k in rates if rates[k] >= NEARLY_BEST * max(rates.values()))
    return DraftEstimate(best if rates[best] >= LEAST_GAIN * plain else 0, rates[best], plain)
