# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only file of the engine that knows Ansible: a module's parameters in, its result or its failure out."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

from ._errors import TuningError
from ._kernelfs import KernelFS
from ._knob import converge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ._knob import Knob


def run_knobs(spec: dict[str, Any], build: Callable[[dict[str, Any], KernelFS], Sequence[Knob]]) -> None:
    """Be a module that converges the knobs which ``build`` makes of the parameters, and exit."""
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        knobs = build(module.params, KernelFS(read_only=module.check_mode))
        outcome = converge(knobs, check=module.check_mode)
    except TuningError as error:
        module.fail_json(msg=str(error), **error.details)
    for remark in outcome.remarks:
        module.warn(remark)
    module.exit_json(changed=bool(outcome.changes), diff=outcome.diff(), remarks=outcome.remarks)


def run_reader(spec: dict[str, Any], read: Callable[[dict[str, Any], KernelFS], dict[str, Any]]) -> None:
    """Be a module that only reads, and exit with what ``read`` returns."""
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        result = read(module.params, KernelFS(read_only=True))
    except TuningError as error:
        module.fail_json(msg=str(error), **error.details)
    module.exit_json(changed=False, **result)
