# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Puts back what has drifted, in the layers of some roles, and stops where somebody else sets the same again and again.

A repair applies the stored request again, so that it needs no inventory and restarts nothing. What waits for a reboot
is left alone. When each setting was repaired is written down: one that was repaired so often within a day is left as it
is from then on, until the day is over, and the metrics of the host say so.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

from .._errors import BadRequest, TuningError
from .._io.store import REPAIRS, TRIAL
from .._knobs.apply_stored import StoredApplication
from .._knobs.catalogue import KNOBS
from .._knobs.history import history_file
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

    #: Checks the host again, as survey.of_host does.
    Look = Callable[..., surveys.Survey]

DAY = 86400
#: How often one setting is repaired within a day.
MOST = 2
#: The roles whose settings are in force at once, and change nothing that a reboot or a restart would be needed for.
ROLES = tuple(
    sorted({role for row in KNOBS.values() if not row.needs_reboot for role in row.roles.values()} - {"grub_params"})
)
GIVEN_UP = "sovereign_epyc_repair_given_up"
HELP = {GIVEN_UP: "A setting that was repaired so often in a day that it is left as it is: somebody else sets it."}
SHAPE = {"most": int, "repairs": {"*": list}}


class Repair:
    """What was repaired, or would be: ``changes``, and the findings that were ``repaired``, ``given_up`` or ``left``.

    ``left_alone`` are findings that are not the work of this repair. ``remarks`` are sentences on what failed or could
    not be done. ``check`` says that nothing was repaired, only looked at. ``roles`` are those that were asked for.
    """

    __slots__ = ("changes", "check", "coverage", "given_up", "left", "left_alone", "remarks", "repaired", "roles")

    def __init__(self, check: bool = False, roles: Collection[str] = ROLES) -> None:
        self.check = check
        self.roles = roles
        self.changes: list[Change] = []
        self.repaired: list[Finding] = []
        self.given_up: list[Finding] = []
        self.left: list[Finding] = []
        self.left_alone: list[Finding] = []
        self.remarks: list[str] = []
        #: How many settings of each layer had which status before the repair.
        self.coverage: dict[str, dict[str, int]] = {}

    @property
    def clean(self) -> bool:
        """Return whether the host is as it was asked for, or the roles of a repair of some; a check repairs nothing."""
        whole = set(self.roles) == set(ROLES)
        beside = [one for one in self.left_alone if whole or one.role in self.roles]
        return not (self.given_up or self.left or beside or self.remarks or (self.check and self.repaired))

    def to_dict(self) -> dict[str, list[dict[str, object]]]:
        """Return the findings as plain data, by what became of them."""
        names = ("repaired", "given_up", "left", "left_alone")
        return {name: [one.to_dict() for one in getattr(self, name)] for name in names}

    def lines(self) -> list[str]:
        """Return what people should know, a line for each finding."""
        done = "would be repaired" if self.check else "was repaired"
        lines = [f"{_format_title(one)}: {done}, {one.found} -> {one.wanted}" for one in self.repaired]
        lines += [
            f"{_format_title(one)}: given up, it is {one.found} again and should be {one.wanted}. Somebody else sets "
            "it: find "
            "out who, or change what the inventory asks for"
            for one in self.given_up
        ]
        lines += [f"{_format_title(one)}: left, it is {one.found} and should be {one.wanted}" for one in self.left]
        lines += [f"Left alone: {words.format_finding_with_step(one.to_dict())}" for one in self.left_alone]
        return [*lines, *self.remarks] or ["Nothing was to be repaired."]


