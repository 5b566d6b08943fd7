# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only file of the engine that knows Ansible: a module's parameters in, its result or its failure out."""

from __future__ import annotations

from contextlib import nullcontext

from ansible.module_utils.basic import AnsibleModule

from ._errors import TuningError
from ._host.host import Host
from ._io.kernelfs import KernelFS
from ._io.store import Store
from ._knobs import desired
from ._knobs.converge import converge
from ._knobs.ledger import Ledger, Original
from ._knobs.unasked import unasked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ._knobs.knob import Knob

#: The options that every module of a knob has; documented in the fragment sovereign.epyc.knob.
COMMON = dict(
    state=dict(type="str", choices=["present", "unasked", "original"], default="present"),
    persistent=dict(type="bool", default=False),
    label=dict(type="str"),
    undo_unasked=dict(type="bool", default=True),
    intent=dict(type="dict"),
)


def run_knob(
    name: str, spec: dict[str, Any], build: Callable[[Host, Mapping[str, Any]], Sequence[Knob]], **rules: Any
) -> None:
    """Run the module of a knob, and exit: ``build`` makes its knobs for a host from the options in ``spec``.

    ``rules`` are further arguments of AnsibleModule, such as required_together.
    """

    def knobs_of(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
        request = f"{name}/{params['label'] or name}"
        if params["state"] == "original":
            labels = [request for request in desired.stored(ledger.store)[1] if request.split("/")[0] == name]
            originals = [Original(knob, ledger) for knob in reversed(build(host, {}))]
            return [*originals, desired.Desired(ledger.store, dict.fromkeys(labels))]
        if params["state"] == "unasked":
            return [*unasked(build, host, ledger, request, None), desired.Desired(ledger.store, {request: None})]
        options = {key: params[key] for key in spec if params[key] is not None}
        knobs = list(build(host, options))
        if params["persistent"]:
            if params["undo_unasked"]:
                knobs = [*unasked(build, host, ledger, request, options), *knobs]
            stored = {request: options, **({"intent": params["intent"]} if params["intent"] else {})}
            knobs.append(desired.Desired(ledger.store, stored))
        return knobs

    run_plain({**COMMON, **spec}, knobs_of, **rules)


def run_plain(
    spec: dict[str, Any], knobs_of: Callable[[Mapping[str, Any], Host, Ledger], Sequence[Knob]], **rules: Any
) -> None:
    """Run a module that converges the knobs that ``knobs_of`` makes from its parameters, and exit."""

    def write(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
        host, ledger = host_and_ledger(store, check, params.get("intent"))
        host.stored = bool(params.get("persistent"))
        # Under the lock from the first look on: what is stored now may be undone by the run that this one waits for.
        with nullcontext() if check else ledger.lock():
            knobs = knobs_of(params, host, ledger)
            outcome = converge(knobs, ledger, check=check)
        facts = {key: value for knob in knobs for key, value in knob.facts().items()}
        return dict(changed=bool(outcome.changes), diff=outcome.diff(), remarks=outcome.remarks, **facts)

    run_writer(spec, write, **rules)


def host_and_ledger(
    store: Store, check: bool, intent: Mapping[str, Any] | None = None, without_originals: bool = False
) -> tuple[Host, Ledger]:
    """Return this host, which a check cannot write to, and its ledger."""
    fs = KernelFS(read_only=check)
    return Host(fs, intent), Ledger(store, fs, without_originals)


def run_writer(
    spec: dict[str, Any], write: Callable[[Mapping[str, Any], Store, bool], dict[str, Any]], **rules: Any
) -> None:
    """Run a module that changes the host, and exit with what ``write`` returns; its remarks also become warnings.

    ``write`` gets the parameters, the store, and whether this is a check; it takes the locks that it needs.
    """
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True, **rules)
    try:
        result = write(module.params, Store(read_only=module.check_mode), module.check_mode)
    except TuningError as error:
        module.fail_json(msg=str(error), **error.details)
    for remark in result.get("remarks", ()):
        module.warn(remark)
    module.exit_json(**result)


def run_reader(spec: dict[str, Any], read: Callable[[dict[str, Any], KernelFS], dict[str, Any]]) -> None:
    """Run a module that only reads, and exit with what ``read`` returns; its remarks also become warnings."""
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        result = read(module.params, KernelFS(read_only=True))
    except TuningError as error:
        module.fail_json(msg=str(error), **error.details)
    for remark in result.get("remarks", ()):
        module.warn(remark)
    module.exit_json(changed=False, **result)
