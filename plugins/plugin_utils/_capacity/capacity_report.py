# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of the capacity of a fleet: faults of memory first, then users, hosts, and what one more would add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.compared_predictions import (
    compare_summaries,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import (
    NOTE,
    NUMBER,
    Column,
    Figure,
    Report,
    Section,
    Step,
    Table,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.speed_sections import (
    build_prediction_section,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.wording import count_with_noun, join_names
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import MEASURED
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.sizes import UNITS
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import fleet as fleets
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.expansion_report import (
    added_host_section,
    promised_rate_section,
    tiers_section,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.host_facts import age_in_words
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold_host_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import AnyCell
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.fleet import (
        FleetCapacity,
        HostCapacity,
        InstanceCapacity,
    )

MODELS_LEGEND = (
    "alone: tokens per second of a user who is alone; users: how many get the rate at a time, of the slots; over, "
    "under: more, fewer users could have the rate than there are slots; measured: by the newest stored run, predicted: "
    "by the measured bandwidth of the host, on paper: by its data sheet; t/J: tokens per joule of that run"
)
HOSTS_LEGEND = (
    "weights: memory of all weights, where a file that several instances map counts once; W: watts, measured or of the "
    "processors' data sheet; equal hosts share a row"
)


def build_capacity_report(fleet: FleetCapacity, now: datetime) -> Report:
    """Return the report of a fleet, from which the text and the page are rendered; ``now`` gives the age of facts."""
    report = Report("Capacity", _headline(fleet))
    report.alerts += [f"{host.name}: {fault}" for host in fleet.hosts for fault in host.faults]
    report.more_headlines += _more_headlines(fleet)
    report.facts += _list_facts(fleet, now)
    report.figures += _list_figures(fleet)
    report.sections += _wanted_section(fleet)
    report.sections += _models_section(fleet)
    report.sections += _hosts_section(fleet)
    report.sections += tiers_section(fleet)
    report.sections += promised_rate_section(fleet)
    report.sections += added_host_section(fleet)
    compared = compare_summaries(instance.run for instance in fleet.instances if instance.run)
    report.sections += [build_prediction_section(compared)] if compared else []
    report.sections += _hosts_without_facts_section(fleet)
    report.steps += _list_next_steps(fleet)
    return report


def _headline(fleet: FleetCapacity) -> str:
    if not fleet.hosts:
        return "no host has facts, so that nothing can be counted."
    tiers = join_names([f"{fleet.count_users(tier)} {tier}" for tier in fleets.TIERS])
    return (
        f"{count_with_noun(len(fleet.hosts), 'host')} {'serves' if len(fleet.hosts) == 1 else 'serve'} "
        f"{count_with_noun(fleet.count_users(), 'user')} at a time with {fleet.request.rate:g} tokens per second each: "
        f"{tiers}."
    )


def _more_headlines(fleet: FleetCapacity) -> Iterator[str]:
    short = [
        f"{wanted.served} of {wanted.asked} users of {wanted.name}"
        for wanted in fleet.list_wanted()
        if wanted.verdict == fleets.UNDER
    ]
    if short:
        yield f"Under what is wanted: {join_names(short)}."
    if fleet.without_facts:
        names, count = fold_host_names(fleet.without_facts), len(fleet.without_facts)
        yield f"No facts of {count_with_noun(count, 'host')}, which {'is' if count == 1 else 'are'} left out: {names}."


def _list_facts(fleet: FleetCapacity, now: datetime) -> list[tuple[str, str]]:
    request = fleet.request
    facts = [("asked", f"{request.rate:g} tokens per second of each user, who has {request.context} tokens of context")]
    ages = sorted((host.facts["time"], age_in_words(host.facts, now)) for host in fleet.hosts)
    if ages:
        oldest, newest = ages[0][1], ages[-1][1]
        old = f"{oldest} old" if oldest == newest else f"{newest} to {oldest} old"
        facts.append(("facts", f"of {count_with_noun(len(ages), 'host')}, {old}"))
    return facts


def _list_figures(fleet: FleetCapacity) -> Iterator[Figure]:
    """Yield the users of each tier, how much of that was measured, and the power of the fleet."""
    for tier in fleets.TIERS:
        members = [instance for instance in fleet.instances if instance.tier == tier]
        if members:
            slots = sum(member.slots for member in members)
            note = f"{count_with_noun(len(members), 'instance')}, {count_with_noun(slots, 'slot')}"
            yield Figure(tier, count_with_noun(fleet.count_users(tier), "user"), note)
    instances = fleet.instances
    if instances:
        measured = sum(1 for instance in instances if instance.run)
        yield Figure("measured", f"{measured} of {len(instances)}", "instances with a stored run; others are predicted")
    watts = [host.watts for host in fleet.hosts]
    if any(number for number, dummy in watts):
        total = sum(number or 0 for number, dummy in watts)
        on_paper = sum(1 for dummy, source in watts if source != MEASURED)
        note = f"{on_paper} of {count_with_noun(len(watts), 'host')} by the data sheet" if on_paper else "measured"
        yield Figure("power", f"{total / 1000:.1f} kW", note)


def _wanted_section(fleet: FleetCapacity) -> Iterator[Section]:
    rows = [[row.name, str(row.asked), str(row.served), row.verdict] for row in fleet.list_wanted()]
    if rows:
        columns = [Column("wanted"), Column("asked", NUMBER), Column("served", NUMBER), Column("verdict")]
        yield Section("wanted", "What is wanted", Table(columns, rows), "users at a time who get the rate")


def _models_section(fleet: FleetCapacity) -> Iterator[Section]:
    rows = [_model_cells(model, instances) for model, instances in fleet.instances_by_model().items()]
    if rows:
        columns = [Column("model"), Column("tier"), Column("alone t/s", NUMBER), Column("users", NUMBER)]
        columns += [Column("verdict"), Column("t/J", NUMBER), Column("from"), Column("remark", NOTE)]
        yield Section("models", "What is served", Table(columns, rows), MODELS_LEGEND)


def _model_cells(model: str, instances: Sequence[InstanceCapacity]) -> list[AnyCell]:
    alone = [instance.alone for instance in instances if instance.alone is not None]
    users = [instance.users for instance in instances if instance.users is not None]
    is_least = any(instance.is_least for instance in instances)
    joules = [instance.tokens_per_joule for instance in instances if instance.tokens_per_joule]
    remarks = dict.fromkeys(
        f"{instance.unknown[:1].upper()}{instance.unknown[1:].rstrip('.')}."
        for instance in instances
        if instance.unknown
    )
    planned = sum(1 for instance in instances if not instance.installed)
    sharing = sum(1 for instance in instances if instance.sharing > 1)
    possible = sum(max(instance.possible or 0, instance.users or 0) for instance in instances)
    verdicts = [instance.verdict for instance in instances]
    slots, instance_count = sum(instance.slots for instance in instances), count_with_noun(len(instances), "instance")
    return [
        model,
        instances[0].tier,
        _format_range(alone),
        f"{sum(users)}{' or more' if is_least else ''} of {slots}" if users else "",
        _join_different(verdicts),
        f"{sum(joules) / len(joules):.3g}" if joules else "",
        _join_different([instance.source for instance in instances]),
        " ".join(
            [
                *([f"{planned} of {instance_count} not installed yet."] if planned else []),
                *([f"{sharing} of {instance_count} share their nodes with another instance."] if sharing else []),
                *([f"With more slots {possible} users could have the rate."] if possible > sum(users) else []),
                *remarks,
            ]
        ),
    ]


def _format_range(values: Sequence[float]) -> str:
    """Return the lowest and the highest of some values, or their only one; "" for none."""
    texts = list(dict.fromkeys(f"{value:.1f}" for value in (min(values), max(values)))) if values else []
    return " to ".join(texts)


def _join_different(words: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, words)))


def _hosts_section(fleet: FleetCapacity) -> Iterator[Section]:
    """Yield the hosts: those with a fault first, equal ones in one row."""
    groups: dict[tuple[str, ...], list[HostCapacity]] = {}
    for host in sorted(fleet.hosts, key=lambda host: not host.faults):
        groups.setdefault(tuple(_host_cells(host)), []).append(host)
    rows: list[list[AnyCell]] = [
        [fold_host_names([host.name for host in hosts]), *cells] for cells, hosts in groups.items()
    ]
    if rows:
        columns = [Column("host"), Column("SKU"), Column("GB/s", NUMBER), Column("weights", NUMBER)]
        columns += [Column("users", NUMBER), Column("verdict"), Column("W", NUMBER), Column("fault", NOTE)]
        yield Section("hosts", "Hosts", Table(columns, rows), HOSTS_LEGEND)


def _host_cells(host: HostCapacity) -> list[str]:
    watts, source = host.watts
    slots = sum(instance.slots for instance in host.instances)
    saved = f"{host.saved_bytes / UNITS['GiB']:.0f} GiB of weights are shared." if host.saved_bytes else ""
    return [
        host.sku,
        f"{host.machine.gbps:.0f} {host.machine.bandwidth_source}",
        f"{host.weight_bytes / UNITS['GiB']:.0f} of {host.facts['bytes'] / UNITS['GiB']:.0f} GiB",
        f"{sum(instance.users or 0 for instance in host.instances)} of {slots}" if slots else "",
        host.verdict,
        "" if watts is None else f"{watts:.0f}{' paper' if source != MEASURED else ''}",
        " ".join([*host.faults, host.facts["memory"]["stale_reason"], saved]).strip(),
    ]


def _hosts_without_facts_section(fleet: FleetCapacity) -> Iterator[Section]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in fleet.without_facts.items():
        by_reason.setdefault(reason, []).append(name)
    if by_reason:
        rows = [[fold_host_names(names), reason] for reason, names in by_reason.items()]
        columns = [Column("host"), Column("reason", NOTE)]
        yield Section("unknown", "Hosts without facts", Table(columns, rows))


def _list_next_steps(fleet: FleetCapacity) -> Iterator[Step]:
    """Yield what to do next: ask hosts, measure their memory, and measure their instances."""
    if fleet.without_facts:
        yield Step(
            "Ask the hosts without facts.", "ansible-playbook playbooks/capacity.yml -e epyc_capacity_ask=missing"
        )
    if any(host.machine.bandwidth_source != MEASURED for host in fleet.hosts):
        yield Step(
            "Measure the bandwidth of each host once; it takes seconds.",
            "ansible-playbook playbooks/benchmark.yml -e epyc_benchmark_memory=true",
        )
    if any(instance.run is None for instance in fleet.instances):
        yield Step(
            "Measure what is predicted, and read the hosts again.",
            "ansible-playbook playbooks/benchmark.yml; "
            "ansible-playbook playbooks/capacity.yml -e epyc_capacity_ask=all",
        )
