# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Repairs drift in the layers of some roles, and gives up a setting that somebody else changes again and again.

A repair applies the stored requests again, so it needs no inventory and restarts nothing. Settings that wait for a
reboot are not repaired. The times of all repairs are stored on the host: a setting that was repaired too often within a
day is given up until the day is over, and a metric of the host names it.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

from .._errors import BadRequest, TuningError
from .._io.store import REPAIRS, TRIAL
from .._knobs.apply_stored import StoredApplication
from .._knobs.catalogue import KNOBS
from .._knobs.history import history_file
from .._notation.shape import ANY
from . import survey as surveys
from . import words
from .verdict import DRIFT, is_single_setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .._io.store import Store
    from .._knobs.protocol.knob import Change
    from .findings import Finding
    from .metrics import Sample

    #: A function with the parameters of survey.check_host.
    HostCheck = Callable[..., surveys.Survey]

DAY_SECONDS = 86400
#: The largest number of repairs of a setting within a day.
MOST = 2
#: The roles whose settings take effect at once, without a reboot of the host or a restart of a service.
ROLES = tuple(
    sorted({role for row in KNOBS.values() if not row.needs_reboot for role in row.roles.values()} - {"grub_params"})
)
GIVEN_UP = "sovereign_epyc_repair_given_up"
HELP = {GIVEN_UP: "A setting that was repaired so often in a day that it is left as it is: somebody else sets it."}
SHAPE = {"most": int, "repairs": {ANY: list}}


class Repair:
    """The result of a repair, or with ``check`` its prediction: the changes, and each finding by its outcome.

    ``left`` are findings whose repair failed, or that have their request in common with a ``given_up`` finding.
    ``left_alone`` are findings that a repair of these ``roles`` does not try. ``remarks`` are sentences on failures.
    """

    def __init__(self, check: bool = False, roles: Collection[str] = ROLES) -> None:
        self.check = check
        self.roles = roles
        self.changes: list[Change] = []
        self.repaired: list[Finding] = []
        self.given_up: list[Finding] = []
        self.left: list[Finding] = []
        self.left_alone: list[Finding] = []
        self.remarks: list[str] = []
        #: The number of settings before the repair, by layer and status.
        self.coverage: dict[str, dict[str, int]] = {}

    @property
    def is_clean(self) -> bool:
        """Return whether the host is as configured; where only some roles were repaired, their layers alone count."""
        all_roles = set(self.roles) == set(ROLES)
        unrepaired = [finding for finding in self.left_alone if all_roles or finding.role in self.roles]
        return not (self.given_up or self.left or unrepaired or self.remarks or (self.check and self.repaired))

    def to_dict(self) -> dict[str, list[dict[str, object]]]:
        """Return the findings as plain data, by their outcome."""
        names = ("repaired", "given_up", "left", "left_alone")
        return {name: [finding.to_dict() for finding in getattr(self, name)] for name in names}

    def format_outcome_lines(self) -> list[str]:
        """Return a line for people for each finding, followed by the remarks."""
        done = "would be repaired" if self.check else "was repaired"
        lines = [f"{_format_title(row)}: {done}, {row.found} -> {row.wanted}" for row in self.repaired]
        lines += [
            f"{_format_title(row)}: given up, it is {row.found} again and should be {row.wanted}. Somebody else sets "
            "it: find out who, or change what the inventory asks for"
            for row in self.given_up
        ]
        lines += [f"{_format_title(row)}: left, it is {row.found} and should be {row.wanted}" for row in self.left]
        lines += [f"Left alone: {words.format_finding_with_step(row.to_dict())}" for row in self.left_alone]
        return [*lines, *self.remarks] or ["Nothing was to be repaired."]


def repair_drift(
    fs: KernelFS,
    store: Store,
    roles: Collection[str],
    max_repairs_per_day: int = MOST,
    check: bool = False,
    clock: Any = time,
    check_host: HostCheck = surveys.check_host,
) -> Repair:
    """Repair drift in the layers of these roles, and return the result; with ``check`` only predict the result.

    Raises BadRequest for a role whose settings cannot be repaired without a reboot or a restart.
    """
    if other := sorted(set(roles) - set(ROLES)):
        raise BadRequest(
            f"{other[0]} is not repaired by itself; {', '.join(ROLES)} are. Apply settings that need a reboot or a "
            "restart with site.yml, and repair settings of other programs by hand."
        )
    with nullcontext() if check else store.hold_lock():
        outcome = Repair(check, roles)
        if store.has_file(TRIAL):
            outcome.remarks.append(f"Nothing is repaired while {surveys.UNDER_TRIAL}.")
            return outcome
        survey = check_host(fs, store=store)
        findings, outcome.coverage = survey.list_findings(), survey.count_by_layer()
        repairable = [finding for finding in findings if _can_repair_without_reboot(finding, roles)]
        outcome.left_alone = [finding for finding in findings if finding not in repairable]
        past = _load_repair_times_of_last_day(store, clock.time())
        outcome.given_up = [
            finding for finding in repairable if _count_repairs_of_finding(finding, past) >= max_repairs_per_day
        ]
        blocked = {finding.request for finding in outcome.given_up}
        outcome.left = [row for row in repairable if row.request in blocked and row not in outcome.given_up]
        outcome.repaired = [finding for finding in repairable if finding.request not in blocked]
        if outcome.repaired:
            store.require_writable()
        if outcome.repaired and not check:
            # Repairs are counted before the kernel is written: an uncounted repair could be repeated without end.
            _save_repair_times(store, past, max_repairs_per_day, outcome.repaired, clock.time())
            tried = len(outcome.repaired)
            _apply_requests_and_check_again(fs, store, roles, outcome, check_host)
            addresses = {change.address for change in outcome.changes}
            unwritten = history_file.record_finished_run(store, history_file.REPAIR, addresses)
            outcome.remarks += [unwritten] if unwritten else []
            if len(outcome.repaired) < tried:
                _save_only_successful_repairs(store, past, max_repairs_per_day, outcome, clock.time())
    return outcome


