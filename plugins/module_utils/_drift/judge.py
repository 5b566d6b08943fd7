# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on requested settings: each address of a request is compared with the host."""

from __future__ import annotations

from .._errors import BadRequest, TuningError
from .._io.paths import BOOT_SERVICE, BOOT_SERVICE_LINK, HOST_TOOL
from .._knobs.catalogue import KNOBS, find_knob_row, sort_requests
from .._knobs.protocol.stored_requests import load_stored_requests
from .._notation.cpulist import format_cpulist
from .verdict import DRIFT, OK, PLAN, Verdict, is_single_setting, unreadable_address_verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .._host.host import Host
    from .._io.store import Store
    from .._knobs.protocol.knob import Knob

NOT_STORED = "the request is not stored on the host, or stored differently; set persistent"


def judge_requests(
    host: Host, store: Store, requests: Mapping[str, Mapping[str, Any]], remarks: list[str] | None = None
) -> list[Verdict]:
    """Return a verdict for each address that the requests, by "KNOB/LABEL", set; the last request of an address counts.

    The remarks of the knobs are appended to ``remarks``, where it is given.
    """
    by_address: dict[tuple[str, str], Verdict] = {}
    boot = boot_service_ineffective_reason(host)
    stored_requests = load_stored_requests(store)[1]
    for name, label, options in sort_requests(requests):
        request = f"{name}/{label}"
        is_stored = stored_requests.get(request) == dict(options)
        reason = boot if is_stored else NOT_STORED
        for verdict in _judge_settings_of_request(host, name, request, options, reason, remarks):
            verdict.lost_with_service = verdict.lost_with_service and is_stored
            # Verdicts on whole requests have addresses in common, so their reasons keep them apart.
            subject = "" if is_single_setting(verdict.address) else f"{request}: {verdict.reason}"
            by_address[subject, verdict.address] = verdict
    return list(by_address.values())


def judge_roles_with_offline_cpus(host: Host) -> list[Verdict]:
    """Return a drift verdict on each role that lacks CPUs because they are offline.

    No other verdict shows such CPUs: the plan gives no offline CPU to a role, so all settings are as planned.
    """
    try:
        cpus_by_role = host.plan.cpus_if_all_online if host.topology.offline else {}
    except TuningError:
        return []  # Where the plan is impossible, each request that needs the plan has a verdict with the reason.
    verdicts = []
    for role, cpus in cpus_by_role.items():
        verdict = Verdict("", f"{PLAN}:{role}", format_cpulist(cpus))
        verdict.found, verdict.at_boot = format_cpulist(getattr(host.plan, role)), verdict.wanted
        verdict.live, verdict.persistent = DRIFT, OK
        verdict.reason = host.plan.offline_reasons[role]
        verdicts.append(verdict)
    return verdicts


def waits_for_reboot(verdict: Verdict) -> bool:
    """Return True if a setting waits for a reboot of the host; a setting of a daemon waits only for its restart."""
    row = find_knob_row(verdict.address)
    return verdict.pending_reboot and row is not None and row.needs_reboot


def boot_service_ineffective_reason(host: Host) -> str:
    """Return why the boot service will apply nothing at the next boot; "" if it will."""
    # The link of a masked service leads to /dev/null, so its text is empty.
    if not host.fs.read_if_present(BOOT_SERVICE_LINK):
        return f"{BOOT_SERVICE} is not enabled; the role sovereign.epyc.epyc_base installs it"
    line = (host.fs.read_if_present(HOST_TOOL) or "").partition("\n")[0]
    interpreter = line[2:].strip().partition(" ")[0] if line.startswith("#!") else ""
    if interpreter and host.fs.read_status(interpreter) is None:
        return f"{HOST_TOOL} needs {interpreter}, which is not on this host any more; run site.yml --tags base"
    return ""


def _judge_settings_of_request(
    host: Host, knob_name: str, request: str, options: Mapping[str, Any], boot_failure: str, remarks: list[str] | None
) -> Iterable[Verdict]:
    whole = f"{knob_name}:"
    if knob_name not in KNOBS:
        return [unreadable_address_verdict(request, whole, f"this version of the collection has no knob {knob_name}")]
    verdicts: list[Verdict] = []
    try:
        for knob in KNOBS[knob_name].build_knobs(host, options):
            try:
                verdicts += _judge_addresses_of_knob(knob, request, boot_failure)
                if remarks is not None:
                    remarks += knob.list_remarks()
            except BadRequest:
                raise
            except TuningError as error:
                verdicts.append(unreadable_address_verdict(request, whole, str(error)))
    except BadRequest as error:
        # A run applies a request as a whole, so a refused request has one verdict and none on its settings.
        refused = unreadable_address_verdict(request, whole, str(error))
        refused.supported = False
        return [refused]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Somebody has edited the file of stored requests: modules validate options before they store them.
        reason = f"the stored options cannot be used ({type(error).__name__}: {error}); site.yml stores them anew"
        return [unreadable_address_verdict(request, whole, reason)]
    return verdicts


def _judge_addresses_of_knob(knob: Knob, request: str, boot_failure: str) -> list[Verdict]:
    wanted = knob.wanted_settings()
    live = knob.read_live_settings(wanted)
    configured = knob.read_settings(wanted) if knob.outlives_reboot else {}
    verdicts = []
    for address, value in wanted.items():
        verdict = Verdict(request, address, value)
        verdicts.append(verdict)
        unreachable = knob.unreachable_reason(address)
        if unreachable:
            verdict.reason = unreachable
            continue
        verdict.found = live.get(address)
        verdict.live = OK if knob.is_in_force(address, value, verdict.found) else DRIFT
        if knob.outlives_reboot:
            verdict.at_boot = configured.get(address)
            verdict.persistent = OK if knob.values_equal(address, value, configured.get(address)) else DRIFT
            if verdict.persistent == DRIFT and verdict.at_boot == value:
                verdict.reason = knob.rewrite_reason(address, value)
            verdict.pending_reboot = verdict.persistent == OK and verdict.live == DRIFT
        else:
            verdict.at_boot = None if boot_failure else value
            verdict.persistent = DRIFT if boot_failure else OK
            verdict.reason = boot_failure
            verdict.lost_with_service = bool(boot_failure)
    return verdicts
