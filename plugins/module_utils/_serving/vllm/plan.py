# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans an instance of vLLM: one process for each NUMA node with CPUs that compute, whose threads and memory are on
that node.

An instance with ``workers`` is divided over several hosts, each with the same number of processes. Source:
vllm/utils/ompmultiprocessing.py and vllm/v1/worker/cpu_worker.py of vLLM 0.32.
"""

from __future__ import annotations

import hashlib
import json
import os

from ..._errors import BadRequest
from ..._notation.cpulist import format_cpulist
from ..._notation.ip_addresses import LOOPBACK
from ..._notation.numbers import parse_whole_number
from ..._notation.sizes import format_bytes_short
from ..plan import cpu_assignment
from ..plan.instance_plan import InstancePlan, MemoryNeed, Placement
from ..plan.placement import choose_housekeeping_cpus_for_http
from . import probe
from .model_config import read_model_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..plan.memory.free_memory import FreeMemory
    from .options import VllmOptions
    from .probe import Capabilities

#: The arguments that every server needs, and those that a server on several hosts needs in addition.
NEEDED_ARGUMENTS = ("--host", "--port", "--served-model-name", "--max-num-seqs", "--tensor-parallel-size")
GROUP_ARGUMENTS = (
    *("--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless", "--distributed-executor-backend"),
)


class Member:
    """A host in the group of an instance; ``port`` is where a worker waits for the head, None for the head."""

    def __init__(
        self, instance: str, rank: int, addresses: Sequence[str], interface: str, port: int | None = None
    ) -> None:
        self.instance = instance
        self.rank = rank
        self.addresses = list(addresses)
        self.interface = interface
        self.port = port


def plan_vllm_instance(
    options: VllmOptions,
    host: Host,
    capabilities: Capabilities,
    free: FreeMemory,
    before: Sequence[InstancePlan],
    member: Member | None,
) -> InstancePlan:
    """Return the planned instance; BadRequest for an instance that this host cannot serve."""
    _require_known_arguments(options, capabilities, member)
    if options.compile:
        probe.require_compiler()
    cpus_by_node = _choose_cpus_by_node(options, host)
    busy = sorted(cpu for cpus in cpus_by_node.values() for cpu in cpus)
    _require_separate_cpus(options, busy, before)
    hosts = 1 + len(options.workers)
    config, files = _read_config_and_model_files(options)
    weights = sum(size for path, (size, changed) in files.items() if path.endswith(".safetensors"))
    _require_evenly_divided_heads(options, config, len(cpus_by_node), hosts)
    weights_of_host = weights // hosts
    _require_memory_on_each_node(options, list(cpus_by_node), weights_of_host, free)
    http = choose_housekeeping_cpus_for_http(host, busy)
    placement = Placement(busy, [*busy, *http], list(cpus_by_node), "local", "")
    placement.http_cpus = http
    expect = placement.options_to_verify_placement({})
    expect["busy_cpus"] = format_cpulist(busy)
    parameters = {
        "ranks": [format_cpulist(cpus) for cpus in cpus_by_node.values()],
        "hosts": hosts,
        "threads": len(busy),
    }
    need = MemoryNeed(weights_of_host, options.kv_cache_bytes * len(cpus_by_node), 0)
    remarks = _list_remarks(options, capabilities, http, member)
    service = InstancePlan(options, placement, need, parameters, None, [], [], expect, remarks)
    service.files = files
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    service.details = {
        "alias": options.alias,
        "model": options.model,
        "slots": options.slots,
        "hosts": hosts,
        "context": options.context or parse_whole_number(config.get("max_position_embeddings")) or 2048,
        # Properties that must be equal on all hosts of a group.
        "build": {
            "vLLM": capabilities.name,
            "the number of its processes": len(cpus_by_node),
            "the config.json of the model": f"sha256:{digest}",
            "the weights of the model": f"{weights} bytes",
        },
    }
    return service


def _require_known_arguments(options: VllmOptions, capabilities: Capabilities, member: Member | None) -> None:
    """Raise BadRequest where this vLLM lacks an argument that the instance needs or that extra_arguments names."""
    if lacking := [flag for flag in NEEDED_ARGUMENTS if flag not in capabilities.flags]:
        raise BadRequest(f"epyc_vllm_folder has no vLLM that is known here: its help has no {lacking[0]}.")
    lacking = [flag for flag in GROUP_ARGUMENTS if flag not in capabilities.flags]
    if options.workers and member and lacking:
        raise BadRequest(f"this vLLM has no {lacking[0]}, which an instance with workers needs: take a newer one.")
    for word in options.extra_arguments:
        if word.startswith("--") and word.partition("=")[0].partition(".")[0] not in capabilities.flags:
            raise BadRequest(f"this vLLM has no {word}; its help lists what it has.")


def _choose_cpus_by_node(options: VllmOptions, host: Host) -> dict[int, list[int]]:
    """Return the CPUs of each process by NUMA node: the first CPU of each core."""
    cpus = cpu_assignment.first_cpu_of_each_core(host.topology, cpu_assignment.choose_compute_cpus(options, host))
    by_node = {node.id: sorted(set(node.cpus) & set(cpus)) for node in host.topology.nodes}
    return {node: found for node, found in sorted(by_node.items()) if found}


def _require_separate_cpus(options: VllmOptions, busy: Sequence[int], before: Sequence[InstancePlan]) -> None:
    """Raise BadRequest for CPUs on which another instance of vLLM computes: its threads are never idle."""
    for other in before:
        if shared := set(busy) & set(other.placement.busy_cpus):
            raise BadRequest(
                f"{other.name} and {options.name} both compute on CPU {min(shared)}: name cpus for each, such as node0 "
                "and node1."
            )


def _read_config_and_model_files(options: VllmOptions) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Return the config.json of the model, and the size and time of the last change of its files by path."""
    folder = options.model
    try:
        config = read_model_config(folder)
    except (OSError, ValueError):
        raise BadRequest(
            f"{folder} has no config.json: bring the folder of a model as a hub has it, with config.json, its "
            "tokenizer and *.safetensors. A GGUF file is for epyc_llama_instances."
        ) from None
    names = [name for name in sorted(os.listdir(folder)) if name == "config.json" or name.endswith(".safetensors")]
    status = {f"{folder}/{name}": os.stat(f"{folder}/{name}") for name in names}
    return config, {path: [file.st_size, file.st_mtime_ns] for path, file in status.items()}