def given_up_settings_metric(store: Store, findings: Iterable[Finding], clock: Any = time) -> dict[str, list[Sample]]:
    """Return the metric of given-up settings: a sample for each such finding; empty where no setting is given up."""
    most = store.load_cache(REPAIRS, SHAPE).get("most", MOST)
    past = _load_repair_times_of_last_day(store, clock.time())
    samples: list[Sample] = [
        ({name: getattr(finding, name) for name in ("layer", "what", "where", "role")}, 1)
        for finding in findings
        if finding.status == DRIFT and _count_repairs_of_finding(finding, past) >= most
    ]
    return {GIVEN_UP: samples} if samples else {}


def _can_repair_without_reboot(finding: Finding, roles: Collection[str]) -> bool:
    """Return whether a repair of these roles can put the settings of a finding in force at once."""
    return (
        finding.role in roles
        and finding.live == DRIFT
        and not finding.pending_reboot
        and not KNOBS[finding.layer].needs_reboot
        and all(map(is_single_setting, finding.addresses))
    )


def _apply_requests_and_check_again(
    fs: KernelFS, store: Store, roles: Collection[str], outcome: Repair, check_host: HostCheck
) -> None:
    """Apply the requests of the findings to repair, check the host again, and sort the findings by their outcome."""
    work = StoredApplication(fs, store, only={finding.request for finding in outcome.repaired})
    work.apply_requests()
    outcome.changes, outcome.remarks = work.changes, [*work.failures, *work.unsupported]
    tried = outcome.repaired
    try:
        wrong = [
            finding
            for finding in check_host(fs, store=store).list_findings()
            if _can_repair_without_reboot(finding, roles)
        ]
    except TuningError as error:
        outcome.remarks.append(f"{len(work.changes)} settings were changed, and cannot be looked at again: {error}")
        wrong = tried
    wrong_addresses = {address for finding in wrong for address in finding.addresses}
    outcome.left += [finding for finding in tried if wrong_addresses & set(finding.addresses)]
    outcome.repaired = [finding for finding in tried if not wrong_addresses & set(finding.addresses)]


def _load_repair_times_of_last_day(store: Store, now: float) -> dict[str, list[float]]:
    """Return the times of the repairs of the last day by address; times in the future count, as a clock may go back."""
    stored: Mapping[str, Sequence[float]] = store.load_cache(REPAIRS, SHAPE).get("repairs", {})
    recent = {
        address: [moment for moment in moments if isinstance(moment, (int, float)) and moment > now - DAY_SECONDS]
        for address, moments in stored.items()
    }
    return {address: moments for address, moments in recent.items() if moments}


def _count_repairs_of_finding(finding: Finding, repair_times: Mapping[str, Sequence[float]]) -> int:
    return max((len(repair_times.get(address, ())) for address in finding.addresses), default=0)


def _save_repair_times(
    store: Store,
    repair_times: Mapping[str, list[float]],
    max_repairs_per_day: int,
    repaired: Iterable[Finding],
    now: float,
) -> None:
    """Save the repairs of the last day and those of these findings now."""
    repairs = {address: list(moments) for address, moments in repair_times.items()}
    for finding in repaired:
        for address in finding.addresses:
            repairs.setdefault(address, []).append(round(now))
    store.save_document(REPAIRS, {"most": max_repairs_per_day, "repairs": repairs})


def _save_only_successful_repairs(
    store: Store, earlier_repair_times: Mapping[str, list[float]], max_repairs_per_day: int, outcome: Repair, now: float
) -> None:
    """Save only the repairs that succeeded; where that fails, add a remark that attempts count as repairs."""
    try:
        _save_repair_times(store, earlier_repair_times, max_repairs_per_day, outcome.repaired, now)
    except TuningError as error:
        outcome.remarks.append(f"{error} So what could not be repaired counts as repaired there.")


def _format_title(finding: Finding) -> str:
    return f"{finding.what} ({finding.where})" if finding.where else finding.what
