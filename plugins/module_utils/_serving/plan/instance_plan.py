# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of one instance. Its unit, its arguments and the check of its placement are made from the plan."""

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
    from ..._models.model_shape import ModelShape
    from ..options.option_table import OptionTable
    from ..prediction.decode_rate import DecodeRate
    from .default_choices import DefaultChoice


class MemoryNeed:
    """The bytes of memory that a process needs, by part. The weights include the weights of a draft in the process."""

    PARTS = ("weights", "kv_cache", "compute", "prompt_cache", "checkpoints")
    __slots__ = PARTS

    def __init__(self, weights: int, kv_cache: int, compute: int, prompt_cache: int = 0, checkpoints: int = 0) -> None:
        self.weights = weights
        self.kv_cache = kv_cache
        self.compute = compute
        self.prompt_cache = prompt_cache
        self.checkpoints = checkpoints

    @classmethod
    def sum_of_needs(cls, needs: Sequence[MemoryNeed]) -> MemoryNeed:
        return cls(*(sum(getattr(need, part) for need in needs) for part in cls.PARTS))

    @property
    def total(self) -> int:
        """The sum of all parts in bytes."""
        return sum(getattr(self, part) for part in self.PARTS)

    def format_parts_with_sizes(self, staged_bytes: int = 0) -> str:
        """Return the parts and their sizes for a sentence; the weights count without the ``staged_bytes``."""
        parts = (
            (self.weights - staged_bytes, "weights"),
            (self.kv_cache, "KV cache"),
            (self.compute, "compute buffers"),
            (self.prompt_cache, "prompt cache"),
            (self.checkpoints, "checkpoints"),
        )
        return ", ".join(f"{format_bytes_short(size)} {name}" for size, name in parts if size or name == "weights")

    def to_dict(self) -> dict[str, int]:
        """Return the bytes of each part and their sum as plain data."""
        return {**{key: getattr(self, key) for key in sorted(self.PARTS)}, "total": self.total}


class SlotBytes:
    """The bytes of a slot file: ``fixed`` bytes of any slot, and ``each`` for each of at most ``tokens`` tokens."""

    __slots__ = ("each", "fixed", "tokens")

    def __init__(self, fixed: int, each: int, tokens: int) -> None:
        self.fixed = fixed
        self.each = each
        self.tokens = tokens

    @property
    def full_slot_file_bytes(self) -> int:
        """The bytes of the file of a full slot."""
        return self.fixed + self.each * self.tokens


