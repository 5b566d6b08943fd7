# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RPC workers: programs on other hosts that hold and compute some layers of a model that is too large for one host.

The layers are computed one after the other, so that a token takes as long as on one host, and the time of the network.
The worker of a host is one ggml-rpc-server. By default, a worker has the CPUs and nodes of an instance without options,
and a thread for each core.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.cpulist import format_cpulist
from ..._notation.ip_addresses import require_private_address
from ..._notation.sizes import format_bytes_short
from ..options.options import Options
from ..options.unit_names import WORKER_UNIT
from . import cpu_assignment
from .placement import choose_memory_policy, place_ggml_rpc_server, rpc_server_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._host.host import Host
    from ..._models.model import Model
    from ..options.options import Options
    from .instance_plan import MemoryNeed, Placement
    from .memory.free_memory import FreeMemory

#: The embeddings and the output stay on the host of the instance (the head). They count as this many layers.
EXTRA_HEAD_LAYERS = 2


def count_layers_on_workers(options: Options, model: Model) -> int:
    """Return how many layers all workers hold together: the option rpc_layers, or else an equal share of each host."""
    count = model.header_number_of_architecture("block_count")
    if not count:
        raise BadRequest(f"rpc_workers: {model.path} does not state its number of layers. Set rpc_layers.")
    workers = len(options.rpc_workers)
    number: int = options.rpc_layers or max(1, count * workers // (workers + 1))
    if number > count:
        raise BadRequest(f"rpc_layers is {number}, and {model.path} has {count} layers. Use at most {count}.")
    return number


def subtract_memory_on_workers(options: Options, model: Model, need: MemoryNeed) -> list[str]:
    """Subtract from an instance's need the memory that its workers hold, and return a remark on that memory."""
    number, count = count_layers_on_workers(options, model), model.header_number_of_architecture("block_count") or 1
    away = need.weights * number // (count + EXTRA_HEAD_LAYERS), need.kv_cache * number // count
    need.weights -= away[0]
    need.kv_cache -= away[1]
    each = sum(away) // len(options.rpc_workers)
    return [
        f"rpc_workers is experimental, and makes room, not speed: {number} of {count} layers are on other hosts, "
        f"about {format_bytes_short(each)} on each of {len(options.rpc_workers)}, which has to be free there. When "
        "a worker ends, this server ends too, and starts again."
    ]


#: The options of a worker that have the same names and limits as options of an instance.
OPTIONS_LIKE_INSTANCE = ("port", "cpus", "nodes", "threads", "l3_group")


class RpcWorker:
    """The plan of an RPC worker: its placement, the addresses that may connect (``clients``), and its arguments."""

    def __init__(self, options: Options, address: str, clients: list[str], placement: Placement, threads: int) -> None:
        self.options = options
        self.address = address
        self.clients = clients
        self.placement = placement
        self.threads = threads
        # With -c, the worker stores the weights on its disk, so that the weights cross the network only once.
        self.arguments = [*rpc_server_arguments(address, options.port, threads), "-c"]
        self.expect = placement.options_to_verify_placement({})

    def to_dict(self) -> dict[str, object]:
        facts = {"unit": WORKER_UNIT, "threads": self.threads, "arguments": self.arguments, "expect": self.expect}
        return {**facts, **self.placement.to_dict()}


def parse_worker_options(request: Mapping[str, Any]) -> Options:
    """Return the options of a worker as the options of an instance, because both have the same names and limits."""
    named = {"name": "worker", "binary": request["binary"], "model": "/dev/null"}
    return Options.parse({**named, **{key: request[key] for key in OPTIONS_LIKE_INSTANCE}})


def parse_listen_and_client_addresses(request: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the address at which a worker listens, and its clients' addresses; BadRequest for a public address."""
    address = require_private_address(request["address"], "address")
    clients = [require_private_address(client, "clients") for client in request["clients"] or ()]
    if not clients:
        raise BadRequest("clients is empty: name the address of the host whose server uses this worker.")
    return address, clients


def plan_worker(host: Host, request: Mapping[str, Any], openmp: bool, free: FreeMemory) -> RpcWorker:
    """Return the plan of an RPC worker; BadRequest for impossible options, and for a public address."""
    options = parse_worker_options(request)
    address, clients = parse_listen_and_client_addresses(request)
    cpus = cpu_assignment.choose_compute_cpus(options, host)
    cores = cpu_assignment.first_cpu_of_each_core(host.topology, cpus)
    threads: int = options.threads or len(cores)
    cpu_assignment.require_core_for_each_thread("threads", threads, len(cores), f"CPUs {format_cpulist(cpus)}")
    nodes = cpu_assignment.choose_memory_nodes(options, host, cpus)
    policy = choose_memory_policy(options, host.topology, nodes)
    placement = place_ggml_rpc_server(options, host, openmp, cpus, threads, nodes, policy, free)
    placement.group = options.l3_group or placement.group
    return RpcWorker(options, address, clients, placement, threads)
