# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A knob is a mapping that the kernel owns: every setting has an address and a value.

A knob knows how to read the present mapping, how to expand what was asked into a wanted one, and in which order to
write differences. Difference, check mode, read-back and the way back are written here, once, for all of them.

An address is a text such as ``resctrl:draft/L3/0``; a value is the text the kernel would show, None for "is not there".
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

from ._errors import NotApplied, TuningError, Unrestored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Optional

    Mapping = dict[str, Optional[str]]


class Change:
    """One difference between the wanted and the found mapping."""

    __slots__ = ("address", "after", "before")

    def __init__(self, address: str, before: str | None, after: str | None) -> None:
        self.address = address
        self.before = before
        self.after = after


class Knob:
    """The protocol. A knob of its own overrides the first three; the rest have defaults that suit most."""

    def read(self) -> Mapping:
        """Return the present mapping; addresses that are not there may be left out."""
        raise TypeError("a knob must read")

    def wanted(self, found: Mapping) -> Mapping:
        """Return the mapping to have, given the present one. Raises BadRequest before anything is written."""
        raise TypeError("a knob must want")

    def write(self, changes: Sequence[Change]) -> None:
        """Make changes, in an order that the kernel accepts."""
        raise TypeError("a knob must write")

    def same(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Tell whether two values mean the same; for values that the kernel rounds."""
        return wanted == found

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other programs that follow the kernel's locking rules away from the first read to the last."""
        yield

    def remarks(self) -> list[str]:
        """Return sentences that the person should read though nothing failed."""
        return []


class Outcome:
    """What a run did, or would do."""

    def __init__(self, changes: list[Change], remarks: list[str]) -> None:
        self.changes = changes
        self.remarks = remarks

    def diff(self) -> dict[str, Mapping]:
        """Return before and after by address, only of what differs."""
        return {
            "before": {change.address: change.before for change in self.changes},
            "after": {change.address: change.after for change in self.changes},
        }


def differences(knob: Knob, wanted: Mapping, found: Mapping) -> list[Change]:
    """Return what must change for found to become wanted; addresses that are not wanted stay out of it."""
    return [
        Change(address, found.get(address), value)
        for address, value in wanted.items()
        if not knob.same(address, value, found.get(address))
    ]


def converge(knobs: Sequence[Knob], check: bool = False) -> Outcome:
    """Bring every knob to what it wants, all or nothing; with check, only say what would change.

    Each write is proven by reading back. When a knob fails, what this run changed is put back, latest first, and the
    error is raised again with a sentence on how the host was left.
    """
    changes: list[Change] = []
    remarks: list[str] = []
    done: list[tuple[Knob, Mapping, list[Change]]] = []
    with ExitStack() as locks:
        for knob in knobs:
            if not check:
                locks.enter_context(knob.lock())
            found = knob.read()
            wanted = knob.wanted(found)
            todo = differences(knob, wanted, found)
            if todo and not check:
                done.append((knob, found, todo))
                try:
                    knob.write(todo)
                    _prove(knob, wanted)
                except TuningError as error:
                    _put_back(done, error)
                    raise
            changes += todo
            remarks += knob.remarks()
    return Outcome(changes, remarks)


def _prove(knob: Knob, wanted: Mapping) -> None:
    """Read back. A write that "succeeded" and had no effect is a failure that names the first such address."""
    left = differences(knob, wanted, knob.read())
    if left:
        first = left[0]
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise NotApplied(
            f"{first.address}{more}: the write succeeded without effect; wanted {_shown(first.after)}, found "
            f"{_shown(first.before)}.",
            address=first.address,
            wanted=first.after,
            found=first.before,
        )


def _shown(value: str | None) -> str:
    return "nothing" if value is None else f"'{value}'"


def _put_back(done: Sequence[tuple[Knob, Mapping, list[Change]]], error: TuningError) -> None:
    """Write what was found before, for every address that this run touched, and say in the error how it went."""
    for knob, found, todo in reversed(done):
        before = {change.address: found.get(change.address) for change in todo}
        try:
            back = differences(knob, before, knob.read())
            if back:
                knob.write(back)
            _prove(knob, before)
        except TuningError as second:
            raise Unrestored(
                f"{error} Putting back what was there before failed too: {second} This host is now between two states.",
                **error.details,
            ) from error
    error.args = (f"{error} What this run had changed was put back.",)
