# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every module that makes settings does: its parameters become knobs, and the knobs are converged."""

from __future__ import annotations

from contextlib import nullcontext

from ._ansible import run_changing_module
from ._errors import TuningError
from ._host.host import Host
from ._io.kernelfs import KernelFS
from ._knobs.history import history_file
from ._knobs.protocol import stored_requests
from ._knobs.protocol.converge import LedgerNotUpdated, Outcome, converge_knobs
from ._knobs.protocol.ledger import Ledger, RestoringKnob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

    from ._io.store import Store
    from ._knobs.protocol.knob import Knob

    Build = Callable[[Host, Mapping[str, Any]], Sequence[Knob]]

#: The options that every module of a knob has; documented in the fragment sovereign.epyc.knob.
COMMON = dict(
    state=dict(type="str", choices=["present", "unasked", "original"], default="present"),
    persistent=dict(type="bool", default=False),
    label=dict(type="str"),
    undo_unasked=dict(type="bool", default=True),
    intent=dict(type="dict"),
)


def run_knob_module(name: str, spec: dict[str, Any], knob_file: ModuleType, **rules: Any) -> None:
    """Run the module of a knob, and exit. ``build`` of the knob's file makes the knobs from the options in ``spec``.

    ``rules`` are further arguments of AnsibleModule, such as required_together.
    """

    build: Build = knob_file.build_knobs

    def knobs_of(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
        request = f"{name}/{params['label'] or name}"
        if params["state"] == "original":
            labels = [
                request
                for request in stored_requests.load_stored_requests(ledger.store)[1]
                if request.split("/")[0] == name
            ]
            originals = [RestoringKnob(knob, ledger) for knob in reversed(build(host, {}))]
            return [*originals, stored_requests.StoredRequests(ledger.store, dict.fromkeys(labels))]
        if params["state"] == "unasked":
            return [
                *_restore_settings_without_request(build, host, ledger, request, None),
                stored_requests.StoredRequests(ledger.store, {request: None}),
            ]
        options = {key: params[key] for key in spec if params[key] is not None}
        knobs = list(build(host, options))
        if params["persistent"]:
            if params["undo_unasked"]:
                knobs = [*_restore_settings_without_request(build, host, ledger, request, options), *knobs]
            stored = {request: options, **({"intent": params["intent"]} if params["intent"] else {})}
            knobs.append(stored_requests.StoredRequests(ledger.store, stored))
        return knobs

    run_converging_module({**COMMON, **spec}, knobs_of, {name: knob_file}, **rules)


def run_converging_module(
    spec: dict[str, Any],
    knobs_of: Callable[[Mapping[str, Any], Host, Ledger], Sequence[Knob]],
    knob_files: Mapping[str, Any] | None = None,
    **rules: Any,
) -> None:
    """Run a module that converges the knobs that ``knobs_of`` makes from its parameters, and exit.

    ``knob_files`` maps the prefixes of addresses to the files of knobs that have words for them.
    """

    def write(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
        host, ledger = make_host_and_ledger(store, check, params.get("intent"))
        host.stored = bool(params.get("persistent"))
        # The lock is taken before settings are read, because the run that holds it may change them.
        with nullcontext() if check else ledger.hold_lock():
            knobs = knobs_of(params, host, ledger)
            outcome = converge_knobs(knobs, ledger, check) if check else _converge_and_count_in_history(knobs, ledger)
        facts = {key: value for knob in knobs for key, value in knob.module_facts().items()}
        return dict(changed=bool(outcome.changes), diff=outcome.to_diff(), remarks=outcome.remarks, **facts)

    run_changing_module(spec, write, knob_files, **rules)


def _converge_and_count_in_history(knobs: Sequence[Knob], ledger: Ledger) -> Outcome:
    """Converge, and count the changed settings in the history, if a run of site.yml is what changes them."""
    try:
        outcome = converge_knobs(knobs, ledger)
    except LedgerNotUpdated as error:
        history_file.add_change_counts_to_run(ledger.store, error.outcome.to_diff()["after"])
        raise
    unwritten = history_file.add_change_counts_to_run(ledger.store, outcome.to_diff()["after"])
    outcome.remarks += [unwritten] if unwritten else []
    return outcome


def make_host_and_ledger(
    store: Store, check: bool, intent: Mapping[str, Any] | None = None, without_originals: bool = False
) -> tuple[Host, Ledger]:
    """Return this host, which a check cannot write to, and its ledger."""
    fs = KernelFS(read_only=check)
    return Host(fs, intent), Ledger(store, fs, without_originals)


def _restore_settings_without_request(
    build: Build, host: Host, ledger: Ledger, request: str, options: Mapping[str, Any] | None
) -> list[Knob]:
    """Return knobs that put back what the stored request wanted and neither these options nor other requests want.

    ``request`` is "KNOB/LABEL", and ``options`` is None when it is to be stored no more. What other requests want is
    planned with the intent of this run, as they will be at boot.
    """
    intent, requests = stored_requests.load_stored_requests(ledger.store)
    name, before = request.partition("/")[0], requests.pop(request, None)
    if before is None or (before == options and intent == host.intent):
        return []
    others = [other for key, other in requests.items() if key.partition("/")[0] == name]
    try:
        gone = _addresses_set_by_options(build, Host(host.fs, intent), before)
    except TuningError as error:
        note = f"What {request} asked for until now cannot be told here any more, so nothing of it is put back: {error}"
        return [RestoringKnob(knob, ledger, only=(), note=note) for knob in build(host, {})[:1]]
    for other in [*others, *([] if options is None else [options])]:
        gone -= _addresses_set_by_options(build, host, other)
    return [RestoringKnob(knob, ledger, only=gone) for knob in reversed(build(host, {}))] if gone else []


def _addresses_set_by_options(build: Build, host: Host, options: Mapping[str, Any]) -> set[str]:
    return {address for knob in build(host, options) for address in knob.wanted_settings()}
