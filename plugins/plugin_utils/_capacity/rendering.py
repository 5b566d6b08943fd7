# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The capacity of a fleet in each of its forms: text for a terminal, an HTML page, and plain data."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_text import render_report_text
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import fleet as fleets
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import paper_tiers
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_report import build_capacity_report
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.paper_machines import list_data_sheet_machines
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.planned_instances import (
    KnownShapes,
    list_planned_instances,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._model_catalogue import merge_user_entries_into_catalogue
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STYLE as PAGE_STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import report_html
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import Report
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import CapacityRequest

#: The version of the data. A later version may have more keys.
VERSION = 1
#: Results: all that is wanted is served; nothing could be counted; fewer users are served than wanted.
SERVED, NOT_COUNTED, UNDER_WANTED = 0, 1, 2


def compute_fleet_capacity(
    hosts: Mapping[str, Mapping[str, Any]], request: CapacityRequest, user_entries: Any = None
) -> fleets.FleetCapacity:
    """Return the capacity of hosts, each with ``facts`` (or None and a ``reason``) and ``instances`` of the inventory.

    ``user_entries`` are the entries of the user's own catalogue. BadRequest for instances that are no list.
    """
    known = {name: host["facts"] for name, host in hosts.items() if host["facts"]}
    shapes = KnownShapes(merge_user_entries_into_catalogue(user_entries), known.values())
    counted = [
        fleets.HostCapacity(
            name, facts, list_planned_instances(name, facts, hosts[name].get("instances"), shapes), request
        )
        for name, facts in known.items()
    ]
    return fleets.FleetCapacity(
        request, counted, {name: str(host["reason"]) for name, host in hosts.items() if not host["facts"]}
    )


def render_capacity(fleet: fleets.FleetCapacity, now: datetime | None = None) -> dict[str, Any]:
    """Return the capacity as ``text``, ``page`` and ``data``, with ``headline`` and ``code``."""
    now = now or datetime.now(timezone.utc)
    report = build_capacity_report(fleet, now)
    return {
        "text": render_report_text(report),
        "page": _render_page(report),
        "data": capacity_to_dict(fleet, now),
        "headline": " ".join([report.headline, *report.more_headlines]),
        "code": find_result_code(fleet),
    }


def find_result_code(fleet: fleets.FleetCapacity) -> int:
    """Return whether all that is wanted is served."""
    if not fleet.hosts:
        return NOT_COUNTED
    return UNDER_WANTED if any(row.verdict == fleets.UNDER for row in fleet.list_wanted()) else SERVED


def capacity_to_dict(fleet: fleets.FleetCapacity, now: datetime) -> dict[str, Any]:
    """Return all numbers of the report as plain data."""
    machines = [host.machine for host in fleet.hosts]
    request = fleet.request
    return {
        "version": VERSION,
        "generated": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "rate": request.rate,
        "context": request.context,
        "users": {tier: fleet.count_users(tier) for tier in fleets.TIERS},
        "wanted": [row.to_dict() for row in fleet.list_wanted()],
        "hosts": [host.to_dict() for host in fleet.hosts],
        "without_facts": fleet.without_facts,
        "tiers": [tier.to_dict() for tier in paper_tiers.list_tier_services(machines, request)],
        "promise": [
            promised.to_dict()
            for promised in paper_tiers.list_promised_rates([*machines, *list_data_sheet_machines()], request)
        ],
    }


def _render_page(report: Report) -> str:
    body = [
        *report_html.render_first_screen(report),
        *(report_html.render_section(section) for section in report.sections),
        *report_html.render_steps(report.steps),
    ]
    return frame.render_page(f"{report.title}: {report.headline}", PAGE_STYLE + STYLE, "", body)
