# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleets for tests and benchmarks: what hosts could have answered, in any number and always the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import count_by_layer, group_into_findings
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import Verdict
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    FAILED,
    UNREACHABLE,
    Document,
    ResultCollector,
)

BOOT = "sovereign-epyc.service is not enabled; the role sovereign.epyc.epyc_base installs it"
LOST = "/sys/fs/resctrl/schemata cannot be read: Input/output error."
NOW = "2026-11-21T12:00:00Z"
BEFORE = "2026-11-20T12:00:00Z"


def verdict(request: str, address: str, wanted: str | None, found: str | None, **changes: Any) -> Verdict:
    one = Verdict(request, address, wanted)
    one.found, one.at_boot = found, wanted
    one.live = "ok" if wanted == found else "drift"
    one.persistent = "ok"
    for name, value in changes.items():
        setattr(one, name, value)
    return one


def answer(*faults: str) -> tuple[list[dict[str, Any]], dict[str, dict[str, int]]]:
    """What epyc_drift_info returns of a host with these faults."""
    mask = "ffff" if "mask" in faults else "00ff"
    bit = "1" if "msr" in faults else "0"
    pages = "0" if "pages" in faults else "64"
    at_boot = None if "grub" in faults else "1-15"
    rows = [
        verdict("sysfs/numa", "sysfs:numa_balancing", "0", "0"),
        *(verdict("hugepages/hugepages", f"hugepages:node{n}/2048kB", "64", pages if n == 2 else "64") for n in (1, 2)),
        *(verdict("resctrl/resctrl", f"resctrl:draft/L3/{n}", "00ff", mask if n == 3 else "00ff") for n in (2, 3)),
        *(verdict("msr/msr", f"msr:0xc0000108[1]/cpu{n}", "0", bit if n == 5 else "0") for n in (4, 5)),
        verdict(
            "cmdline/cmdline", "cmdline:nohz_full", "1-15", "1-15", at_boot=at_boot,
            persistent="drift" if at_boot is None else "ok",
        ),
    ]  # fmt: skip
    if "unknown" in faults:
        rows = [verdict("resctrl/resctrl", "resctrl:", None, None, live="unknown", persistent="unknown", reason=LOST)]
    boot = BOOT if "service" in faults else ""
    # A boot parameter needs no service.
    for row in rows[:-1] if boot else []:
        row.reason, row.persistent, row.at_boot = boot, "drift", None
        row.lost_with_service = True
    return [one.to_dict() for one in group_into_findings(rows, boot)], count_by_layer(rows, boot)


def gathered(hosts: dict[str, tuple[str, ...]], host_map: dict[str, Any] | None = None) -> ResultCollector:
    """A fleet of hosts with their faults, and the map of each; "unreachable" and "failed" are faults too."""
    gathering = ResultCollector()
    for name, faults in hosts.items():
        if UNREACHABLE in faults:
            gathering.record_host_failure(name, UNREACHABLE, "Check the host", "No route to <host>")
        elif FAILED in faults:
            gathering.record_host_failure(
                name, FAILED, "Check the host", "/var/lib/sovereign-epyc/desired.json\n cannot be read"
            )
        else:
            gathering.add_findings_counts_and_map(name, *answer(*faults), host_map)
    return gathering


def report(
    hosts: dict[str, tuple[str, ...]],
    previous: Document | None = None,
    generated: str = NOW,
    host_map: dict[str, Any] | None = None,
) -> Document:
    return gathered(hosts, host_map).build_document(generated=generated, previous=previous, inventory=["inventories/x"])


def stream(count: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Hosts of three kinds; one of ten has a fault, in some mixture, and one of a hundred does not answer."""
    kinds = ("epyc9754", "epyc9654", "epyc7543")
    faults = ("mask", "msr", "pages", "grub", "service")
    for number in range(count):
        name = f"{kinds[number % 3]}-{number:05d}.example"
        if number % 100 == 50:
            yield name, (UNREACHABLE,)
        elif number % 10 == 3:
            yield name, tuple(fault for bit, fault in enumerate(faults) if (number // 10) >> bit & 1) or ("mask",)
        else:
            yield name, ()
