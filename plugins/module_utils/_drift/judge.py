# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares every requested setting with the host: one verdict for each address."""

from __future__ import annotations

from .._errors import BadRequest, TuningError
from .._io.paths import BOOT_SERVICE, BOOT_SERVICE_LINK, HOST_TOOL
from .._knobs.catalogue import KNOBS, in_order, row_of
from .._knobs.protocol.stored_requests import stored
from .._notation.cpulist import format_cpulist
from .verdict import DRIFT, OK, PLAN, Verdict, has_place, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .._host.host import Host
    from .._io.store import Store
    from .._knobs.protocol.knob import Knob


def survey(
    host: Host, store: Store, requests: Mapping[str, Mapping[str, Any]], remarks: list[str] | None = None
) -> list[Verdict]:
    """Return a verdict per address that the requests (by "KNOB/LABEL") want; a later request wins over an earlier.

    To ``remarks``, where it is given, is added what the knobs remark in a run that changes nothing.
    """
    by_address: dict[tuple[str, str], Verdict] = {}
    boot = why_not_at_boot(host)
    kept = stored(store)[1]
    for name, label, options in in_order(requests):
        request = f"{name}/{label}"
        reason = boot
        if kept.get(request) != dict(options):
            reason = "the request is not stored on the host, or stored differently; set persistent"
        for verdict in _of_request(host, name, request, options, reason, remarks):
            # What is said of a whole request replaces nothing.
            which = "" if has_place(verdict.address) else f"{request}: {verdict.reason}"
            by_address[which, verdict.address] = verdict
    return list(by_address.values())


def away(host: Host) -> list[Verdict]:
    """Return a verdict on each role without CPUs, as these are offline; all settings are as planned then."""
    try:
        meant = host.plan.cpus_if_all_online if host.topology.offline else {}
    except TuningError:
        return []  # The requests that need the plan report what is wrong with it.
    verdicts = []
    for role, cpus in meant.items():
        verdict = Verdict("", f"{PLAN}:{role}", format_cpulist(cpus))
        verdict.found, verdict.at_boot = format_cpulist(getattr(host.plan, role)), verdict.wanted
        verdict.live, verdict.persistent = DRIFT, OK
        verdict.reason = next(remark for remark in host.plan.remarks if remark.startswith(f"{role} is without CPU"))
        verdicts.append(verdict)
    return verdicts


def waits(verdict: Verdict) -> bool:
    """Return whether a setting waits for a reboot. Not all that lasts does: a daemon is just restarted."""
    row = row_of(verdict.address)
    return verdict.pending_reboot and row is not None and row.needs_reboot


def why_not_at_boot(host: Host) -> str:
    """Return why nothing will be applied at the next boot, or an empty text."""
    # The unit file of a masked one leads to /dev/null.
    if not host.fs.read_if_present(BOOT_SERVICE_LINK):
        return f"{BOOT_SERVICE} is not enabled; the role sovereign.epyc.base installs it"
    line = (host.fs.read_if_present(HOST_TOOL) or "").partition("\n")[0]
    interpreter = line[2:].strip().partition(" ")[0] if line.startswith("#!") else ""
    if interpreter and host.fs.read_status(interpreter) is None:
        return f"{HOST_TOOL} needs {interpreter}, which is not on this host any more; run site.yml --tags base"
    return ""


def _of_request(
    host: Host, name: str, request: str, options: Mapping[str, Any], boot: str, remarks: list[str] | None
) -> Iterable[Verdict]:
    whole = f"{name}:"
    if name not in KNOBS:
        return [unknown(request, whole, f"this version of the collection has no knob {name}")]
    verdicts: list[Verdict] = []
    try:
        for knob in KNOBS[name].build(host, options):
            try:
                verdicts += _of_knob(knob, request, boot)
                if remarks is not None:
                    remarks += knob.remarks()
            except BadRequest:
                raise
            except TuningError as error:
                verdicts.append(unknown(request, whole, str(error)))
    except BadRequest as error:
        # A run makes all of a request or nothing of it, so this is told once, and instead of all else.
        refused = unknown(request, whole, str(error))
        refused.supported = False
        return [refused]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Only a file that was edited holds such options: those of a module are checked before they are stored.
        reason = f"the stored options cannot be used ({type(error).__name__}: {error}); site.yml stores them anew"
        return [unknown(request, whole, reason)]
    return verdicts


def _of_knob(knob: Knob, request: str, boot: str) -> list[Verdict]:
    wanted = knob.wanted()
    live = knob.live(wanted)
    configured = knob.read(wanted) if knob.lasting else {}
    verdicts = []
    for address, value in wanted.items():
        verdict = Verdict(request, address, value)
        verdicts.append(verdict)
        gone = knob.gone(address)
        if gone:
            verdict.reason = gone
            continue
        verdict.found = live.get(address)
        verdict.live = OK if knob.in_force(address, value, verdict.found) else DRIFT
        if knob.lasting:
            verdict.at_boot = configured.get(address)
            verdict.persistent = OK if knob.same(address, value, configured.get(address)) else DRIFT
            if verdict.persistent == DRIFT and verdict.at_boot == value:
                verdict.reason = knob.doubt(address, value)
            verdict.pending_reboot = verdict.persistent == OK and verdict.live == DRIFT
        else:
            verdict.at_boot = None if boot else value
            verdict.persistent = DRIFT if boot else OK
            verdict.reason = boot
    return verdicts
