# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan as text for people: the CPUs of each role, and a table of the L3 domains with their roles and ways."""

from __future__ import annotations

from .._notation.cache_masks import count_ways
from .._notation.cpulist import format_cpulist
from .._notation.sizes import format_bytes_short
from .intent import ROLES
from .topology import format_domain_counts_by_l3_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ccds import L3Domain
    from .memory_speed import MemorySpeed
    from .plan import Plan
    from .topology import Topology


def render_plan(plan: Plan, top: Topology, memory: MemorySpeed | None = None) -> str:
    """Return the text of a plan, without a newline at its end; faults of the host are its first lines."""
    lines = [
        *(f"FAULT: {fault}" for fault in list_faults(top, memory)),
        f"{top.model or 'unknown CPU'}, family {top.family} model {top.model_number}, Linux {top.kernel}",
        format_counts_of_host_parts(top),
    ]
    if top.ccd_source:
        lines.append(f"CCDs from: {top.ccd_source}")
    lines.append("")
    for role in ROLES:
        cpus = getattr(plan, role)
        if cpus or role != "idle":
            lines.append(f"{role:<13} {_format_count(len(cpus), 'CPU'):>8}   {format_cpulist(cpus) or '-'}")
    if top.l3:
        lines += ["", *_render_l3_rows(plan, top)]
    below = format_remarks_and_impossible_layers(plan, top, memory)
    return "\n".join([*lines, *([""] if below else []), *below])


def list_faults(top: Topology, memory: MemorySpeed | None) -> list[str]:
    """Return the faults of a host that tuning cannot mend: of its frequencies and of its memory."""
    return [*([top.frequency_fault] if top.frequency_fault else []), *(memory.faults if memory else [])]


def format_counts_of_host_parts(top: Topology) -> str:
    """Return a line with the numbers of sockets, nodes, cores, CCDs and L3 domains of a host."""
    return (
        f"{_format_count(len(top.sockets), 'socket')}, {_format_count(len(top.nodes), 'node')}, "
        f"{_format_count(len(top.cores), 'core')}, SMT {top.smt}, {_format_count(len(top.ccds), 'CCD')}, L3: "
        f"{format_domain_counts_by_l3_size(top.l3) or 'unknown'}"
    )


def format_remarks_and_impossible_layers(plan: Plan, top: Topology, memory: MemorySpeed | None = None) -> list[str]:
    """Return a line for each remark of a plan, each layer that is impossible, and each fact that could not be read."""
    return [
        *([f"Note: {memory.stale_reason}"] if memory and memory.stale_reason else []),
        *(f"Note: {remark}" for remark in plan.remarks),
        *(f"Cannot do '{layer}' here: {reason}" for layer, reason in plan.cannot.items()),
        *(f"Missing: {item}" for item in top.missing.values() if item not in plan.cannot.values()),
    ]


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _render_l3_rows(plan: Plan, top: Topology) -> list[str]:
    """Return the table of L3 domains, a row for each, with a letter for each way from the highest way down."""
    full = top.resctrl.cbm_mask if top.resctrl else None
    show_ways = bool(full and plan.groups)
    legend = ""
    if full and show_ways:
        ways = {format_bytes_short(domain.bytes // count_ways(full)): None for domain in top.l3}
        names = ", ".join([*(f"{group.name[0]} {group.name}" for group in plan.groups), ". default"])
        legend = f"L3 ways of {' or '.join(ways)} ({names})"
    width = max(len(format_cpulist(domain.present)) for domain in top.domains)
    ways_width = max(full.bit_length(), len(legend)) if full and show_ways else 0
    show_sizes = len({domain.bytes for domain in top.l3}) > 1
    head = f"{'node':>4} {'CCD':>4} {'L3':>4}  " + (f"{'size':>7}  " if show_sizes else "")
    head += f"{'CPUs':<{width}}  " + (f"{legend:<{ways_width}}  " if show_ways else "")
    rows = [head + "who"]
    for domain in top.domains:
        number = "-" if domain.id is None else domain.id
        node = "-" if domain.node is None else domain.node
        row = f"{node:>4} {domain.ccd:>4} {number:>4}  "
        if show_sizes:
            row += f"{format_bytes_short(domain.bytes) if domain.bytes else '-':>7}  "
        row += f"{format_cpulist(domain.present):<{width}}  "
        if full and show_ways:
            row += f"{format_ways_as_group_letters(plan, domain, full):<{ways_width}}  "
        rows.append(row + _format_roles_of_domain(plan, domain))
    return rows


def format_ways_as_group_letters(plan: Plan, domain: L3Domain, full_mask: int) -> str:
    """Return a letter for each way of a domain: the first letter of its group, or a dot for the default group."""
    groups = [group for group in plan.groups if set(group.cpus) & set(domain.cpus)]
    letters = ""
    for bit in reversed(range(full_mask.bit_length())):
        owners = [group.name[0] for group in groups if group.masks[domain.id or 0] >> bit & 1]
        letters += owners[0] if owners else "."
    return letters


def _format_roles_of_domain(plan: Plan, domain: L3Domain) -> str:
    parts = []
    for role in ROLES:
        cpus = [cpu for cpu in domain.cpus if plan.role_of(cpu) == role]
        if cpus:
            parts.append(f"{role} {format_cpulist(cpus)}")
    offline = set(domain.present) - set(domain.cpus)
    if offline:
        parts.append(f"offline {format_cpulist(offline)}")
    return ", ".join(parts)
