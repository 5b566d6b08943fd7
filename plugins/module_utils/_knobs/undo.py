# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The undo: restores every setting that was ever changed, or the settings of some layers of site.yml.

Each kind of setting is restored all or nothing, even if another kind fails. Obstacles to the whole undo are detected
before the first change. The originals of settings that could not be restored stay in the ledger, for another undo.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import partial

from .._errors import BadRequest, TuningError
from .._io import textfile
from .._io.paths import REBOOT_PENDING_FILE
from .._io.store import MEMORY_SPEED, REPAIRS, REQUESTS, TRIAL
from . import trial
from .catalogue import KNOBS, find_knob_row
from .history import history_file
from .layers import LayerSettings, filter_requests_of_layers
from .protocol.converge import LedgerNotUpdated, Outcome, converge_knobs
from .protocol.ledger import RestoringKnob
from .protocol.stored_requests import INTENT, StoredRequests, load_stored_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from .._host.host import Host
    from .protocol.knob import Change, Settings
    from .protocol.ledger import Ledger

#: The file of the last run, which has no use on a host that is not tuned.
LAST_RUN = "last_run.json"
#: The way out of damaged requests on a host that is to be tuned no more.
FORGET = "Move it away and restore again: the originals are in the ledger."
AGAIN = "All other settings were put back. Repair these and restore again, which goes on with what is left."


class UndoOutcome(Outcome):
    """The changes of an undo; ``left`` has a sentence for each failure.

    ``pending`` are the names of restored boot parameters that the running kernel still has.
    """

    def __init__(self, changes: list[Change], remarks: list[str], left: list[str], pending: list[str]) -> None:
        super().__init__(changes, remarks)
        self.left = left
        self.pending = pending

    def unrestored_message(self) -> str:
        """Return sentences on what could not be restored, and what to do about it."""
        return f"Not everything could be put back. {' '.join(self.left)} {AGAIN}"

    def summary_message(self, layers: Collection[str] = (), check: bool = False) -> str:
        """Return sentences on what was restored, or would be in check mode, and the next steps."""
        counts = Counter(row.title for row in map(find_knob_row, self.to_diff()["after"]) if row)
        dropped = [c.address for c in self.changes if c.address.startswith("desired:") and c.address != INTENT]
        parts = [f"{number} setting{'s'[: number > 1]} of {title}" for title, number in counts.items()]
        parts += [f"{len(dropped)} stored request{'s'[: len(dropped) > 1]} dropped"] if dropped else []
        named = ", ".join(layers)
        if not parts:
            never = f"Nothing{f' of {named}' if layers else ''} was ever changed on this host"
            return f"{never}, or all of it was put back before. Nothing was done now."
        sentences = [f"{'Would be put back' if check else 'Put back'}: {', '.join(parts)}."]
        if self.pending:
            sentences.append(
                f"The running kernel has {', '.join(self.pending)} until the next reboot: reboot.yml with "
                "-e epyc_reboot_ok=true does it."
            )
        if layers:
            sentences.append(f"All else stays. Take {named} out of epyc_steps too, or the next site.yml sets it again.")
        return " ".join(sentences)


def undo_changes(host: Host, ledger: Ledger, check: bool = False, layers: Collection[str] = ()) -> UndoOutcome:
    """Restore settings to their originals, and forget the stored requests of the boot service.

    Everything is restored, or with ``layers`` only the settings of these. Raises TuningError, before any change, if the
    ledger cannot be read or written, or if settings of a layer cannot be distinguished from others. A later failure is
    noted in ``left`` of the outcome, and all other settings are restored.
    """
    with nullcontext() if check else ledger.hold_lock():
        ledger.damaged_copy_reason()
        intent, requests = load_stored_requests(ledger.store, FORGET)
        settings = None
        if layers:
            _refuse_during_trial(ledger)
            settings = LayerSettings(host, layers, intent, requests)
            requests = {name: requests[name] for name in filter_requests_of_layers(requests, layers)}
        ledger.store.require_writable()
        work = _Undo(host, ledger, check, settings)
        work.restore_settings_and_forget_requests(requests)
        done = UndoOutcome(work.changes, work.remarks, work.left, work.pending)
        if not check:
            outcome = f"{len(work.left)} not put back" if work.left else "done"
            unwritten = history_file.record_finished_run(
                ledger.store, history_file.RESTORE, done.to_diff()["after"], outcome, list(layers)
            )
            done.remarks += [unwritten] if unwritten else []
    return done


def _refuse_during_trial(ledger: Ledger) -> None:
    """Raise BadRequest during a trial, when settings of all layers may differ from the stored ones."""
    if ledger.store.has_file(TRIAL):
        raise BadRequest(
            "An ablation or a tuning goes on, or did not end, so settings of all layers may differ from the stored "
            "ones. Nothing was changed. Wait for its end, or end it with 'sovereign-epyc settle', and restore again."
        )


