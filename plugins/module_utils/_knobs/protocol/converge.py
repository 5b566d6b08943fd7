# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gives knobs their wanted settings, all or nothing: differences, check mode, read-back, and rollback on a failure."""

from __future__ import annotations

from ..._errors import NotApplied, TuningError, Unrestored
from ..._io.blocks import nullcontext
from ..._notation.printable import quote_value
from .knob import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .knob import Knob, Settings
    from .ledger import Ledger


class Outcome:
    """The changes that a run made, or would make in check mode, and remarks for the user."""

    def __init__(self, changes: list[Change], remarks: list[str]) -> None:
        self.changes = changes
        self.remarks = remarks

    def to_diff(self) -> dict[str, Settings]:
        """Return the first value before and the last value after the run for each changed address."""
        before: Settings = {}
        for change in self.changes:
            before.setdefault(change.address, change.before)
        return {
            "before": before,
            "after": {change.address: change.after for change in self.changes},
        }


class LedgerNotUpdated(TuningError):
    """All changes were made, but the ledger still lists originals that were restored."""

    def __init__(self, reasons: Sequence[str], outcome: Outcome) -> None:
        state = f"The {len(outcome.changes)} changes of this run stay" if outcome.changes else "Nothing was changed"
        super().__init__(
            f"{' '.join(reasons)} {state}, and the record still lists originals that were put back. Repair the record "
            "and run this again.",
            changed=bool(outcome.changes),
            diff=outcome.to_diff(),
            remarks=outcome.remarks,
        )
        self.outcome = outcome


def find_differences(knob: Knob, wanted: Settings, found: Settings) -> list[Change]:
    """Return the changes that turn the settings ``found`` into ``wanted``; other addresses are left out."""
    return [
        Change(address, found.get(address), value)
        for address, value in wanted.items()
        if not knob.values_equal(address, value, found.get(address))
    ]


def converge_knobs(knobs: Sequence[Knob], ledger: Ledger, check: bool = False) -> Outcome:
    """Give every knob its wanted settings, all or nothing; with ``check``, only return the changes to make.

    The ledger has the original of an address on the disk before the first write to that address. A read-back proves
    each write. If a knob fails, the changes of this run are rolled back, the latest first, and the error is raised
    again with a sentence on the state of the host. Raises TuningError before the first write if a record cannot be
    written, and LedgerNotUpdated if all settings are made but the ledger could not be updated at the end.
    """
    changes: list[Change] = []
    remarks: list[str] = []
    done: list[tuple[Knob, list[Change]]] = []
    with nullcontext() if check else ledger.hold_lock():
        if any(knob.needs_ledger for knob in knobs) and ledger.damaged_copy_reason() and not check:
            ledger.ensure_files()
        for knob in knobs:
            knob.require_writable_record()
        try:
            for knob in knobs:
                with nullcontext() if check else knob.hold_lock():
                    wanted = knob.wanted_settings()
                    todo = find_differences(knob, wanted, knob.read_settings(wanted))
                    if todo and not check:
                        if knob.has_originals:
                            ledger.remember_originals(knob, todo)
                        if knob.needs_ledger:
                            ledger.ensure_files()
                        done.append((knob, todo))
                        knob.write_changes(todo)
                        _require_read_back(knob, wanted)
                changes += todo
                remarks += knob.list_remarks()
        except BaseException as error:
            # A bug or a signal leaves the host half changed, just as a refusal of the kernel does.
            _restore_values_before_run(done, error)
            raise
        outcome = Outcome(changes, remarks)
        if not check:
            _record_end_of_run_in_each_knob(knobs, outcome)
    return outcome


def _record_end_of_run_in_each_knob(knobs: Sequence[Knob], outcome: Outcome) -> None:
    """Finish the run of every knob; raise LedgerNotUpdated if a knob cannot record the end of its run."""
    reasons = []
    for knob in knobs:
        try:
            knob.record_end_of_run()
        except TuningError as error:
            reasons.append(str(error))
    if reasons:
        raise LedgerNotUpdated(list(dict.fromkeys(reasons)), outcome)


def _require_read_back(knob: Knob, wanted: Settings) -> None:
    """Raise NotApplied, with the first such address, if a setting does not read as wanted after its write."""
    left = find_differences(knob, wanted, knob.read_settings(wanted))
    if left:
        first = left[0]
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise NotApplied(
            f"{first.address}{more}: the write succeeded without effect; wanted {quote_value(first.after)}, found "
            f"{quote_value(first.before)}.",
            address=first.address,
            wanted=first.after,
            found=first.before,
        )


def _restore_values_before_run(done: Sequence[tuple[Knob, list[Change]]], error: BaseException) -> None:
    """Restore the settings from before this run, and add the result of that to the error.

    Every address is tried, even after another address could not be restored. Unrestored names all addresses that
    failed.
    """
    unreachable: list[str] = []
    failures: list[str] = []
    for knob, changes in reversed(done):
        reasons = {change.address: knob.unreachable_reason(change.address) for change in changes}
        unreachable += dict.fromkeys(reason for reason in reasons.values() if reason)
        failures += _restore_knob(knob, {c.address: c.before for c in changes if not reasons[c.address]})
    if failures:
        raise Unrestored(
            f"{error} Putting back what was there before failed too: {' '.join(failures)} This host is now between "
            "two states.",
            **getattr(error, "details", {}),
        ) from error
    if done and isinstance(error, TuningError):
        exception = f", except what cannot be reached now: {', '.join(unreachable)}" if unreachable else ""
        error.args = (f"{error} What this run had changed was put back{exception}.",)


def _restore_knob(knob: Knob, before: Settings) -> list[str]:
    """Restore settings of a knob together, or one by one if that fails; return a sentence for each failure."""
    failures = []
    try:
        with knob.hold_lock():
            try:
                _write_and_read_back(knob, before)
            except TuningError:
                for address, value in before.items():
                    try:
                        _write_and_read_back(knob, {address: value})
                    except TuningError as error:
                        named = error.details.get("address") == address
                        failures.append(str(error) if named else f"{address}: {error}")
    except TuningError as error:
        failures.append(f"{', '.join(before)}: {error}")
    return failures


def _write_and_read_back(knob: Knob, settings: Settings) -> None:
    changes = find_differences(knob, settings, knob.read_settings(settings))
    if changes:
        knob.write_changes(changes)
    _require_read_back(knob, settings)
