# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances that the inventory asks for and that are not installed yet, with facts like those of installed ones.

The numbers of their models are those of the same file on another host, or of the catalogue.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import shape_of_catalogue_entry
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_whole_number
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.fleet import name_of_model_file
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.machine import (
    USABLE_MEMORY,
    join_bandwidth_sources,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import require_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Entry = Mapping[str, Any]

#: A place of CPUs of which the memory bandwidth is known here.
PLACE = re.compile(r"(socket|node)(\d+)\Z")


class KnownShapes:
    """The shapes of models by the names under which an inventory may have them."""

    def __init__(self, entries: Mapping[str, Entry], facts: Iterable[Mapping[str, Any]]) -> None:
        """Take the shapes of the catalogue's entries, and of all instances in the facts of hosts, which win."""
        self._shapes: dict[str, dict[str, Any]] = {}
        for name, entry in entries.items():
            shape = self._shape_of_entry(name, entry)
            if shape:
                file = str(entry.get("file") or entry.get("url") or "")
                self._shapes.update({name.lower(): shape, name_of_model_file(file).lower(): shape})
        for host in facts:
            for instance in host["instances"]:
                if instance["shape"]:
                    self._shapes[name_of_model_file(instance["model"]).lower()] = instance["shape"]

    @staticmethod
    def _shape_of_entry(name: str, entry: Entry) -> dict[str, Any] | None:
        try:
            shape = shape_of_catalogue_entry(name, entry)
        except BadRequest:
            return None
        return {"name": name, **shape.to_dict()}

    def find_shape(self, model: str) -> dict[str, Any] | None:
        """Return the shape of a model by its name in the catalogue or by its file; None for an unknown model."""
        return self._shapes.get(name_of_model_file(model).lower())


def list_planned_instances(host: str, facts: Entry, instances: Any, shapes: KnownShapes) -> list[dict[str, Any]]:
    """Return the facts of the instances of an inventory that are not installed on a host; BadRequest for no list."""
    installed = {instance["name"] for instance in facts["instances"]}
    rows = require_tables(instances, f"{host}: epyc_llama_instances", "instances")
    return [
        _facts_of_row(row, facts, shapes)
        for row in rows
        if row.get("name") not in installed and not row.get("models") and row.get("task", "completion") == "completion"
    ]


def _facts_of_row(row: Entry, facts: Entry, shapes: KnownShapes) -> dict[str, Any]:
    model = str(row.get("model") or "")
    shape = shapes.find_shape(model)
    size = int(shape["file_bytes"]) if shape else 0
    sockets, share, nodes = _sockets_share_and_nodes_of_cpus(str(row.get("cpus") or ""), size, facts["sockets"])
    is_mapped = not row.get("hugepages") and not row.get("direct_io")
    return {
        "name": str(row.get("name") or "?"),
        "engine": "llama-server",
        "model": model,
        "shape": shape,
        "unknown": "" if shape else f"no host has {model} yet, and the catalogue does not know it",
        "files": {model: size} if shape else {},
        "mapped": [model] if is_mapped else [],
        "slots": parse_whole_number(row.get("slots")) or 1,
        "context": parse_whole_number(row.get("context")) or 0,
        "nodes": nodes,
        "processor": _join_processors(sockets, share),
        "gbps": share * sum(socket["gbps"] for socket in sockets),
        "source": join_bandwidth_sources([socket["source"] for socket in sockets]),
        "run": None,
    }


def _sockets_share_and_nodes_of_cpus(
    cpus: str, size: int, sockets: Sequence[Entry]
) -> tuple[list[Entry], float, list[int]]:
    """Return the sockets of an instance, the share that it has of them, and its nodes.

    Without a place that is known here, an instance has the first socket whose memory is large enough, or all sockets.
    """
    places = [match for match in map(PLACE.match, cpus.split(",")) if match]
    numbers = {kind: {int(match[2]) for match in places if match[1] == kind} for kind in ("socket", "node")}
    if numbers["socket"]:
        chosen = [socket for socket in sockets if socket["number"] in numbers["socket"]]
    elif numbers["node"]:
        chosen = [socket for socket in sockets if numbers["node"].intersection(socket["nodes"])]
    else:
        chosen = [socket for socket in sockets if socket["bytes"] * USABLE_MEMORY >= size][:1]
    chosen = chosen or list(sockets)
    nodes = [node for socket in chosen for node in socket["nodes"]]
    own = [node for node in nodes if not numbers["node"] or node in numbers["node"]] or nodes
    return chosen, len(own) / max(1, len(nodes)), own


def _join_processors(sockets: Sequence[Entry], share: float) -> dict[str, Any]:
    first = sockets[0]["processor"]
    cores = max(1, int(share * sum(socket["processor"]["cores"] for socket in sockets)))
    return {
        "threads": cores,
        "cores": cores,
        "sockets": len(sockets),
        "core_speed": first["core_speed"],
        "reads_far_memory": len(sockets) > 1,
    }
