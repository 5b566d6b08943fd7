# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sections of the capacity report on what is not served yet: tiers of the papers, their rate, and one more host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import (
    NOTE,
    NUMBER,
    Column,
    Section,
    Table,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import paper_tiers
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.machine import plan_service
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.paper_machines import list_data_sheet_machines
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold_host_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import AnyCell
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.fleet import FleetCapacity
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.machine import Machine, Service

TIERS_LEGEND = (
    "here: tokens per second of a user who is alone on the fastest host, and users at the rate if each of the hosts "
    "that hold the model served nothing else; all of that is predicted, without speculation"
)
#: The most models that have a column in the table of further hosts, and the most characters of a heading.
MOST_MODELS, LONGEST_HEADING = 4, 24


def tiers_section(fleet: FleetCapacity) -> Iterator[Section]:
    """Yield the tiers of the papers: what they promise of a server, and what the hosts here could do."""
    services = paper_tiers.list_tier_services([host.machine for host in fleet.hosts], fleet.request)
    rows: list[list[AnyCell]] = [
        [
            found.tier.name,
            found.tier.shape.name,
            found.tier.promise,
            f"{found.best.tokens_per_second:.1f}" if found.best else "fits nowhere",
            found.best.source if found.best else "",
            str(len(found.holders)),
            str(found.users) if found.best else "",
        ]
        for found in services
    ]
    if fleet.hosts:
        columns = [Column("tier"), Column("model"), Column("the papers' promise"), Column("here t/s", NUMBER)]
        columns += [Column("bandwidth"), Column("hosts", NUMBER), Column("users", NUMBER)]
        yield Section("tiers", "Tiers of the papers", Table(columns, rows), TIERS_LEGEND)


def promised_rate_section(fleet: FleetCapacity) -> Iterator[Section]:
    """Yield what 60 tokens per second of a dense 70B would need on each kind of host."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in fleet.hosts:
        for promised in paper_tiers.list_promised_rates([host.machine], fleet.request):
            groups.setdefault((host.sku, *_promised_cells(promised)), []).append(host.name)
    known = {host.sku for host in fleet.hosts}
    for machine in list_data_sheet_machines():
        for promised in paper_tiers.list_promised_rates([machine], fleet.request):
            if machine.name not in known:
                groups.setdefault((machine.name, *_promised_cells(promised)), []).append("one more")
    rows: list[list[AnyCell]] = [[fold_host_names(names), *cells] for cells, names in groups.items()]
    if rows:
        columns = [Column("host"), Column("SKU"), Column("GB/s", NUMBER), Column("steps/s", NUMBER)]
        columns += [Column("tokens/step", NUMBER), Column("60 t/s")]
        yield Section("promise", "60 tokens per second of a dense 70B", Table(columns, rows), _promise_legend())


def _promised_cells(promised: paper_tiers.PromisedRate) -> list[str]:
    return [
        f"{promised.gbps:.0f} {promised.source}",
        f"{promised.steps:.1f} ({promised.low:.1f} to {promised.high:.1f})",
        f"{promised.needed_tokens_per_step:.1f}",
        promised.verdict,
    ]


def _promise_legend() -> str:
    size = paper_tiers.DENSE_70B.bytes_per_token / 1e9
    best = paper_tiers.TOKENS_PER_STEP
    return (
        f"A step reads {size:.1f} GB (Q4_K_M). 60 steps per second would read {paper_tiers.needed_gbps():.0f} GB/s; "
        f"{60 / best:.0f} steps of {best:g} tokens each, {paper_tiers.needed_gbps(best):.0f} GB/s: {best:g} is what a "
        "draft model gives at best (0.65 to 0.7 of its tokens accepted), before the time for drafting. steps/s: "
        "predicted for one stream; tokens/step: what each of them would have to give; at best: only at the upper end "
        "of the range"
    )


def added_host_section(fleet: FleetCapacity) -> Iterator[Section]:
    """Yield what one more host of each SKU would add: users at the rate, and tokens per second of a user alone."""
    shapes = dict(list(fleet.list_shapes().items())[:MOST_MODELS]) or {
        tier.shape.name: tier.shape for tier in paper_tiers.PAPER_TIERS
    }
    machines: dict[str, tuple[Machine, float | None, str]] = {}
    for host in sorted(fleet.hosts, key=lambda host: (bool(host.faults), host.machine.bandwidth_source)):
        machines.setdefault(host.sku, (host.machine, host.watts[0], f"as {host.name}"))
    for machine in list_data_sheet_machines():
        machines.setdefault(machine.name, (machine, machine.watts, machine.note))
    rows: list[list[AnyCell]] = [
        [
            name,
            f"{machine.gbps:.0f} {machine.bandwidth_source}",
            "" if watts is None else f"{watts:.0f}",
            *(_service_text(plan_service(machine, shape, fleet.request)) for shape in shapes.values()),
            note,
        ]
        for name, (machine, watts, note) in machines.items()
    ]
    columns = [Column("machine"), Column("GB/s", NUMBER), Column("W", NUMBER)]
    columns += [Column(name[:LONGEST_HEADING], NUMBER) for name in shapes]
    legend = (
        "users at the rate, and in brackets the tokens per second of a user who is alone, if the machine serves only "
        "this model, on each socket if it fits there; predicted, without speculation; W: watts, as above"
    )
    yield Section("more", "What one more host would add", Table([*columns, Column("machine as", NOTE)], rows), legend)


def _service_text(service: Service | None) -> str:
    return f"{service.users} ({service.tokens_per_second:.1f})" if service else "does not fit"
