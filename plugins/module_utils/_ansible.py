# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs modules of Ansible: parameters are passed to a function, and its result or error ends the module."""

from __future__ import annotations

import json
import sys

from ansible.module_utils.basic import AnsibleModule

from ._errors import TuningError
from ._io import textfile
from ._io.kernelfs import KernelFS
from ._io.store import Store
from ._knobs.change_text import add_text_to_diff
from ._module_results import exit_module, fail_module
from ._notation.option_values import refuse_impossible_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

OLDEST_PYTHON = (3, 9)


def refuse_old_python(version: Sequence[Any]) -> None:
    """End the module with a message if this version of Python is too old for the library."""
    if tuple(version[:2]) < OLDEST_PYTHON:
        oldest, found = (".".join(map(str, numbers[:2])) for numbers in (OLDEST_PYTHON, version))
        message = (
            f"This host runs modules in Python {found}, and they need {oldest} or later. Nothing was changed. Install "
            "a newer Python, and name it in ansible_python_interpreter."
        )
        sys.stdout.write(json.dumps({"failed": True, "msg": message}))
        sys.exit(1)


# Before the module imports more of the library, which an older Python cannot read. Ansible-core 2.19 allows Python 3.8.
refuse_old_python(sys.version_info)


def run_changing_module(
    spec: dict[str, Any],
    write: Callable[[Mapping[str, Any], Store, bool], dict[str, Any]],
    knob_files: Mapping[str, Any] | None = None,
    **rules: Any,
) -> None:
    """Run a module that changes the host, and exit with the result of ``write``; its remarks become warnings too.

    ``write`` gets the parameters, the store, and whether this is check mode; it takes the locks that it needs. The
    ``diff`` of its result maps addresses to their values ``before`` and ``after``; ``knob_files`` maps prefixes of
    addresses to the modules of knobs that describe them.
    """
    textfile.set_umask_of_system()
    knob_files = knob_files or {}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True, **rules)
    try:
        refuse_impossible_values(module.params, "")
        result = write(module.params, Store(read_only=module.check_mode), module.check_mode)
    except TuningError as error:
        fail_module(module, error, knob_files)
    else:
        exit_module(module, add_text_to_diff(result, knob_files))


def run_read_only_module(spec: dict[str, Any], read: Callable[[dict[str, Any], KernelFS], dict[str, Any]]) -> None:
    """Run a module that only reads, and exit with the result of ``read``; its remarks become warnings too."""
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        refuse_impossible_values(module.params, "")
        result = read(module.params, KernelFS(read_only=True))
    except TuningError as error:
        fail_module(module, error, {})
    else:
        exit_module(module, {"changed": False, **result})
