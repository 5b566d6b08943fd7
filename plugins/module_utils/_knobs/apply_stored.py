# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Applies the stored requests to the running kernel: for the boot service, and to restore the tuned state."""

from __future__ import annotations

from .._errors import TuningError, Unsupported
from .._host.host import Host
from . import trial
from .catalogue import KNOBS, sort_requests
from .irq import new_interrupts
from .protocol.converge import converge_knobs
from .protocol.ledger import Ledger
from .protocol.stored_requests import load_stored_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .._io.store import Store
    from .protocol.knob import Change


class StoredApplication:
    """Applies the stored requests, or ``only`` some, given by their names or those of their knobs.

    When a request fails, the others are still applied. ``changes`` has the changes of all runs. With ``follow``,
    threads of units that a stored group names are moved into this group, too.
    """

    def __init__(self, fs: KernelFS, store: Store, only: Collection[str] | None = None, follow: bool = False) -> None:
        self.fs = fs
        self.store = store
        self.only = only
        self.follow = follow
        self.changes: list[Change] = []
        #: Sentences of the last run: requests that failed, and requests that hardware or kernel do not support.
        self.failures: list[str] = []
        self.unsupported: list[str] = []

    def apply_requests(self) -> None:
        """Apply the stored requests. They are read under the lock, so that none is applied after an undo forgot it."""
        ledger = Ledger(self.store, self.fs)
        self.failures, self.unsupported = [], []
        with ledger.hold_lock():
            intent, requests = load_stored_requests(self.store)
            host = Host(self.fs, intent, stored=True)
            if self.follow and self.only:
                new_interrupts.pin_own_process_to_housekeeping(host)
            for name, label, options in sort_requests(requests):
                if self.only is None or name in self.only or f"{name}/{label}" in self.only:
                    self._apply_request(f"{name}/{label}", options, host, ledger)
                elif self.follow and name == "resctrl":
                    self._apply_request(f"{name}/{label}", options, host, ledger, threads_only=True)

    def _apply_request(
        self, request: str, options: Mapping[str, Any], host: Host, ledger: Ledger, threads_only: bool = False
    ) -> None:
        name = request.partition("/")[0]
        try:
            if name not in KNOBS:
                raise TuningError(f"This version of the collection has no knob {name}.")
            row = KNOBS[name]
            knobs = (
                row.import_knob_file().build_thread_knobs(host, options)
                if threads_only
                else row.build_knobs(host, options)
            )
            self.changes += converge_knobs(knobs, ledger).changes
        except Unsupported as error:
            self.unsupported.append(f"{request}: {error}")
        except TuningError as error:
            self.failures.append(f"{request}: {error}")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Modules check options before they store them, so somebody has edited the file of the requests.
            self.failures.append(
                f"{request}: the stored options {dict(options)} cannot be used ({type(error).__name__}: {error}). Run "
                "site.yml again, which stores them anew."
            )


def end_trial_and_apply_stored(store: Store, fs: KernelFS) -> StoredApplication:
    """End the running trial, if there is one, and apply the stored requests.

    Raises TuningError, with the number of settings that were put back before, if the trial cannot be ended.
    """
    work = StoredApplication(fs, store)

    def apply_stored() -> bool:
        work.apply_requests()
        return not work.failures

    try:
        trial.end_trial(store, fs, apply_stored)
    except TuningError as error:
        done = f"{len(work.changes)} stored settings were put back before that."
        raise TuningError(" ".join([str(error), done, *work.failures])) from None
    return work
