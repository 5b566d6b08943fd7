# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole-host drift check: the verdicts on all that is stored, and on the store itself."""

from __future__ import annotations

from .._errors import BadRequest, TuningError
from .._host.host import Host
from .._io.store import TRIAL, Store
from .._knobs.address_kinds import RUN
from .._knobs.history import history_file
from .._knobs.protocol.ledger import Ledger
from .._knobs.protocol.stored_requests import INTENT, stored
from . import findings
from .judge import away, survey, why_not_at_boot
from .requested import REQUESTS, layers_of_host, missing_layers
from .verdict import DRIFT, OK, Verdict, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .requested import Layers

NOTHING = "nothing is stored on this host: site.yml has never run here, or everything was put back"
UNDER_TRIAL = (
    "an ablation or a tuning goes on, or did not end, so settings may differ from the stored ones; look again when it "
    "has ended, or end it with 'sovereign-epyc settle'"
)
OTHER_INTENT = "the boot service plans with the intent that is stored, and the inventory has another one"


class Survey:
    """What a check found out."""

    def __init__(self, host: Host, verdicts: list[Verdict], boot: str = "") -> None:
        self.host = host
        self.verdicts = verdicts
        #: Why nothing will be applied at the next boot.
        self.boot = boot

    @property
    def clean(self) -> bool:
        """Return whether nothing is wrong and nothing unknown."""
        return all(verdict.clean for verdict in self.verdicts)

    def findings(self) -> list[findings.Finding]:
        """Return what is not as configured."""
        return findings.findings(self.verdicts, self.boot, self.host)

    def settings(self) -> dict[str, int]:
        """Return how many settings of all layers have which status."""
        return findings.sum_of_layers(self.coverage())

    def coverage(self) -> dict[str, dict[str, int]]:
        """Return by layer how many settings have which status."""
        return findings.coverage(self.verdicts, self.boot)


def of_host(
    fs: KernelFS,
    requests: Mapping[str, Mapping[str, Any]] | None = None,
    intent: Mapping[str, Any] | None = None,
    store: Store | None = None,
    remarks: list[str] | None = None,
    more: Sequence[Verdict] = (),
    layers: Layers | None = None,
) -> Survey:
    """Check requests under an intent; what is not given is taken from the store. ``remarks`` is as for judge.survey.

    ``more`` are verdicts on what is not stored for the boot service. ``layers`` are those of site.yml that must be on
    this host; without them, those that its newest run was asked for.
    """
    for request, options in (requests or {}).items():
        if not isinstance(request, str) or not isinstance(options, dict):
            raise BadRequest(
                f"requests: {request} is no request: say a dictionary of options by the name of a knob, as sysfs/numa."
            )
    store = store or Store(read_only=True)
    stored_intent, stored_requests = stored(store)
    host = Host(fs, stored_intent if intent is None else intent, stored=True)
    run = _unfinished_run(store)
    if store.has_file(TRIAL):
        return Survey(host, [*run, unknown("", "desired:", UNDER_TRIAL)])
    asked, boot = layers_of_host(store, layers), why_not_at_boot(host)
    given = stored_requests if requests is None else requests
    verdicts = survey(host, store, given, remarks)
    if not verdicts and (not asked or asked.keys() & REQUESTS.keys()):
        return Survey(host, [*run, unknown("", "desired:", NOTHING), *more])
    missing = missing_layers(host, given, asked, boot)
    if verdicts:
        verdicts += _ledger(Ledger(store, fs))
    if intent is not None and verdicts and not _same(intent, stored_intent):
        verdicts.append(_other_intent(intent, stored_intent))
    return Survey(host, [*run, *missing, *verdicts, *away(host), *more], boot)


def _unfinished_run(store: Store) -> list[Verdict]:
    """Return the verdict on a run of site.yml that began on this host and did not end; nothing where all have ended."""
    run = history_file.unfinished_run(store)
    if run is None:
        return []
    verdict = Verdict("", f"{RUN}:site", "ended")
    verdict.found, verdict.at_boot = "did not end", "did not end"
    verdict.live = verdict.persistent = DRIFT
    verdict.reason = run.sentence()
    return [verdict]


def _ledger(ledger: Ledger) -> list[Verdict]:
    """Look at the originals too: else their damage would only show when they are needed."""
    try:
        flaw = ledger.flaw()
    except TuningError as error:
        return [unknown("", findings.LOST, str(error))]
    return [unknown("", "ledger:copy", flaw)] if flaw else []


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two intents mean the same; what is left out has its default."""
    if one == other:
        return True
    try:
        return _asked(one) == _asked(other)
    except TuningError:
        return False  # The requests that need the plan report what is wrong with it.


def _asked(raw: Mapping[str, Any]) -> list[object]:
    from .._host.intent import Intent

    intent = Intent.from_options(raw)
    amounts = [place.l3 for place in (intent.draft, intent.verify)] + [intent.default_l3]
    places = [(place.unit, place.count) for place in (intent.draft, intent.verify)]
    shares = [amount and (amount.kind, amount.number) for amount in amounts]
    return [intent.housekeeping_cores, intent.housekeeping_per, *places, *shares]


def _other_intent(intent: Mapping[str, Any], stored_intent: Mapping[str, Any]) -> Verdict:
    import json

    verdict = Verdict("", INTENT, json.dumps(intent, sort_keys=True))
    verdict.found = verdict.at_boot = json.dumps(stored_intent, sort_keys=True)
    verdict.live, verdict.persistent = OK, DRIFT
    verdict.reason = OTHER_INTENT
    return verdict
