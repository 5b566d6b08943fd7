# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the hosts of a fleet serve: users of each instance at a rate, measured where a run is stored, else predicted."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import MEASURED, PAPER
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import shape_of_catalogue_entry
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.gguf_parts import list_gguf_parts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.decode_rate import (
    count_streams_at_rate,
    predict_decode_rate,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.step_floor import Processor
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import machine as machines
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.paper_machines import processor_watts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import ModelShape
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import CapacityRequest

#: The tiers of the papers. Their interactive tier is a 70B, the large one a 671B on one socket, and the largest what
#: needs the memory of two.
INTERACTIVE, LARGE, LARGEST = TIERS = ("interactive", "large", "largest")
#: A model of at least so many parameters is in the tier "large".
LARGE_PARAMETERS = 200e9
PREDICTED = {MEASURED: "predicted", PAPER: "on paper"}
OVER, UNDER, EVEN, NOT_KNOWN = "over", "under", "as asked", "unknown"


class InstanceCapacity:
    """What an instance serves at a rate.

    ``users`` is how many users get the rate at a time, at most one in each slot, and ``possible`` how many would with
    more slots; both are None where nothing is known, with the reason in ``unknown``. ``is_least`` is True where a run
    measured no more streams, so that more users may be possible. ``alone`` are tokens per second of a lone user.
    """

    def __init__(self, host: str, facts: Mapping[str, Any], sharing: int, tier: str) -> None:
        self.host = host
        self.name = str(facts["name"])
        self.model = name_of_model_file(facts["model"]) or self.name
        self.slots = int(facts["slots"])
        self.unknown = str(facts["unknown"])
        self.installed = True
        #: The number of instances that read from the same nodes at the same time.
        self.sharing = sharing
        self.shape = _shape_of_facts(facts)
        self.tier = tier
        self.alone: float | None = None
        self.possible: int | None = None
        self.is_least = False
        self.source = ""
        self.run = facts["run"] if facts["run"] and facts["run"]["rates"] else None
        self.watts = self.run["watts"] if self.run else None
        self.tokens_per_joule = self.run["tokens_per_joule"] if self.run else None

    @property
    def users(self) -> int | None:
        """How many users get the rate at a time with the slots that there are."""
        return None if self.possible is None else min(self.possible, self.slots)

    @property
    def verdict(self) -> str:
        """Whether the instance serves more or fewer users at the rate than it has slots."""
        if self.possible is None:
            return NOT_KNOWN
        if self.possible < self.slots:
            return UNDER
        return OVER if self.possible > self.slots else EVEN

    def count_users(self, facts: Mapping[str, Any], request: CapacityRequest) -> None:
        """Set how many users get the rate: by the newest run, or else by the prediction."""
        if self.run:
            self._count_users_by_run(self.run["rates"], request.rate)
        elif self.shape and facts["gbps"]:
            processor, gbps = Processor(**facts["processor"]), facts["gbps"] / self.sharing
            source = facts["source"]
            self.alone = predict_decode_rate(
                self.shape, processor, gbps, source, context=request.context
            ).tokens_per_second
            self.possible = count_streams_at_rate(self.shape, processor, gbps, source, request.rate, request.context)
            self.source = PREDICTED[source]
        elif not self.unknown:
            self.unknown = "the bandwidth of its memory is unknown"

    def _count_users_by_run(self, rates: Sequence[Mapping[str, Any]], rate: float) -> None:
        enough = [measured["streams"] for measured in rates if measured["tokens_per_second"] >= rate]
        self.alone = rates[0]["tokens_per_second"] if rates[0]["streams"] == 1 else None
        self.possible = max(enough, default=0)
        self.is_least = bool(enough) and enough[-1] == rates[-1]["streams"]
        self.source = MEASURED

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        names = ("host", "name", "model", "tier", "slots", "users", "possible", "is_least", "verdict", "source")
        more = ("unknown", "installed", "sharing", "watts", "tokens_per_joule")
        return {
            **{name: getattr(self, name) for name in (*names, *more)},
            "alone": None if self.alone is None else round(self.alone, 2),
            "run": self.run["id"] if self.run else None,
        }


class HostCapacity:
    """A host with the instances that are installed there, or that its inventory asks for."""

    def __init__(
        self, name: str, facts: Mapping[str, Any], planned: Sequence[Mapping[str, Any]], request: CapacityRequest
    ) -> None:
        """Count from the facts of a host; ``planned`` are the facts of instances that are not installed yet."""
        self.name = name
        self.facts = facts
        self.machine = machines.machine_of_facts(name, facts)
        self.faults = [str(fault) for fault in facts["memory"]["faults"]]
        self._instance_facts = [*facts["instances"], *planned]
        self.instances = [self._count_instance(instance, request) for instance in self._instance_facts]
        for instance in self.instances[len(facts["instances"]) :]:
            instance.installed = False

    def _count_instance(self, facts: Mapping[str, Any], request: CapacityRequest) -> InstanceCapacity:
        sockets = self.facts["sockets"]
        largest = max(socket["bytes"] for socket in sockets)
        sharing = _count_instances_on_nodes(facts, self._instance_facts)
        tier = find_tier(_shape_of_facts(facts), facts["processor"]["sockets"], largest)
        instance = InstanceCapacity(self.name, facts, sharing, tier)
        instance.count_users(facts, request)
        return instance

    @property
    def sku(self) -> str:
        """The SKU with the number of sockets, such as "2 x 7543"; the CPU's name where it has no SKU."""
        sku, sockets = self.facts["sku"] or self.facts["model"] or "unknown CPU", len(self.facts["sockets"])
        return str(sku) if sockets == 1 else f"{sockets} x {sku}"

    @property
    def watts(self) -> tuple[float | None, str]:
        """The most watts that a stored run measured, else those of the processors' data sheet, with the source."""
        measured = [instance.watts for instance in self.instances if instance.watts]
        if measured:
            return max(measured), MEASURED
        paper = processor_watts(self.facts["sku"], len(self.facts["sockets"]))
        return paper, PAPER if paper else ""

    @property
    def weight_bytes(self) -> int:
        """The memory of all weights: a file that several instances map is in memory once."""
        mapped: dict[str, int] = {}
        unmapped = 0
        for instance in self._instance_facts:
            for path, size in instance["files"].items():
                if path in instance["mapped"]:
                    mapped[path] = size
                else:
                    unmapped += size
        return unmapped + sum(mapped.values())

    @property
    def saved_bytes(self) -> int:
        """The memory that instances save because they share the pages of a file."""
        return sum(sum(instance["files"].values()) for instance in self._instance_facts) - self.weight_bytes

    @property
    def verdict(self) -> str:
        """ "under" if any instance is, "over" if some are and the others as asked; "" without instances."""
        verdicts = {instance.verdict for instance in self.instances}
        return next((word for word in (UNDER, NOT_KNOWN, OVER, EVEN) if word in verdicts), "")

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        watts, watts_source = self.watts
        return {
            **{
                name: getattr(self, name)
                for name in ("name", "sku", "faults", "weight_bytes", "saved_bytes", "verdict")
            },
            "bytes": self.facts["bytes"],
            "time": self.facts["time"],
            "gbps": round(self.machine.gbps, 1),
            "gbps_source": self.machine.bandwidth_source,
            "theoretical_gbps": self.facts["memory"]["theoretical_gbps"],
            "watts": watts,
            "watts_source": watts_source,
            "instances": [instance.to_dict() for instance in self.instances],
        }


class WantedUsers:
    """How many users the operator wants of a model or a tier, and how many the fleet serves at the rate."""

    __slots__ = ("asked", "name", "served")

    def __init__(self, name: str, asked: int, served: int) -> None:
        self.name = name
        self.asked = asked
        self.served = served

    @property
    def verdict(self) -> str:
        """Whether the fleet serves more, fewer or exactly as many users as wanted."""
        if self.served == self.asked:
            return EVEN
        return OVER if self.served > self.asked else UNDER

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {name: getattr(self, name) for name in ("name", "asked", "served", "verdict")}


class FleetCapacity:
    """The hosts with facts, the reason of each host without facts, and what all of them serve."""

    def __init__(
        self, request: CapacityRequest, hosts: Sequence[HostCapacity], without_facts: Mapping[str, str]
    ) -> None:
        self.request = request
        self.hosts = list(hosts)
        self.without_facts = dict(without_facts)

    @property
    def instances(self) -> list[InstanceCapacity]:
        """All instances of all hosts."""
        return [instance for host in self.hosts for instance in host.instances]

    def instances_by_model(self) -> dict[str, list[InstanceCapacity]]:
        """Return the instances of each model, in the order of the tiers and then of the names."""
        groups: dict[str, list[InstanceCapacity]] = {}
        for instance in self.instances:
            groups.setdefault(instance.model, []).append(instance)
        order = (*TIERS, "")
        return dict(sorted(groups.items(), key=lambda item: (order.index(item[1][0].tier), item[0])))

    def count_users(self, tier: str | None = None) -> int:
        """Return how many users get the rate in a tier, or in the whole fleet."""
        return sum(instance.users or 0 for instance in self.instances if tier in (None, instance.tier))

    def list_wanted(self) -> list[WantedUsers]:
        """Return what is wanted beside what is served. A name is that of a model file, an instance or a tier."""
        return [
            WantedUsers(
                name,
                asked,
                sum(
                    instance.users or 0
                    for instance in self.instances
                    if name in (instance.model, instance.name, instance.tier)
                ),
            )
            for name, asked in self.request.wanted.items()
        ]

    def list_shapes(self) -> dict[str, ModelShape]:
        """Return the shape of each model of the fleet that has a known one."""
        shapes = {}
        for model, instances in self.instances_by_model().items():
            known = [instance.shape for instance in instances if instance.shape]
            if known:
                shapes[model] = known[0]
        return shapes


def find_tier(shape: ModelShape | None, instance_sockets: int, largest_socket: int) -> str:
    """Return the tier of a model on a host; "" for an unknown model.

    A model that spans sockets although it fits into the memory of a socket keeps its tier.
    """
    if shape is None:
        return ""
    if instance_sockets > 1 and shape.file_bytes > machines.USABLE_MEMORY * largest_socket:
        return LARGEST
    return LARGE if shape.parameters >= LARGE_PARAMETERS else INTERACTIVE


def _shape_of_facts(facts: Mapping[str, Any]) -> ModelShape | None:
    shape = facts["shape"]
    return shape_of_catalogue_entry(shape["name"], {"shape": shape}) if shape else None


def _count_instances_on_nodes(instance: Mapping[str, Any], instances: Sequence[Mapping[str, Any]]) -> int:
    """Return how many instances read from the fullest of the nodes of an instance, itself included."""
    return max(
        (sum(1 for other in instances if node in other["nodes"]) for node in instance["nodes"]),
        default=1,
    )


def name_of_model_file(path: str) -> str:
    """Return the name of a model file without folder, ending and number of the part."""
    stem = os.path.basename(path)
    if len(list_gguf_parts(path)) > 1:
        stem = stem[: -len("-00001-of-00001.gguf")]
    return re.sub(r"\.gguf\Z", "", stem)
