# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checklist item on threads that cache-aware scheduling of the kernel has drawn to one L3 domain."""

from __future__ import annotations

from ..._kernel.partitions import read_isolated_cpus
from ..._kernel.threads import BUSY
from ..._notation.cpulist import format_cpulist, parse_cpulist
from ..._verify.checklist_items import OK, WRONG
from ..plan.cache_aware_scheduling import l3_domains_of_cpus, max_threads_drawn_together
from .silent_unit_items import build_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._host.host import Host
    from ..._verify.checklist_items import Item


def list_drawn_thread_items(host: Host, name: str, proof: Mapping[str, Any] | str) -> list[Item]:
    """Return the item on the threads of an instance where the kernel has cache-aware scheduling switched on; else none.

    The item is wrong if at least two computing threads of a process that the kernel may move between L3 domains all ran
    in one domain.
    """
    most = max_threads_drawn_together(host)
    if isinstance(proof, str) or not most:
        return []
    isolated = read_isolated_cpus(host.fs)
    rows: dict[int, list[tuple[list[int], int | None]]] = {}
    for thread in proof["threads"]:
        if (thread["busy"] or 0) >= BUSY:
            movable = set(parse_cpulist(thread["allowed"])) - isolated
            domains = l3_domains_of_cpus(host.topology, movable)
            rows.setdefault(thread["process"], []).append((domains, thread["l3"]))
    free_threads = 0
    for threads in rows.values():
        moved = [(domains, l3) for domains, l3 in threads if len(domains) > 1]
        free_threads += len(moved)
        allowed = sorted({domain for domains, dummy in moved for domain in domains})
        if len(moved) > 1 and len(threads) <= most and len({l3 for dummy, l3 in moved}) == 1:
            sentence = (
                f"{len(moved)} computing threads ran in L3 domain {moved[0][1]}, although they may run in "
                f"{format_cpulist(allowed)}: cache-aware scheduling of this kernel draws them together, away from the "
                "memory links of the other domains. Switch it off with epyc_numa_cache_aware_scheduling: false."
            )
            return [build_item("scheduling", name, WRONG, sentence)]
    reason = (
        f"{free_threads} computing threads may move between L3 domains, and are spread over several of them"
        if free_threads
        else "no computing thread may move between L3 domains"
    )
    return [build_item("scheduling", name, OK, f"Cache-aware scheduling of the kernel is on, but {reason}.")]
