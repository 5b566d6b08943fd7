# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the papers promise of an EPYC, beside what the hosts of a fleet can do.

The papers are the design documents of this collection. Their tiers are a dense 70B on one 9754, a 671B on one socket,
and a 405B in 16 bits on two sockets. Sizes are those of the public files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import ModelShape
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import fleet as fleets
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.machine import plan_service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import CapacityRequest
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.machine import Machine, Service

#: Llama 3.3 70B in Q4_K_M, Llama 3.1 405B in F16, and DeepSeek V3 671B-A37B in Q8_0, as their files describe them.
DENSE_70B = ModelShape("70B dense, Q4_K_M", "Q4_K_M", "llama", 70.55e9, 70.55e9, 42.52e9, 42.0e9, 80, 327680, 131072)
DENSE_405B = ModelShape("405B dense, F16", "F16", "llama", 405.9e9, 405.9e9, 811.7e9, 807.5e9, 126, 516096, 131072)
MIXTURE_671B = ModelShape(
    *("671B mixture, Q8_0", "Q8_0", "deepseek2", 671.0e9, 37.5e9, 713.3e9, 39.3e9, 61, 70272, 163840), 8 / 256
)
#: The rate that the papers promise of a dense 70B on one socket, in tokens per second.
PROMISED_RATE = 60.0
#: Tokens that a step gives at best with a draft model whose tokens are accepted with a probability of 0.65 to 0.7: 2.8
#: to 3.3, before the time for drafting.
TOKENS_PER_STEP = 3.0


class PaperTier:
    """A tier of the papers: its model, and the promise in their words."""

    __slots__ = ("name", "promise", "shape")

    def __init__(self, name: str, shape: ModelShape, promise: str) -> None:
        self.name = name
        self.shape = shape
        self.promise = promise


PAPER_TIERS = (
    PaperTier(fleets.INTERACTIVE, DENSE_70B, "60 to 75 t/s, 3 to 4 users"),
    PaperTier(fleets.LARGE, MIXTURE_671B, "6.2 t/s, 1 user"),
    PaperTier(fleets.LARGEST, DENSE_405B, "5 to 6 t/s, two sockets"),
)


class TierService:
    """What the hosts could do for a tier of the papers if they served nothing else.

    ``holders`` are the hosts whose memory holds the model, and ``best`` is what the fastest of them serves.
    """

    __slots__ = ("best", "best_host", "holders", "tier", "users")

    def __init__(self, tier: PaperTier, services: dict[str, Service]) -> None:
        self.tier = tier
        self.holders = list(services)
        self.best_host = max(services, key=lambda name: services[name].tokens_per_second, default="")
        self.best = services.get(self.best_host)
        self.users = sum(service.users for service in services.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "tier": self.tier.name,
            "model": self.tier.shape.name,
            "promise": self.tier.promise,
            "hosts": self.holders,
            "best_host": self.best_host,
            "best": self.best.to_dict() if self.best else None,
            "users": self.users,
        }


class PromisedRate:
    """What the promised rate of a dense 70B needs on a machine: its GB/s, steps per second, and tokens of each step."""

    __slots__ = ("gbps", "high", "low", "machine", "source", "steps")

    def __init__(self, machine: Machine, service: Service) -> None:
        self.machine = machine.name
        self.gbps = machine.gbps / len(machine.sockets) * service.sockets
        self.source = service.source
        self.steps, self.low, self.high = service.tokens_per_second, service.low, service.high

    @property
    def needed_tokens_per_step(self) -> float:
        """The tokens that each step would have to give."""
        return PROMISED_RATE / self.steps

    @property
    def verdict(self) -> str:
        """Whether a draft model can give so many tokens in each step: "in reach", "at best" (of the range), or "no"."""
        if self.needed_tokens_per_step <= TOKENS_PER_STEP:
            return "in reach"
        return "at best" if PROMISED_RATE / self.high <= TOKENS_PER_STEP else "no"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "machine": self.machine,
            "gbps": round(self.gbps, 1),
            "source": self.source,
            "steps_per_second": round(self.steps, 2),
            "tokens_per_step": round(self.needed_tokens_per_step, 2),
            "low": round(self.low, 2),
            "high": round(self.high, 2),
            "verdict": self.verdict,
        }


def needed_gbps(tokens_per_step: float = 1.0) -> float:
    """Return the GB/s that would have to be read for the promised rate with so many tokens of each step."""
    return PROMISED_RATE / tokens_per_step * DENSE_70B.bytes_per_token / 1e9


def list_tier_services(machines: Sequence[Machine], request: CapacityRequest) -> list[TierService]:
    """Return what some machines could do for each tier of the papers."""
    found = []
    for tier in PAPER_TIERS:
        services = {machine.name: plan_service(machine, tier.shape, request) for machine in machines}
        found.append(TierService(tier, {name: service for name, service in services.items() if service}))
    return found


def list_promised_rates(machines: Sequence[Machine], request: CapacityRequest) -> list[PromisedRate]:
    """Return what the promised rate would need on each machine whose memory holds a dense 70B."""
    services = [(machine, plan_service(machine, DENSE_70B, request)) for machine in machines]
    return [PromisedRate(machine, service) for machine, service in services if service]
