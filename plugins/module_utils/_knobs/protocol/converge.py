# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Brings knobs to their wanted values, all or nothing: difference, check mode, read-back, and undo on a failure."""

from __future__ import annotations

from ..._errors import NotApplied, TuningError, Unrestored
from ..._io.blocks import nullcontext
from .knob import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .knob import Knob, Settings
    from .ledger import Ledger


class Outcome:
    """What a run did, or would do."""

    def __init__(self, changes: list[Change], remarks: list[str]) -> None:
        self.changes = changes
        self.remarks = remarks

    def to_diff(self) -> dict[str, Settings]:
        """Return before and after of each changed address; of one changed twice, the first and the last."""
        before: Settings = {}
        for change in self.changes:
            before.setdefault(change.address, change.before)
        return {
            "before": before,
            "after": {change.address: change.after for change in self.changes},
        }


class LedgerNotUpdated(TuningError):
    """A run has made all its changes, and then could not write into the ledger what was put back by them."""

    def __init__(self, reasons: Sequence[str], outcome: Outcome) -> None:
        made = f"The {len(outcome.changes)} changes of this run stay" if outcome.changes else "Nothing was changed"
        super().__init__(
            f"{' '.join(reasons)} {made}, and what was put back stays in the record until a later run writes it down: "
            "mend that and run this again.",
            changed=bool(outcome.changes),
            diff=outcome.to_diff(),
            remarks=outcome.remarks,
        )
        self.outcome = outcome


def find_differences(knob: Knob, wanted: Settings, found: Settings) -> list[Change]:
    """Return what must change for found to become wanted; addresses that are not wanted stay out of it."""
    return [
        Change(address, found.get(address), value)
        for address, value in wanted.items()
        if not knob.values_equal(address, value, found.get(address))
    ]


def converge_knobs(knobs: Sequence[Knob], ledger: Ledger, check: bool = False) -> Outcome:
    """Bring every knob to what it wants, all or nothing; with check, only say what would change.

    The original of each address is in the ledger, on disk, before the first write to it, and nothing is written where
    what a knob records afterwards could not be. Each write is proven by reading back. When a knob fails, what this run
    changed is put back, latest first, and the error is raised again with a sentence on how the host was left.
    Unrecorded is raised where all was done and the ledger could not be told.
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
            # A bug or a signal leaves a host half changed, just as a refusal of the kernel does.
            _restore_before(done, error)
            raise
        outcome = Outcome(changes, remarks)
        if not check:
            _finish_all(knobs, outcome)
    return outcome


def _finish_all(knobs: Sequence[Knob], outcome: Outcome) -> None:
    """Tell every knob that all are proven. What was made stays where one cannot record that, and the error says so."""
    reasons = []
    for knob in knobs:
        try:
            knob.finish_run()
        except TuningError as error:
            reasons.append(str(error))
    if reasons:
        raise LedgerNotUpdated(list(dict.fromkeys(reasons)), outcome)


def _require_read_back(knob: Knob, wanted: Settings) -> None:
    """Read back. A write that "succeeded" and had no effect is a failure that names the first such address."""
    left = find_differences(knob, wanted, knob.read_settings(wanted))
    if left:
        first = left[0]
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise NotApplied(
            f"{first.address}{more}: the write succeeded without effect; wanted {_quote_value(first.after)}, found "
            f"{_quote_value(first.before)}.",
            address=first.address,
            wanted=first.after,
            found=first.before,
        )


def _quote_value(value: str | None) -> str:
    return "nothing" if value is None else f"'{value}'"


def _restore_before(done: Sequence[tuple[Knob, list[Change]]], error: BaseException) -> None:
    """Write what was found before, for every address that this run touched, and say in the error how it went."""
    lost: list[str] = []
    for knob, todo in reversed(done):
        away = {change.address: knob.unreachable_reason(change.address) for change in todo}
        lost += dict.fromkeys(reason for reason in away.values() if reason)
        before = {change.address: change.before for change in todo if not away[change.address]}
        try:
            with knob.hold_lock():
                back = find_differences(knob, before, knob.read_settings(before))
                if back:
                    knob.write_changes(back)
                _require_read_back(knob, before)
        except TuningError as second:
            raise Unrestored(
                f"{error} Putting back what was there before failed too: {second} This host is now between two states.",
                **getattr(error, "details", {}),
            ) from error
    if done and isinstance(error, TuningError):
        but = f", except what cannot be reached now: {', '.join(lost)}" if lost else ""
        error.args = (f"{error} What this run had changed was put back{but}.",)
