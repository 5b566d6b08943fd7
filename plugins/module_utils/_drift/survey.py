# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drift check of a whole host: verdicts on all stored requests, and on the stored files themselves."""

from __future__ import annotations

from .._errors import BadRequest, TuningError
from .._host.host import Host
from .._io.store import TRIAL, Store
from .._knobs.address_kinds import RUN
from .._knobs.history import history_file
from .._knobs.protocol.ledger import Ledger
from .._knobs.protocol.stored_requests import INTENT, load_stored_requests
from . import findings
from .judge import boot_service_ineffective_reason, judge_requests, judge_roles_with_offline_cpus
from .requested import REQUESTS_OF_LAYER, judge_layers_without_requests, list_requested_layers
from .verdict import DRIFT, OK, Verdict, unreadable_address_verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .requested import Layers

NEVER_TUNED = "site.yml has never run here, or everything was put back"
NOTHING_STORED = f"nothing is stored on this host: {NEVER_TUNED}"
UNDER_TRIAL = (
    "an ablation or a tuning goes on, or did not end, so settings may differ from the stored ones; look again when it "
    "has ended, or end it with 'sovereign-epyc settle'"
)
DIFFERENT_INTENT = "the boot service plans with the intent that is stored, and the inventory has another one"


class Survey:
    """The verdicts of a check of one host."""

    def __init__(self, host: Host, verdicts: list[Verdict], boot_failure: str = "") -> None:
        self.host = host
        self.verdicts = verdicts
        #: Why the boot service will apply nothing at the next boot; "" if it will work.
        self.boot_failure = boot_failure

    @property
    def is_clean(self) -> bool:
        """Return True if every setting is as configured, now and after a boot."""
        return all(verdict.is_clean for verdict in self.verdicts)

    def list_findings(self) -> list[findings.Finding]:
        return findings.group_into_findings(self.verdicts, self.boot_failure, self.host)

    def count_by_status(self) -> dict[str, int]:
        return findings.sum_layer_counts_by_status(self.count_by_layer())

    def count_by_layer(self) -> dict[str, dict[str, int]]:
        return findings.count_by_layer(self.verdicts, self.boot_failure)


def check_host(
    fs: KernelFS,
    requests: Mapping[str, Mapping[str, Any]] | None = None,
    intent: Mapping[str, Any] | None = None,
    store: Store | None = None,
    remarks: list[str] | None = None,
    extra_verdicts: Sequence[Verdict] = (),
    layers: Layers | None = None,
) -> Survey:
    """Return the verdicts on ``requests`` under ``intent``; by default, both are those that the host has stored.

    The remarks of knobs are appended to ``remarks``. ``extra_verdicts`` are verdicts of the caller, such as those on
    units of instances. ``layers`` are the layers of site.yml that the host should have, by default the layers of its
    newest run. Raises BadRequest for a malformed request.
    """
    for request, options in (requests or {}).items():
        if not isinstance(request, str) or not isinstance(options, dict):
            raise BadRequest(
                f"requests: {request} is no request: say a dictionary of options by the name of a knob, as sysfs/numa."
            )
    store = store or Store(read_only=True)
    stored_intent, stored_requests = load_stored_requests(store)
    host = Host(fs, stored_intent if intent is None else intent, stored=True)
    run = _judge_unfinished_run(store)
    if store.has_file(TRIAL):
        return Survey(host, [*run, unreadable_address_verdict("", "desired:", UNDER_TRIAL)])
    requested_layers, boot = list_requested_layers(store, layers), boot_service_ineffective_reason(host)
    checked_requests = stored_requests if requests is None else requests
    verdicts = judge_requests(host, store, checked_requests, remarks)
    if not verdicts and (not requested_layers or requested_layers.keys() & REQUESTS_OF_LAYER.keys()):
        return Survey(host, [*run, unreadable_address_verdict("", "desired:", NOTHING_STORED), *extra_verdicts])
    missing = judge_layers_without_requests(host, checked_requests, requested_layers, boot)
    if verdicts:
        verdicts += _judge_damaged_ledger(Ledger(store, fs))
    if intent is not None and verdicts and not _intents_equal(intent, stored_intent):
        verdicts.append(_verdict_on_different_intent(intent, stored_intent))
    return Survey(host, [*run, *missing, *verdicts, *judge_roles_with_offline_cpus(host), *extra_verdicts], boot)


def _judge_unfinished_run(store: Store) -> list[Verdict]:
    """Return a drift verdict on a run of site.yml that began on this host and did not end, if there is one."""
    run = history_file.load_unfinished_run(store)
    if run is None:
        return []
    verdict = Verdict("", f"{RUN}:site", "ended")
    verdict.found, verdict.at_boot = "did not end", "did not end"
    verdict.live = verdict.persistent = DRIFT
    verdict.reason = run.unfinished_message()
    return [verdict]


def _judge_damaged_ledger(ledger: Ledger) -> list[Verdict]:
    """Return an unknown verdict on a damaged ledger, so that the damage is seen before an undo needs the ledger."""
    try:
        damage = ledger.damaged_copy_reason()
    except TuningError as error:
        return [unreadable_address_verdict("", findings.LOST_LEDGER, str(error))]
    return [unreadable_address_verdict("", "ledger:copy", damage)] if damage else []


def _intents_equal(intent: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two intents are equal after defaults are filled in."""
    try:
        return intent == other or _intent_with_defaults_to_list(intent) == _intent_with_defaults_to_list(other)
    except TuningError:
        return False  # An intent that cannot be parsed has verdicts with the reason, one for each request on the plan.


def _intent_with_defaults_to_list(options: Mapping[str, Any]) -> list[object]:
    from .._host.intent import Intent

    intent = Intent.from_options(options)
    amounts = [place.l3 for place in (intent.draft, intent.verify)] + [intent.default_l3]
    places = [(place.unit, place.count) for place in (intent.draft, intent.verify)]
    shares = [amount and (amount.kind, amount.number) for amount in amounts]
    housekeeping = intent.housekeeping and intent.housekeeping.to_option()
    return [housekeeping, *places, *shares]


def _verdict_on_different_intent(intent: Mapping[str, Any], stored_intent: Mapping[str, Any]) -> Verdict:
    import json

    verdict = Verdict("", INTENT, json.dumps(intent, sort_keys=True))
    verdict.found = verdict.at_boot = json.dumps(stored_intent, sort_keys=True)
    verdict.live, verdict.persistent = OK, DRIFT
    verdict.reason = DIFFERENT_INTENT
    return verdict
