# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of hosts as the controller keeps them, for tests and pictures of the capacity of a fleet."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.capacity_facts import VERSION
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import ModelShape
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.paper_tiers import DENSE_70B, MIXTURE_671B

GIB = 1 << 30
TIME = "2026-11-27T10:00:00Z"
SLOW = (
    "This host reads 153 of 461 GB/s from its memory, 33%; below 60% something is wrong that no setting of software "
    "mends, and everything that is tuned here stands on it."
)
#: Llama 3.1 8B and Qwen 3 30B-A3B in Q4_K_M.
DENSE_8B = ModelShape("8B dense", "Q4_K_M", "llama", 8.03e9, 8.03e9, 4.92e9, 4.63e9, 32, 131072, 131072)
MIXTURE_30B = ModelShape("30B-A3B", "Q4_K_M", "qwen3moe", 30.5e9, 3.3e9, 18.6e9, 2.0e9, 48, 98304, 40960, 8 / 128)
#: SKU -> CPU family, model number, cores and CCDs of a socket, sockets, GiB, and GB/s of a socket on paper.
KINDS: dict[str, tuple[int, int, int, int, int, int, float]] = {
    "9754": (25, 160, 128, 8, 1, 768, 377.9),
    "9654": (25, 17, 96, 12, 1, 768, 377.9),
    "9354": (25, 17, 32, 8, 1, 384, 377.9),
    "7543": (25, 1, 32, 8, 2, 1024, 167.9),
    "9655": (26, 2, 96, 12, 1, 768, 472.3),
}


def instance(
    shape: ModelShape | None, name: str = "chat", model: str = "", slots: int = 1, **changes: Any
) -> dict[str, Any]:
    """Return an instance on the node 0 of a 9754, whose file is mapped."""
    model = model or f"/srv/models/{(shape.name if shape else name).replace(' ', '-')}.gguf"
    facts = {
        "name": name,
        "engine": "llama-server",
        "model": model,
        "shape": {"name": shape.name, **shape.to_dict()} if shape else None,
        "unknown": "" if shape else "of vLLM nothing is predicted, because it serves no GGUF file",
        "files": {model: int(shape.file_bytes)} if shape else {},
        "mapped": [model] if shape else [],
        "slots": slots,
        "context": 8192 * slots,
        "nodes": [0],
        "processor": processor(127, 1),
        "gbps": 377.9,
        "source": "paper",
        "run": None,
    }
    return {**facts, **changes}


def run(rates: dict[int, float], **changes: Any) -> dict[str, Any]:
    """Return the summary of a run with tokens per second of a stream, by the number of streams."""
    known: dict[str, Any] = {"id": "chat-20261120T100000Z", "instance": "chat", "started": "2026-11-20T10:00:00Z"}
    known.update(dict.fromkeys(("host", "sku", "kernel", "engine", "engine_build", "quantization", "model")))
    measured = [
        {"streams": streams, "tokens_per_second": rate, "steps_per_second": rate, "output": streams * rate}
        for streams, rate in rates.items()
    ]
    return {**known, "rates": measured, "predictions": [], "watts": None, "tokens_per_joule": None, **changes}


def processor(cores: int, sockets: int, core_speed: float = 1.0) -> dict[str, Any]:
    """Return the threads of an instance."""
    number = cores * sockets
    far = sockets > 1
    return {
        "cores": number,
        "core_speed": core_speed,
        "reads_far_memory": far,
        "sockets": sockets,
        "threads": number,
    }


def host(
    kind: str = "9754", *instances: dict[str, Any], faults: tuple[str, ...] = (), **changes: Any
) -> dict[str, Any]:
    """Return the facts of a host whose bandwidth was not measured."""
    family, number, cores, ccds, sockets, gib, gbps = KINDS[kind]
    facts = {
        "version": VERSION,
        "time": TIME,
        "model": f"AMD EPYC {kind} {cores}-Core Processor",
        "sku": kind,
        "family": family,
        "model_number": number,
        "kernel": "6.12.0",
        "bytes": gib * GIB,
        "memory": {
            "theoretical_gbps": round(gbps * sockets / 0.82, 1),
            "measured_gbps": None,
            "share": None,
            "stale_reason": "",
            "faults": list(faults),
        },
        "sockets": [
            {
                "number": socket,
                "nodes": [socket],
                "bytes": gib * GIB // sockets,
                "ccds": ccds,
                "processor": processor(cores, 1),
                "gbps": gbps,
                "source": "paper",
            }
            for socket in range(sockets)
        ],
        "instances": list(instances),
    }
    return {**copy.deepcopy(facts), **changes}


def measured(facts: dict[str, Any], gbps: float) -> dict[str, Any]:
    """Return facts of a host of one socket whose bandwidth was measured."""
    changed = copy.deepcopy(facts)
    for part in (*changed["sockets"], *changed["instances"]):
        part.update(gbps=gbps, source="measured")
    theoretical = changed["memory"]["theoretical_gbps"]
    changed["memory"].update(measured_gbps=gbps, share=round(gbps / theoretical, 3))
    return changed


def example_fleet() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the facts of all hosts of inventories/example but the last two: measured, predicted, slow, and shared."""
    runs = run({1: 8.1, 2: 6.9}, watts=341.0, tokens_per_joule=0.033, predictions=[prediction(7.4)])
    for number in range(1, 5):
        chat = instance(DENSE_70B, "chat", "/srv/models/llama-3.3-70b-instruct-q4_k_m.gguf", 2)
        facts = host("9754", {**chat, "run": runs if number < 3 else None})
        if number == 1:
            facts = measured(facts, 371.0)
        if number == 2:
            facts = measured({**facts, "memory": {**facts["memory"], "faults": [SLOW]}}, 153.0)
        yield f"epyc9754-{number:02d}.example.com", facts
    yield "epyc9754-05.example.com", host("9754")
    large = instance(MIXTURE_671B, "experts", "/srv/models/deepseek-r1-671b-q8_0-00001-of-00015.gguf")
    yield "epyc9754-06.example.com", host("9754", large)
    for number in (1, 2):
        yield f"epyc9654-{number:02d}.example.com", host("9654")
    file = "/srv/models/llama-3.1-8b-instruct-q4_k_m.gguf"
    tenants = [instance(DENSE_8B, name, file, processor=processor(16, 1)) for name in ("red", "green")]
    yield "epyc9354-01.example.com", host("9354", *tenants)
    half = [
        instance(DENSE_8B, name, file, nodes=[node], mapped=[], processor=processor(32, 1, 0.8), gbps=167.9)
        for node, name in enumerate(("left", "right"))
    ]
    yield "epyc7543x2-01.example.com", host("7543", *half)
    yield "epyc9655-01.example.com", host("9655", instance(MIXTURE_30B, "experts", slots=8, gbps=472.3))


def prediction(rate: float, streams: int = 1) -> dict[str, Any]:
    """Return a predicted rate as a run document keeps it."""
    return {
        "streams": streams,
        "tokens_per_second": rate,
        "low": round(0.8 * rate, 2),
        "high": round(1.1 * rate, 2),
        "ceiling": round(1.3 * rate, 2),
        "gbps": 371.0,
        "source": "measured",
        "arithmetic": "42.00 GB / 371 GB/s (measured) = 113.2 ms, and 20.0 ms of operations: 133.2 ms",
    }
