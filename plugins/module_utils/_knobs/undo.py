# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Puts back everything that was ever changed: each layer all or nothing by itself, whatever becomes of the others.

What could not be put back stays remembered, so that undoing again goes on with it.
"""

from __future__ import annotations

from contextlib import nullcontext

from .._errors import TuningError
from .._io import textfile
from .._io.paths import WAITS
from .._io.store import REPAIRS
from . import trial
from .catalogue import KNOBS
from .converge import Outcome, converge
from .desired import Desired, stored
from .ledger import Original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._host.host import Host
    from .knob import Change
    from .ledger import Ledger

#: What earlier runs left in the store, of no use once nothing is tuned.
LAST_RUN = "last_run.json"
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

    SMT comes first, so that all CPUs are there; the others go in the opposite order of a run, because a later one may
    have changed what an earlier one had made, as msr can with the boost of cpufreq.
    """
    changes: list[Change] = []
    remarks: list[str] = []
    left: list[str] = []
    pending: list[str] = []
    with nullcontext() if check else ledger.lock():
        if not check:
            trial.end(ledger.store, ledger.fs, lambda: True)
        lost = ledger.is_lost()
        if lost:
            remarks.append(_unknown(ledger))
        for name in ["sysfs", *(name for name in reversed(KNOBS) if name != "sysfs")]:
            originals: list[Original] = []
            try:
                originals += [Original(knob, ledger, lost) for knob in reversed(KNOBS[name].build(host, {}))]
                outcome = converge(originals, ledger, check)
            except TuningError as error:
                left.append(f"{KNOBS[name].title}: {error}")
                continue
            changes += outcome.changes
            remarks += [remark for one in originals for remark in (*one.forgotten, *one.told)]
            left += _unreached(originals, check)
            if outcome.changes and KNOBS[name].needs_reboot:
                pending += [str(word) for one in originals for word in one.facts().get("pending", ())]  # type: ignore[attr-defined]
        forget = Desired(ledger.store, dict.fromkeys(["intent", *stored(ledger.store)[1]]))
        changes += converge([forget], ledger, check).changes
        if not check:
            _clean_up(ledger, pending, left)
    return Undone(changes, remarks, left)


def _unreached(originals: Sequence[Original], check: bool) -> list[str]:
    """Return what could not be reached. An undo that went on may have ended it, as an unmount ends all masks."""
    if not check and any(one.unreached for one in originals):
        for one in originals:
            one.wanted()
            one.settled()
    return [sentence for one in originals for sentence in one.unreached]


def _unknown(ledger: Ledger) -> str:
    """Return what an undo without originals cannot know."""
    names = {name.partition("/")[0] for name in stored(ledger.store)[1]}
    titles = [row.title for row in KNOBS.values() if row.name in names and not row.needs_reboot]
    return (
        "What this host's settings were before is not known: only what bears our mark is taken back. What else was set "
        f"stays until the next boot, which no longer sets it: {', '.join(titles) or 'nothing'}."
    )


def _clean_up(ledger: Ledger, pending: Sequence[str], left: Sequence[str]) -> None:
    """Leave a note of what waits for a reboot, for the role that reboots, and no other file if nothing is left."""
    if pending:
        # It goes with the boot that it is about.
        textfile.replace(textfile.under(ledger.fs.root, WAITS), "".join(f"{name}\n" for name in pending))
    if not left:
        for name in (LAST_RUN, REPAIRS):
            ledger.store.remove(name)
        ledger.end()