def repair_drift(
    fs: KernelFS,
    store: Store,
    roles: Collection[str],
    most: int = MOST,
    check: bool = False,
    clock: Any = time,
    look: Look | None = None,
) -> Repair:
    """Repair what has drifted in the layers of these roles; with ``check`` only say what would be.

    ``look`` checks the host, as survey.of_host does by default; what it finds beside the work of this repair is left
    alone, and named. BadRequest for a role whose settings are not repaired so. A setting is repaired ``most`` times
    within a day.
    """
    look = look or surveys.check_host
    if other := sorted(set(roles) - set(ROLES)):
        raise BadRequest(
            f"{other[0]} is not repaired by itself; {', '.join(ROLES)} are. What needs a reboot or a restart, and what "
            "is not of this collection, is for site.yml and for somebody who looks."
        )
    with nullcontext() if check else store.hold_lock():
        outcome = Repair(check, roles)
        if store.has_file(TRIAL):
            outcome.remarks.append(f"Nothing is repaired while {surveys.UNDER_TRIAL}.")
            return outcome
        survey = look(fs, store=store)
        found, outcome.coverage = survey.list_findings(), survey.count_by_layer()
        wrong = [one for one in found if _can_repair(one, roles)]
        outcome.left_alone = [one for one in found if one not in wrong]
        past = _load_recent_repairs(store, clock.time())
        outcome.given_up = [one for one in wrong if _count_repairs(one, past) >= most]
        held = {one.request for one in outcome.given_up}
        outcome.left = [one for one in wrong if one.request in held and one not in outcome.given_up]
        outcome.repaired = [one for one in wrong if one.request not in held]
        if outcome.repaired:
            store.require_writable()
        if outcome.repaired and not check:
            # Before the kernel is written: what cannot be counted could be repaired again and again.
            _save_repairs(store, past, most, outcome.repaired, clock.time())
            tried = len(outcome.repaired)
            _apply_requests(fs, store, roles, outcome, look)
            unwritten = history_file.note_finished_run(
                store, history_file.REPAIR, {change.address for change in outcome.changes}
            )
            outcome.remarks += [unwritten] if unwritten else []
            if len(outcome.repaired) < tried:
                _correct_saved_repairs(store, past, most, outcome, clock.time())
    return outcome


def repair_metrics(store: Store, found: Iterable[Finding], clock: Any = time) -> dict[str, list[Sample]]:
    """Return the metrics: a sample for each finding that is not repaired any more."""
    most = store.load_cache(REPAIRS, SHAPE).get("most", MOST)
    past = _load_recent_repairs(store, clock.time())
    samples: list[Sample] = [
        ({"layer": one.layer, "what": one.what, "where": one.where, "role": one.role}, 1)
        for one in found
        if one.status == DRIFT and _count_repairs(one, past) >= most
    ]
    return {GIVEN_UP: samples} if samples else {}


def _can_repair(finding: Finding, roles: Collection[str]) -> bool:
    """Return whether a repair of these roles puts it right: it is not in force, can be at once, and is stored."""
    return (
        finding.role in roles
        and finding.live == DRIFT
        and not finding.pending_reboot
        and not KNOBS[finding.layer].needs_reboot
        and all(map(is_single_setting, finding.addresses))
    )


def _apply_requests(fs: KernelFS, store: Store, roles: Collection[str], outcome: Repair, look: Look) -> None:
    """Apply the requests of what is to be repaired, and look again."""
    work = StoredApplication(fs, store, only={one.request for one in outcome.repaired})
    work.apply_requests()
    outcome.changes, outcome.remarks = work.changes, [*work.failures, *work.unsupported]
    try:
        found = look(fs, store=store).list_findings()
        still = {address for one in found if _can_repair(one, roles) for address in one.addresses}
    except TuningError as error:
        outcome.remarks.append(f"{len(work.changes)} settings were changed, and cannot be looked at again: {error}")
        still = {address for one in outcome.repaired for address in one.addresses}
    outcome.left += [one for one in outcome.repaired if still & set(one.addresses)]
    outcome.repaired = [one for one in outcome.repaired if not still & set(one.addresses)]


def _load_recent_repairs(store: Store, now: float) -> dict[str, list[float]]:
    """Return by address when it was repaired within the last day; also what is ahead, of a clock that went back."""
    kept: Mapping[str, Sequence[float]] = store.load_cache(REPAIRS, SHAPE).get("repairs", {})
    recent = {
        address: [moment for moment in moments if isinstance(moment, (int, float)) and moment > now - DAY]
        for address, moments in kept.items()
    }
    return {address: moments for address, moments in recent.items() if moments}


def _count_repairs(finding: Finding, past: Mapping[str, Sequence[float]]) -> int:
    return max((len(past.get(address, ())) for address in finding.addresses), default=0)


def _save_repairs(
    store: Store, past: Mapping[str, list[float]], most: int, repaired: Iterable[Finding], now: float
) -> None:
    """Write down that these findings are repaired now, beside the repairs of the last day."""
    repairs = {address: list(moments) for address, moments in past.items()}
    for one in repaired:
        for address in one.addresses:
            repairs.setdefault(address, []).append(round(now))
    store.save_document(REPAIRS, {"most": most, "repairs": repairs})


def _correct_saved_repairs(
    store: Store, past: Mapping[str, list[float]], most: int, outcome: Repair, now: float
) -> None:
    """Count only what was repaired in the end; where that cannot be written, what was tried counts, with a remark."""
    try:
        _save_repairs(store, past, most, outcome.repaired, now)
    except TuningError as error:
        outcome.remarks.append(f"{error} So what could not be repaired counts as repaired there.")


def _format_title(finding: Finding) -> str:
    return f"{finding.what} ({finding.where})" if finding.where else finding.what