class Placement:
    """The placement of one process: its CPUs (``cpus``), the CPUs that compute (``busy_cpus``), and its memory nodes.

    ``cpus`` includes the ``http_cpus`` for HTTP and tokenizer threads. ``affinity`` is the affinity mask at the start,
    None for all of ``cpus``. ``group`` is the resctrl group whose limits apply, None without one. ``slice`` is the
    systemd slice of the unit, None for the default slice.
    """

    __slots__ = (
        *("affinity", "busy_cpus", "cpus", "environment", "group", "http_cpus", "nodes", "pinned", "policy"),
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

    @property
    def needs_even_memory(self) -> bool:
        """Whether each node needs the same free memory: for its share of interleaved pages, or for its own copy."""
        return self.policy in ("interleave", "mirror")

    def options_to_verify_placement(self, huge_page_memory: dict[str, str]) -> dict[str, Any]:
        """Return the options of the module service_placement_info that verify this placement and these huge pages."""
        cpus = format_cpulist(self.cpus)
        expect: dict[str, Any] = {"cpus": cpus, "busy_cpus": cpus, "nodes": format_cpulist(self.nodes)}
        expect["interleaved"] = self.policy == "interleave"
        if self.pinned in (STRICT, GOMP):
            expect.update(busy_cpus=format_cpulist(self.busy_cpus), spread="core")
        if huge_page_memory:
            expect["hugepages"] = huge_page_memory
        if self.group:
            expect["group"] = self.group
        return expect

    def to_dict(self) -> dict[str, object]:
        """Return the placement as plain data, with ``busy_cpus`` in the order of the threads."""
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
    """The ggml-rpc-server that drafts for an instance on a CCD of its own."""

    __slots__ = ("arguments", "expect", "need", "placement", "unit")

    def __init__(self, unit: str, placement: Placement, arguments: list[str], need: MemoryNeed) -> None:
        self.unit = unit
        self.placement = placement
        self.arguments = arguments
        self.need = need
        self.expect = placement.options_to_verify_placement({})


class InstancePlan:
    """A planned instance.

    ``parameters`` become the arguments of the server. ``rpc`` is the separate process of a draft, or None. ``files``
    has size and time of the last change (in ns) of each file that the server reads. ``staged`` has the path on the
    hugetlbfs of each staged file. ``mapped`` are the files that the server maps, so that their pages in the page cache
    are its weights. ``expect`` are options of the module service_placement_info that verify the running instance.
    ``default_choices`` are the values that nobody set and that the plan chose; the remarks have each of them too.
    """

    __slots__ = (
        *("default_choices", "details", "draft_left_out_reason", "expect", "files", "mapped", "need", "options"),
        *("parameters", "placement", "port_reuse", "predicted_rate", "rate", "remarks", "rpc", "shape", "slot_bytes"),
        *("staged", "unit"),
    )

    def __init__(
        self,
        options: OptionTable,
        placement: Placement,
        need: MemoryNeed,
        parameters: dict[str, Any],
        rpc: DraftProcess | None,
        models: Sequence[Model],
        staged: Sequence[Model],
        expect: dict[str, Any],
        remarks: Sequence[str],
        default_choices: Sequence[DefaultChoice] = (),
    ) -> None:
        self.options = options
        self.unit = ENGINES[options.engine_key].unit_name(options.name)
        self.placement = placement
        self.need = need
        self.parameters = parameters
        self.rpc = rpc
        self.files = {part.path: [part.size, part.changed] for model in models for part in model.parts}
        self.staged = {
            part.path: path for model in staged for part, path in zip(model.parts, staged_paths(options, model))
        }
        # The server maps neither a projector nor adapters, which it reads into memory, nor the draft of another
        # process, which it sends there. A model that is its own draft is mapped.
        aside = {parameters.get("projector"), parameters.get("draft_model") if rpc else None, *options.adapters}
        aside -= {parameters.get("model")}
        mapped = (
            [] if staged or parameters.get("load") != "mmap" else [model for model in models if model.path not in aside]
        )
        self.mapped = list(dict.fromkeys(part.path for model in mapped for part in model.parts))
        self.expect = expect
        #: The bytes per second at which the server reads its files, for the start timeout; None where not known.
        self.rate: int | None = None
        #: The socket option that the server sets for its port, "address" or "port"; "" for both, which never conflict.
        self.port_reuse = ""
        #: Facts of this engine only, for the programs that ask or measure the instance.
        self.details: dict[str, Any] = {}
        self.default_choices = list(default_choices)
        self.remarks = list(dict.fromkeys([*remarks, *(choice.to_remark() for choice in default_choices)]))
        #: The shape of the model, from which its decode rate is predicted; None for an engine without GGUF files.
        self.shape: ModelShape | None = None
        #: The predicted decode rate of one stream without speculation; None where it cannot be predicted.
        self.predicted_rate: DecodeRate | None = None
        #: The size of a saved prompt; None for an instance that saves none.
        self.slot_bytes: SlotBytes | None = None
        #: Why the requested draft is left out; empty where no draft was left out.
        self.draft_left_out_reason = ""

    @property
    def name(self) -> str:
        return str(self.options.name)

    def to_dict(self) -> dict[str, object]:
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
            "predicted_rate": self.predicted_rate.to_dict() if self.predicted_rate else None,
            "default_choices": [choice.to_dict() for choice in self.default_choices],
            "remarks": self.remarks,
        }


def staging_folder(options: OptionTable) -> str:
    """Return the folder on the hugetlbfs to which the files of an instance are staged."""
    return f"{options.hugetlbfs.rstrip('/')}/llama-{options.name}"


def staged_paths(options: OptionTable, model: Model) -> list[str]:
    """Return the paths of the staged files of a model on the hugetlbfs; the server gets the first path."""
    return [f"{staging_folder(options)}/{os.path.basename(part.path)}" for part in model.parts]
