# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Puts back everything that was ever changed: each layer all or nothing by itself, whatever becomes of the others.

What can hinder all of it is looked at before the first change. What could not be put back stays remembered, so that
undoing again goes on with it.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from .._errors import TuningError
from .._io import textfile
from .._io.paths import WAITS
from .._io.store import REPAIRS
from . import trial
from .catalogue import KNOBS
from .converge import Outcome, Unrecorded, converge
from .desired import Desired, stored
from .ledger import Original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .._host.host import Host
    from .knob import Change
    from .ledger import Ledger

#: What earlier runs left in the store, of no use once nothing is tuned.
LAST_RUN = "last_run.json"
#: What to do about damaged requests where nothing is to be tuned any more.
FORGET = "Move it away and restore again: what to put back is in the ledger."
AGAIN = "All else was put back. Mend that and restore again, which goes on with what is left."


class Undone(Outcome):
    """What an undo did, or would do; ``left`` says in sentences what it could not put back."""

    def __init__(self, changes: list[Change], remarks: list[str], left: list[str]) -> None:
        super().__init__(changes, remarks)
        self.left = left

    def sentence(self) -> str:
        """Return what a person has to know and do about what is left."""
        return f"Not everything could be put back. {' '.join(self.left)} {AGAIN}"


def undo(host: Host, ledger: Ledger, check: bool = False) -> Undone:
    """Put every setting back to its original, and forget what is stored for the boot service.

    TuningError where the record cannot be read or written: nothing was changed then. Whatever fails later is in
    ``left``, and all else is done.
    """
    with nullcontext() if check else ledger.lock():
        ledger.flaw()
        requests = stored(ledger.store, FORGET)[1]
        ledger.store.require_writable()
        work = _Undo(host, ledger, check)
        work.run(requests)
    return Undone(work.changes, work.remarks, work.left)


class _Undo:
    """One undo, step by step: what it has changed, what is to be remarked, and what is left, until now."""

    def __init__(self, host: Host, ledger: Ledger, check: bool) -> None:
        self.host = host
        self.ledger = ledger
        self.check = check
        self.changes: list[Change] = []
        self.remarks: list[str] = []
        self.left: list[str] = []
        #: The boot parameters that were put back, and wait for a reboot.
        self.pending: list[str] = []

    def run(self, requests: Mapping[str, object]) -> None:
        """Put back all layers, forget these requests, and remove what is of no use any more.

        SMT comes first, so that all CPUs are there; the others go in the opposite order of a run, because a later one
        may have changed what an earlier one had made, as msr can with the boost of cpufreq.
        """
        store = self.ledger.store
        if not self.check:
            self._attempt("the trial that was under way", lambda: trial.end(store, self.ledger.fs, lambda: True))
        lost = self.ledger.is_lost()
        if lost:
            self.remarks.append(_unknown(requests))
        for name in ["sysfs", *(name for name in reversed(KNOBS) if name != "sysfs")]:
            self._attempt(KNOBS[name].title, partial(self._put_back, name, lost))
        self._attempt("the stored requests, which the next boot applies", partial(self._forget, requests))
        if not self.check:
            self._clean_up()

    def _attempt(self, subject: str, step: Callable[[], None]) -> None:
        """Do a step. A failure, even a fault of ours, is noted as what is left, and keeps no other step away."""
        try:
            step()
        except TuningError as error:
            self.left.append(f"{subject}: {error}")
        except Exception as error:
            fault = "This is a fault of the collection: please report it."
            self.left.append(f"{subject}: {type(error).__name__}: {error}. {fault}")

    def _put_back(self, name: str, lost: bool) -> None:
        """Put back one layer; without a ledger, what bears our mark."""
        originals = [Original(knob, self.ledger, lost) for knob in reversed(KNOBS[name].build(self.host, {}))]
        try:
            outcome = converge(originals, self.ledger, self.check)
        except Unrecorded as error:
            self._note(name, originals, error.outcome)
            raise
        self._note(name, originals, outcome)
        self.left += _unreached(originals, self.check)

    def _note(self, name: str, originals: Sequence[Original], outcome: Outcome) -> None:
        """Note what was done in a layer."""
        self.changes += outcome.changes
        self.remarks += [remark for one in originals for remark in (*one.forgotten, *one.told)]
        if outcome.changes and KNOBS[name].needs_reboot:
            self.pending += [str(word) for one in originals for word in one.facts().get("pending", ())]  # type: ignore[attr-defined]

    def _forget(self, requests: Mapping[str, object]) -> None:
        """Forget what is stored for the boot service."""
        forget = Desired(self.ledger.store, dict.fromkeys(["intent", *requests]))
        self.changes += converge([forget], self.ledger, self.check).changes

    def _clean_up(self) -> None:
        """Leave a note of what waits for a reboot, for the role that reboots, and no file that is of no more use."""
        if self.pending:
            # It goes with the boot that it is about.
            note, text = textfile.under(self.ledger.fs.root, WAITS), "".join(f"{name}\n" for name in self.pending)
            names = ", ".join(self.pending)
            subject = f"the note for reboot.yml that {names} waits for a reboot, which this host needs all the same"
            self._attempt(subject, lambda: textfile.replace(note, text))
        for name in (LAST_RUN, REPAIRS):
            self._attempt(f"the file {name}", partial(self.ledger.store.remove, name))
        self._attempt("the files of the ledger", self.ledger.end)


def _unreached(originals: Sequence[Original], check: bool) -> list[str]:
    """Return what could not be reached. An undo that went on may have ended it, as an unmount ends all masks."""
    if not check and any(one.unreached for one in originals):
        for one in originals:
            one.wanted()
            one.settled()
    return [sentence for one in originals for sentence in one.unreached]


def _unknown(requests: Mapping[str, object]) -> str:
    """Return what an undo without originals cannot know, where these requests are stored."""
    names = {name.partition("/")[0] for name in requests}
    titles = [row.title for row in KNOBS.values() if row.name in names and not row.needs_reboot]
    return (
        "What this host's settings were before is not known: only what bears our mark is taken back. What else was set "
        f"stays until the next boot, which no longer sets it: {', '.join(titles) or 'nothing'}."
    )