def _require_evenly_divided_heads(options: VllmOptions, config: Mapping[str, Any], nodes: int, hosts: int) -> None:
    """Raise BadRequest for a number of processes that does not divide the attention heads of the model."""
    heads = parse_whole_number(config.get("num_attention_heads"))
    part = config.get("text_config")
    if heads is None and isinstance(part, dict):
        heads = parse_whole_number(part.get("num_attention_heads"))
    if heads and heads % (nodes * hosts):
        of_hosts = f" of each of {hosts} hosts" if hosts > 1 else ""
        raise BadRequest(
            f"its CPUs are on {nodes} nodes{of_hosts}, so that {nodes * hosts} processes would divide {heads} "
            f"attention heads of {options.alias}, which leaves a remainder. Name cpus on fewer nodes, such as "
            "node0."
        )


def _require_memory_on_each_node(options: VllmOptions, nodes: Sequence[int], weights: int, free: FreeMemory) -> None:
    """Raise BadRequest for a node with too little memory for the weights and the KV cache of its process."""
    for node in nodes:
        available = free.available.get(node, 0)
        if weights // len(nodes) + options.kv_cache_bytes > available:
            raise BadRequest(
                f"it needs {format_bytes_short(weights // len(nodes))} weights and "
                f"{format_bytes_short(options.kv_cache_bytes)} KV cache on node {node}, which has "
                f"{format_bytes_short(available)} available. Take a smaller kv_cache, or cpus on more nodes."
            )


def _list_remarks(
    options: VllmOptions, capabilities: Capabilities, http: Sequence[int], member: Member | None
) -> list[str]:
    remarks = []
    if "--shutdown-timeout" not in capabilities.flags:
        remarks.append("This vLLM has no --shutdown-timeout: a request that begins while it is stopped is broken off.")
    if not http:
        remarks.append("There is no housekeeping CPU, so its HTTP server runs among the threads that compute.")
    if options.host not in LOOPBACK and options.api_key_file and (member is None or member.port is None):
        remarks.append(
            "vLLM asks for the key only below /v1, and serves /invocations and others without one: keep it in a "
            "private network, behind the gateway."
        )
    return remarks
