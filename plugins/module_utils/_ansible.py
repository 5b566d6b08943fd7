# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only file of the engine that knows Ansible: a module's parameters in, its result or its failure out."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

from . import _desired
from ._errors import TuningError
from ._host import Host
from ._kernelfs import KernelFS
from ._knob import Original, converge
from ._ledger import Ledger
from ._store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ._knob import Knob

#: The options that every module of a knob has; documented in the fragment sovereign.epyc.knob.
COMMON = dict(
    state=dict(type="str", choices=["present", "original"], default="present"),
    persistent=dict(type="bool", default=False),
    label=dict(type="str"),
    intent=dict(type="dict"),
)


def run_knob(
    name: str, spec: dict[str, Any], build: Callable[[Host, Mapping[str, Any]], Sequence[Knob]], **rules: Any
) -> None:
    """Be the module of a knob, and exit: ``build`` makes its knobs for a host from the options in ``spec``.

    ``rules`` go to AnsibleModule, as required_together and the like.
    """
    module = AnsibleModule(argument_spec={**COMMON, **spec}, supports_check_mode=True, **rules)
    fs = KernelFS(read_only=module.check_mode)
    store = Store(read_only=module.check_mode)
    ledger = Ledger(store, fs)
    options = {key: module.params[key] for key in spec if module.params[key] is not None}
    try:
        if module.params["state"] == "original":
            labels = [request for request in _desired.stored(store)[1] if request.split("/")[0] == name]
            inner = build(Host(fs), {})
            knobs: list[Knob] = [Original(knob, ledger) for knob in reversed(inner)]
            knobs.append(_desired.Desired(store, dict.fromkeys(labels)))
        else:
            knobs = list(build(Host(fs, module.params["intent"]), options))
            if module.params["persistent"]:
                requests = {f"{name}/{module.params['label'] or name}": options}
                if module.params["intent"]:
                    requests["intent"] = module.params["intent"]
                knobs.append(_desired.Desired(store, requests))
        outcome = converge(knobs, ledger, check=module.check_mode)
    except TuningError as error:
        module.fail_json(msg=str(error), **error.details)
    for remark in outcome.remarks:
        module.warn(remark)
    facts = {key: value for knob in knobs for key, value in knob.facts().items()}
    module.exit_json(changed=bool(outcome.changes), diff=outcome.diff(), remarks=outcome.remarks, **facts)


def run_reader(spec: dict[str, Any], read: Callable[[dict[str, Any], KernelFS], dict[str, Any]]) -> None:
    """Be a module that only reads, and exit with what ``read`` returns."""
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        result = read(module.params, KernelFS(read_only=True))
    except TuningError as error:
        module.fail_json(msg=str(error), **error.details)
    module.exit_json(changed=False, **result)
