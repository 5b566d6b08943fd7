# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A knob is a mapping that the kernel owns: every setting has an address and a value.

A knob knows how to expand what was asked into a wanted mapping, how to read any of its addresses, and in which order to
write differences. Difference, check mode, read-back, the ledger of originals and the way back are written here, once,
for all of them.

An address is a text such as ``resctrl:draft/L3/0``; a value is the text the kernel would show, None for "is not there".
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

from ._errors import NotApplied, TuningError, Unrestored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Optional

    from ._ledger import Ledger

    Settings = dict[str, Optional[str]]


class Change:
    """One difference between the wanted and the found mapping."""

    __slots__ = ("address", "after", "before")

    def __init__(self, address: str, before: str | None, after: str | None) -> None:
        self.address = address
        self.before = before
        self.after = after


class Knob:
    """The protocol. A knob of its own overrides wanted, read and write; the rest has defaults that suit most.

    ``prefix`` begins its addresses. ``lasting`` says that a setting outlives a reboot, as a boot parameter does; the
    ledger keeps the original of such a one for longer. ``remembered`` is False for what has no original to go back to.
    """

    prefix = ""
    lasting = False
    remembered = True

    def wanted(self) -> Settings:
        """Return the mapping to have. Raises BadRequest before anything is written when this host cannot have it."""
        raise TypeError("a knob must want")

    def read(self, addresses: Iterable[str]) -> Settings:
        """Return the present value of each address, None for one that is not there. Works for every own address."""
        raise TypeError("a knob must read")

    def write(self, changes: Sequence[Change]) -> None:
        """Make changes, in an order that the kernel accepts."""
        raise TypeError("a knob must write")

    def live(self, addresses: Iterable[str]) -> Settings:
        """Return the values in force, where those differ from the configured ones that read returns."""
        return self.read(addresses)

    def same(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Tell whether two values mean the same; for values that the kernel rounds."""
        return wanted == found

    def owns(self, address: str) -> bool:
        """Tell whether an address is this knob's."""
        return address.startswith(f"{self.prefix}:")

    def parent(self, address: str) -> str | None:
        """Return the address of the thing that holds this setting and takes it along when it goes."""
        return None

    def gone(self, address: str) -> str | None:
        """Return why a setting can be neither read nor written now, as with an offline CPU; None where it can."""
        return None

    def kept(self, originals: Settings) -> dict[str, str]:
        """Return the originals that cannot be put back now, each with the reason."""
        reasons = {address: self.gone(address) for address in originals}
        return {address: reason for address, reason in reasons.items() if reason}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other programs that follow the kernel's locking rules away from the first read to the last."""
        yield

    def remarks(self) -> list[str]:
        """Return sentences that the person should read though nothing failed."""
        return []

    def facts(self) -> dict[str, object]:
        """Return what else a module should return, such as whether a reboot is required."""
        return {}

    def settled(self, ledger: Ledger) -> None:
        """Called after the proof, with the ledger still locked."""


class Original(Knob):
    """Wants back what the ledger remembers of another knob, and lets the ledger forget it once it is proven."""

    remembered = False

    def __init__(self, inner: Knob, ledger: Ledger) -> None:
        self.inner = inner
        self.prefix = inner.prefix
        self.lasting = inner.lasting
        self.ledger = ledger
        self._remarks: list[str] = []
        self._reached: Settings = {}
        self.read = inner.read  # type: ignore[method-assign]
        self.write = inner.write  # type: ignore[method-assign]
        self.same = inner.same  # type: ignore[method-assign]
        self.lock = inner.lock  # type: ignore[method-assign]
        self.facts = inner.facts  # type: ignore[method-assign]

    def wanted(self) -> Settings:
        """Return the originals, without those that cannot be reached now; they stay in the ledger."""
        originals = {a: value for a, value in self.ledger.originals().items() if self.inner.owns(a)}
        kept = self.inner.kept(originals)
        self._remarks = [f"{address} was not put back: {reason}" for address, reason in kept.items()]
        self._reached = {address: value for address, value in originals.items() if address not in kept}
        return dict(self._reached)

    def remarks(self) -> list[str]:
        """Return what could not be put back, with the reason."""
        return self._remarks

    def settled(self, ledger: Ledger) -> None:
        """Forget what was put back; a knob after this one may have taken away what made it reachable."""
        ledger.forget(self._reached)


class Outcome:
    """What a run did, or would do."""

    def __init__(self, changes: list[Change], remarks: list[str]) -> None:
        self.changes = changes
        self.remarks = remarks

    def diff(self) -> dict[str, Settings]:
        """Return before and after by address, only of what differs; of an address changed in two steps, both ends."""
        before: Settings = {}
        for change in self.changes:
            before.setdefault(change.address, change.before)
        return {
            "before": before,
            "after": {change.address: change.after for change in self.changes},
        }


def differences(knob: Knob, wanted: Settings, found: Settings) -> list[Change]:
    """Return what must change for found to become wanted; addresses that are not wanted stay out of it."""
    return [
        Change(address, found.get(address), value)
        for address, value in wanted.items()
        if not knob.same(address, value, found.get(address))
    ]


def converge(knobs: Sequence[Knob], ledger: Ledger, check: bool = False) -> Outcome:
    """Bring every knob to what it wants, all or nothing; with check, only say what would change.

    The original of each address is in the ledger, on disk, before the first write to it. Each write is proven by
    reading back. When a knob fails, what this run changed is put back, latest first, and the error is raised again
    with a sentence on how the host was left.
    """
    changes: list[Change] = []
    remarks: list[str] = []
    done: list[tuple[Knob, list[Change]]] = []
    with nullcontext() if check else ledger.lock():
        try:
            for knob in knobs:
                with nullcontext() if check else knob.lock():
                    wanted = knob.wanted()
                    todo = differences(knob, wanted, knob.read(wanted))
                    if todo and not check:
                        if knob.remembered:
                            ledger.remember(knob, todo)
                        done.append((knob, todo))
                        knob.write(todo)
                        _prove(knob, wanted)
                changes += todo
                remarks += knob.remarks()
        except BaseException as error:
            # A fault of ours, or a signal, leaves a host no less half done than a refusal of the kernel.
            _put_back(done, error)
            raise
        if not check:
            for knob in knobs:
                knob.settled(ledger)
    return Outcome(changes, remarks)


def _prove(knob: Knob, wanted: Settings) -> None:
    """Read back. A write that "succeeded" and had no effect is a failure that names the first such address."""
    left = differences(knob, wanted, knob.read(wanted))
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


def _put_back(done: Sequence[tuple[Knob, list[Change]]], error: BaseException) -> None:
    """Write what was found before, for every address that this run touched, and say in the error how it went."""
    lost: list[str] = []
    for knob, todo in reversed(done):
        away = {change.address: knob.gone(change.address) for change in todo}
        lost += dict.fromkeys(reason for reason in away.values() if reason)
        before = {change.address: change.before for change in todo if not away[change.address]}
        try:
            with knob.lock():
                back = differences(knob, before, knob.read(before))
                if back:
                    knob.write(back)
                _prove(knob, before)
        except TuningError as second:
            raise Unrestored(
                f"{error} Putting back what was there before failed too: {second} This host is now between two states.",
                **getattr(error, "details", {}),
            ) from error
    if done and isinstance(error, TuningError):
        but = f", but for what is out of reach: {', '.join(lost)}" if lost else ""
        error.args = (f"{error} What this run had changed was put back{but}.",)
