# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of a host from which the capacity of a fleet is counted: memory, instances, and their newest runs.

The facts are plain data, and the controller keeps them, so that it counts again without the host.
"""

from __future__ import annotations

import shlex

from .._errors import TuningError
from .._host.memory_channels import numbers_of_ccds
from .._models.model import read_model
from .._models.model_shape import shape_of_model
from .._notation.cpulist import parse_cpulist
from .._notation.numbers import format_utc_time, parse_whole_number
from .._serving.catalogue import LLAMA
from .._serving.prediction.decode_rate import describe_processor
from .._serving.unit.installed import PLAN_MARK, list_installed_instances
from .planning.last_runs import load_newest_documents
from .rounds.run_summary import summarize_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .._host.host import Host
    from .._host.memory_speed import MemorySpeed
    from .._serving.prediction.step_floor import Processor
    from .._serving.unit.installed import InstalledUnit

#: The version of the facts. Facts of another version have other fields.
VERSION = 1
#: Flags of llama-server in the command line of its unit.
MODEL_FLAG, SLOTS_FLAG, CONTEXT_FLAG, THREADS_FLAG = "--model", "--parallel", "--ctx-size", "--threads"


def read_capacity_facts(host: Host, run_folder: str) -> dict[str, Any]:
    """Return the facts of a host; ``run_folder`` has the documents of its runs."""
    top = host.topology
    speed = host.memory_speed
    return {
        "version": VERSION,
        "time": format_utc_time(),
        **{name: getattr(top, name) for name in ("model", "sku", "family", "model_number", "kernel")},
        "memory": speed.to_dict(),
        "bytes": sum(node.bytes for node in top.nodes),
        "sockets": [_socket_to_dict(host, speed, number) for number in sorted(top.sockets)],
        "instances": [
            _instance_to_dict(host, speed, unit, run_folder) for unit in list_installed_instances(host.fs.root)
        ],
    }


def _socket_to_dict(host: Host, speed: MemorySpeed, number: int) -> dict[str, Any]:
    """Return the cores and CCDs of a socket, its nodes with their memory, and the bandwidth of these nodes."""
    top = host.topology
    cpus = top.sockets[number]
    nodes = [node for node in top.nodes if set(node.cpus).intersection(cpus)]
    ccds = numbers_of_ccds(top, cpus)
    gbps, source = speed.gbps_for([node.id for node in nodes], ccds)
    return {
        "number": number,
        "nodes": [node.id for node in nodes],
        "bytes": sum(node.bytes for node in nodes),
        "ccds": len(ccds),
        "processor": processor_to_dict(describe_processor(host, cpus, sum(1 for core in top.cores if core[0] in cpus))),
        "gbps": round(gbps, 1),
        "source": source,
    }


def processor_to_dict(processor: Processor) -> dict[str, Any]:
    """Return the threads that decode as plain data: the arguments from which a Processor is made."""
    return {name: getattr(processor, name) for name in sorted(processor.__slots__)}


def _instance_to_dict(host: Host, speed: MemorySpeed, unit: InstalledUnit, run_folder: str) -> dict[str, Any]:
    """Return the facts of an instance; ``shape`` is None, with ``unknown`` as reason, where no rate is predictable."""
    plan = unit.plan or {}
    expect = plan.get("expect") or {}
    words = read_command_line_of_unit(unit.text)
    cpus = parse_cpulist(str(expect.get("busy_cpus") or ""))
    nodes = parse_cpulist(str(expect.get("nodes") or ""))
    threads = parse_whole_number(find_flag_value(words, THREADS_FLAG)) or len(cpus)
    gbps, source = speed.gbps_for(nodes, numbers_of_ccds(host.topology, cpus))
    shape, unknown = _read_shape(unit, words)
    return {
        "name": unit.name,
        "engine": unit.row.title,
        "model": find_flag_value(words, MODEL_FLAG) or str((plan.get("details") or {}).get("model") or ""),
        "shape": shape,
        "unknown": unknown,
        "files": {path: size for path, (size, dummy) in (plan.get("files") or {}).items()},
        "mapped": list(plan.get("mapped") or []),
        "slots": parse_whole_number(find_flag_value(words, SLOTS_FLAG))
        or (plan.get("details") or {}).get("slots")
        or 1,
        "context": parse_whole_number(find_flag_value(words, CONTEXT_FLAG)) or 0,
        "nodes": list(nodes),
        "processor": processor_to_dict(describe_processor(host, cpus, threads)),
        "gbps": round(gbps, 1),
        "source": source,
        "run": next(
            (summarize_run(document) for dummy, document in load_newest_documents(run_folder, unit.name)), None
        ),
    }


def _read_shape(unit: InstalledUnit, words: Sequence[str]) -> tuple[dict[str, Any] | None, str]:
    """Return the shape of the model of an instance, or None and the reason why it is not known."""
    path = find_flag_value(words, MODEL_FLAG)
    if unit.row is not LLAMA:
        return None, f"of {unit.row.title} nothing is predicted, because it serves no GGUF file"
    if path is None:
        return None, "its unit names no model"
    try:
        shape = shape_of_model(read_model(path))
    except TuningError as error:
        return None, str(error)
    return {"name": shape.name, **shape.to_dict()}, ""


def read_command_line_of_unit(text: str) -> list[str]:
    """Return the words of the command that a unit starts; an empty list for a unit without one."""
    lines = text.partition(PLAN_MARK)[0].splitlines()
    line = next((line for line in lines if line.startswith("ExecStart=")), "")
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.partition("=")[2])]


def find_flag_value(words: Sequence[str], flag: str) -> str | None:
    """Return the word after a flag of a command line; None without the flag."""
    return next((value for word, value in zip(words, words[1:]) if word == flag), None)
