# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One planned instance, from which its unit, its arguments and the check of its placement are made."""

from __future__ import annotations

import os

from ..._notation.cpulist import format_cpulist
from ..._notation.sizes import format_bytes_short
from ..catalogue import ENGINES
from .cpu_assignment import GOMP, STRICT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..._models.model import Model
    from ..options.option_table import OptionTable


class MemoryNeed:
    """The memory that a process needs, in bytes by part. The weights include those of a draft in the same process."""

    PARTS = ("weights", "kv_cache", "compute", "prompt_cache", "checkpoints")
    __slots__ = PARTS

    def __init__(self, weights: int, kv_cache: int, compute: int, prompt_cache: int = 0, checkpoints: int = 0) -> None:
        self.weights = weights
        self.kv_cache = kv_cache
        self.compute = compute
        self.prompt_cache = prompt_cache
        self.checkpoints = checkpoints

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(getattr(self, part) for part in self.PARTS)

    def format_parts(self, held: int = 0) -> str:
        """Return the parts with their sizes for a sentence; ``held`` bytes of the weights need no memory any more."""
        parts = (
            (self.weights - held, "weights"),
            (self.kv_cache, "KV cache"),
            (self.compute, "compute buffers"),
            (self.prompt_cache, "prompt cache"),
            (self.checkpoints, "checkpoints"),
        )
        return ", ".join(f"{format_bytes_short(size)} {name}" for size, name in parts if size or name == "weights")

    def to_dict(self) -> dict[str, int]:
        """Return plain data."""
        return {**{key: getattr(self, key) for key in sorted(self.PARTS)}, "total": self.total}


class Placement:
    """The placement of one process: the CPUs that its unit allows, and the CPUs on which it computes.

    ``cpus`` are all allowed CPUs, including those for HTTP and tokenizer threads. ``affinity`` is the affinity mask at
    the start, None for all of ``cpus``. ``group`` is the resctrl group whose limits apply, None without one. ``slice``
    is the systemd slice of the unit, None for the default.
    """

    __slots__ = (
        "affinity",
        "busy_cpus",
        "cpus",
        "environment",
        "group",
        "http_cpus",
        "nodes",
        "pinned",
        "policy",
        "slice",
    )

    def __init__(
        self, busy_cpus: Iterable[int], cpus: Iterable[int], nodes: Sequence[int], policy: str, pinned: str
    ) -> None:
        self.busy_cpus = tuple(busy_cpus)
        self.cpus = tuple(sorted(cpus))
        self.http_cpus: tuple[int, ...] = ()
        self.affinity: tuple[int, ...] | None = None
        self.nodes = tuple(nodes)
        self.policy = policy
        self.pinned = pinned
        self.environment: dict[str, str] = {}
        self.group: str | None = None
        self.slice: str | None = None

    def placement_expectations(self, huge: dict[str, str]) -> dict[str, Any]:
        """Return options of service_placement_info that verify this placement and this much memory in huge pages."""
        cpus = format_cpulist(self.cpus)
        expect: dict[str, Any] = {"cpus": cpus, "busy_cpus": cpus, "nodes": format_cpulist(self.nodes)}
        expect["interleaved"] = self.policy == "interleave"
        if self.pinned in (STRICT, GOMP):
            expect.update(busy_cpus=format_cpulist(self.busy_cpus), spread="core")
        if huge:
            expect["hugepages"] = huge
        if self.group:
            expect["group"] = self.group
        return expect

    def to_dict(self) -> dict[str, object]:
        """Return plain data; ``busy_cpus`` in the order of the threads."""
        return {
            "cpus": format_cpulist(self.cpus),
            "busy_cpus": format_cpulist(self.busy_cpus),
            "http_cpus": format_cpulist(self.http_cpus),
            "pinned": self.pinned,
            "nodes": format_cpulist(self.nodes),
            "memory": self.policy,
            "environment": dict(self.environment),
            "group": self.group,
        }


class DraftProcess:
    """The process that drafts for an instance on its own CCD; ``arguments`` are those of ggml-rpc-server."""

    __slots__ = ("arguments", "expect", "need", "placement", "unit")

    def __init__(self, unit: str, placement: Placement, arguments: list[str], need: MemoryNeed) -> None:
        self.unit = unit
        self.placement = placement
        self.arguments = arguments
        self.need = need
        self.expect = placement.placement_expectations({})


class InstancePlan:
    """A planned instance.

    ``wants`` is for the builders of argument lists; ``expect`` are options of the module service_placement_info;
    ``files`` are those to read, with size and time of the last change in nanoseconds; ``staged`` has the path of each
    staged file on the hugetlbfs, and ``mapped`` are the files whose pages in the page cache are used as they lie there.
    """

    __slots__ = (
        "details",
        "draft_left_out_reason",
        "expect",
        "files",
        "mapped",
        "need",
        "options",
        "parameters",
        "placement",
        "rate",
        "remarks",
        "rpc",
        "staged",
        "unit",
    )

    def __init__(
        self,
        options: OptionTable,
        placement: Placement,
        need: MemoryNeed,
        wants: dict[str, Any],
        rpc: DraftProcess | None,
        read: Sequence[Model],
        staged: Sequence[Model],
        expect: dict[str, Any],
        remarks: Sequence[str],
    ) -> None:
        self.options = options
        self.unit = ENGINES[options.engine_key].unit_of(options.name)
        self.placement = placement
        self.need = need
        self.parameters = wants
        self.rpc = rpc
        self.files = {part.path: [part.size, part.changed] for one in read for part in one.parts}
        self.staged = {part.path: path for one in staged for part, path in zip(one.parts, staged_paths(options, one))}
        # A draft in its own process is sent there, and a projector and adapters are read into memory, so the server
        # maps none of them. A model that is its own draft is mapped.
        aside = {wants.get("projector"), wants.get("draft_model") if rpc else None, *options.adapters}
        aside -= {wants.get("model")}
        mapped = [] if staged or wants.get("load") != "mmap" else [one for one in read if one.path not in aside]
        self.mapped = list(dict.fromkeys(part.path for one in mapped for part in one.parts))
        self.expect = expect
        #: Bytes per second with which the time for a start is counted; None until that is known.
        self.rate: int | None = None
        #: Facts that only this engine has, for those who ask or measure the instance.
        self.details: dict[str, Any] = {}
        self.remarks = list(remarks)
        #: Why a draft is left out that the options ask for; empty where none is.
        self.draft_left_out_reason = ""

    @property
    def name(self) -> str:
        """The name of the instance."""
        return str(self.options.name)

    def to_dict(self) -> dict[str, object]:
        """Return plain data for facts."""
        rpc = self.rpc
        return {
            "unit": self.unit,
            **self.placement.to_dict(),
            "wants": self.parameters,
            "need": self.need.to_dict(),
            "expect": self.expect,
            "rpc": {"unit": rpc.unit, "expect": rpc.expect, "need": rpc.need.to_dict(), **rpc.placement.to_dict()}
            if rpc
            else None,
            "staged": self.staged,
            "details": self.details,
            "remarks": self.remarks,
        }


def staging_folder(options: OptionTable) -> str:
    """Return the folder on the hugetlbfs to which the files of an instance are staged."""
    return f"{options.hugetlbfs.rstrip('/')}/llama-{options.name}"


def staged_paths(options: OptionTable, model: Model) -> list[str]:
    """Return the paths of the files of a model on the hugetlbfs; the first is the path for the server."""
    return [f"{staging_folder(options)}/{os.path.basename(part.path)}" for part in model.parts]
