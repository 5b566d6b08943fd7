# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses of RPC workers on other hosts, and the options that an instance with such workers cannot have."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.ip_addresses import format_endpoint, parse_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def parse_worker_endpoints(workers: Sequence[str]) -> list[tuple[str, int]]:
    """Return address and port of each RPC worker; BadRequest for a public address, or for a worker named twice."""
    endpoints = [parse_endpoint(word, "rpc_workers") for word in workers]
    for endpoint in endpoints:
        if endpoints.count(endpoint) > 1:
            raise BadRequest(f"rpc_workers names {format_endpoint(*endpoint)} twice. Name each worker once.")
    return endpoints


def refuse_options_impossible_with_workers(options: Any) -> None:
    """Raise BadRequest for options that an instance with RPC workers cannot have."""
    if not options.rpc_workers:
        if options.rpc_layers is not None:
            raise BadRequest("rpc_layers has no effect without rpc_workers. Name them, or leave rpc_layers out.")
        return
    parse_worker_endpoints(options.rpc_workers)
    if options.uses_draft:
        raise BadRequest(
            f"speculation {options.speculation_text} with rpc_workers: each drafted token would wait for the network. "
            "Use ngram or none."
        )
    if options.projector:
        raise BadRequest("projector has not been tried with rpc_workers. Leave one of them out.")
    if options.hugepages == "hugetlbfs":
        raise BadRequest(
            "hugepages hugetlbfs copies the whole model to this host, but rpc_workers hold a part of it. Use thp."
        )


def format_rpc_flag_value(workers: Sequence[str]) -> str:
    """Return the value of the flag --rpc: the addresses of the workers, with commas between them."""
    return ",".join(format_endpoint(*endpoint) for endpoint in parse_worker_endpoints(workers))