class _Undo:
    """One undo and its state: changes, remarks and failures up to now."""

    def __init__(self, host: Host, ledger: Ledger, check: bool, settings: LayerSettings | None) -> None:
        """``settings`` are those of the layers to undo, None for everything."""
        self.host = host
        self.ledger = ledger
        self.check = check
        self.settings = settings
        self.changes: list[Change] = []
        self.remarks: list[str] = []
        self.left: list[str] = []
        #: The restored boot parameters that wait for a reboot.
        self.pending: list[str] = []

    def restore_settings_and_forget_requests(self, requests: Mapping[str, Any]) -> None:
        """Restore all kinds of settings, forget these requests, and remove files that are not needed any more.

        SMT comes first, so that all CPUs are online. The others follow in the reverse order of a run, because a later
        knob may have changed a setting of an earlier one, as msr can change the boost of cpufreq.
        """
        store = self.ledger.store
        if not self.check and self.settings is None:
            self._attempt_step_noting_failure(
                "the trial that was under way", lambda: trial.end_trial(store, self.ledger.fs, lambda: True)
            )
        lost = self.ledger.has_lost_originals()
        if lost:
            self.remarks.append(_lost_originals_message(requests))
        for name in ["sysfs", *(name for name in reversed(KNOBS) if name != "sysfs")]:
            self._attempt_step_noting_failure(KNOBS[name].title, partial(self._restore_settings_of_knob, name, lost))
        self._attempt_step_noting_failure(
            "the stored requests, which the next boot applies", partial(self._forget_requests, requests)
        )
        if not self.check:
            self._note_reboot_and_remove_files()

    def _attempt_step_noting_failure(self, subject: str, step: Callable[[], None]) -> None:
        """Do a step of the undo. A failure, even a bug, is noted, and the other steps are still done."""
        try:
            step()
        except TuningError as error:
            self.left.append(f"{subject}: {error}")
        except Exception as error:
            fault = "This is a fault of the collection: please report it."
            self.left.append(f"{subject}: {type(error).__name__}: {error}. {fault}")

    def _restore_settings_of_knob(self, name: str, originals_lost: bool) -> None:
        """Restore the settings of one knob; without a ledger, those that bear a mark of this collection."""
        only = self.settings.addresses_to_restore(name, self.ledger.load_originals()) if self.settings else None
        if only is not None and not only:
            return
        originals = [
            RestoringKnob(knob, self.ledger, originals_lost, only=only)
            for knob in reversed(KNOBS[name].build_knobs(self.host, {}))
        ]
        try:
            outcome = converge_knobs(originals, self.ledger, self.check)
        except LedgerNotUpdated as error:
            self._add_changes_and_remarks_of_knob(name, originals, error.outcome)
            raise
        self._add_changes_and_remarks_of_knob(name, originals, outcome)
        self.left += _unreachable_messages(originals, self.check)

    def _add_changes_and_remarks_of_knob(self, name: str, originals: Sequence[RestoringKnob], outcome: Outcome) -> None:
        self.changes += outcome.changes
        self.remarks += [remark for knob in originals for remark in (*knob.obsolete, *knob.write_remarks)]
        if outcome.changes and KNOBS[name].needs_reboot:
            self.pending += self._parameters_awaiting_reboot(originals, outcome)

    def _parameters_awaiting_reboot(self, originals: Sequence[RestoringKnob], outcome: Outcome) -> list[str]:
        """Return the names of boot parameters that the running kernel still has."""
        if not self.check:
            return [str(name) for knob in originals for name in knob.module_facts().get("pending", ())]
        after = {change.address: change.after for change in outcome.changes}
        running: Settings = {}
        for knob in originals:
            running.update(knob.restored_knob.read_live_settings(after))
        return [address.partition(":")[2] for address, value in after.items() if running[address] != value]

    def _forget_requests(self, requests: Mapping[str, object]) -> None:
        """Forget these stored requests, and the stored intent too if no request is left."""
        left = load_stored_requests(self.ledger.store)[1].keys() - requests.keys()
        forget = StoredRequests(self.ledger.store, dict.fromkeys([*requests, *([] if left else ["intent"])]))
        self.changes += converge_knobs([forget], self.ledger, self.check).changes

    def _note_reboot_and_remove_files(self) -> None:
        """Write the file of pending boot parameters for reboot.yml, and remove files that have no use after an undo."""
        if self.pending:
            # The folder of the note ends with the boot that has these parameters.
            note, text = (
                textfile.path_in_tree(self.ledger.fs.root, REBOOT_PENDING_FILE),
                "".join(f"{name}\n" for name in self.pending),
            )
            names = ", ".join(self.pending)
            subject = f"the note for reboot.yml that {names} waits for a reboot, which this host needs all the same"
            self._attempt_step_noting_failure(subject, lambda: textfile.write_file(note, text))
        for name in (LAST_RUN, *([] if self.settings else [REPAIRS, MEMORY_SPEED])):
            self._attempt_step_noting_failure(f"the file {name}", partial(self.ledger.store.remove_file, name))
        # Without the files of the ledger, the originals of stored requests would count as lost.
        if not self.ledger.store.has_file(REQUESTS):
            self._attempt_step_noting_failure("the files of the ledger", self.ledger.remove_files_if_empty)


def _unreachable_messages(originals: Sequence[RestoringKnob], check: bool) -> list[str]:
    """Return the originals that could not be restored, with the reasons.

    The originals are looked at again, because a later knob of the undo may have ended them, as an unmount ends all
    masks.
    """
    if not check and any(knob.unreachable for knob in originals):
        for knob in originals:
            knob.wanted_settings()
            knob.record_end_of_run()
    return [sentence for knob in originals for sentence in knob.unreachable]


def _lost_originals_message(requests: Mapping[str, object]) -> str:
    """Return the remark that an undo without originals cannot restore all settings of these requests."""
    names = {name.partition("/")[0] for name in requests}
    titles = [row.title for row in KNOBS.values() if row.name in names and not row.needs_reboot]
    return (
        "The originals of this host are lost: only settings that bear a mark of this collection are taken back. "
        f"All else that was set stays until the next boot, which no longer sets it: {', '.join(titles) or 'nothing'}."
    )
