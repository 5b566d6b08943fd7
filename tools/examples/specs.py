# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks tasks and variables of examples by the specifications of modules, roles and playbooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names import known_variables

ROOT = Path(__file__).parents[2]
PLUGINS = "ansible_collections.sovereign.epyc.plugins"
OURS = "sovereign.epyc."
#: The specification of a variable that may have any value.
RAW = {"type": "raw"}


class WrongExample(Exception):
    """An example is wrong; the message says how."""


@cache
def read_source(path: str) -> str:
    """Return the text of a file of the collection."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except OSError:
        raise WrongExample(f"there is no file {path}") from None


def read_module(name: str) -> Any:
    """Return a Python module of the plugins, such as ``module_utils._cli``."""
    return import_module(f"{PLUGINS}.{name}")


def read_site_layers() -> list[str]:
    """Return the layers of site.yml."""
    layers: list[str] = yaml.safe_load(read_source("playbooks/site.yml"))[0]["vars"]["epyc_site_layers"]
    return layers


def check_module_options_of_task(task: Mapping[str, Any]) -> None:
    """Raise WrongExample where options of a task do not fit the module of this collection that the task calls."""
    for name, options in task.items():
        if not name.startswith(OURS):
            continue
        given = deepcopy(
            arguments_of_ansible_module(name[len(OURS) :])
        )  # Copied because the validator writes defaults into the spec.
        spec, rules = given["argument_spec"], {key: value for key, value in given.items() if key.endswith("_if")}
        templates = {key for key, value in (options or {}).items() if "{{" in str(value)}
        if templates:  # A template has a value only while a playbook runs.
            spec, rules = (
                {key: {**option, "required": False} for key, option in spec.items() if key not in templates},
                {},
            )
        literal = {key: value for key, value in (options or {}).items() if key not in templates}
        raise_wrong_example_if_any(name, ArgumentSpecValidator(spec, **rules).validate(literal).error_messages)


@cache
def arguments_of_ansible_module(name: str) -> dict[str, Any]:
    """Return the arguments with which a module calls AnsibleModule."""
    importers: list[Any] = [read_module(f"module_utils.{name}") for name in ("_ansible", "_bmc")]
    arguments: dict[str, Any] = {}

    class ArgumentsRecorded(Exception):
        pass

    def record_arguments(**given: Any) -> None:
        arguments.update(given)
        raise ArgumentsRecorded

    real_class = importers[0].AnsibleModule
    for importer in importers:
        importer.AnsibleModule = record_arguments
    try:
        read_module(f"modules.{name}").main()
    except ArgumentsRecorded:
        return arguments
    except ModuleNotFoundError:
        raise WrongExample(f"there is no module {OURS}{name}") from None
    finally:
        for importer in importers:
            importer.AnsibleModule = real_class
    raise WrongExample(f"the module {OURS}{name} does not begin with its specification")


@cache
def list_variable_specs() -> dict[str, dict[str, Any]]:
    """Return the specification of every variable of roles and playbooks; any value fits a variable of a playbook."""
    known: dict[str, dict[str, Any]] = dict.fromkeys(known_variables.list_collection_variables(), RAW)
    for path in ROOT.glob("roles/*/meta/main.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            known.update(entry["options"])
    return known


def check_role_variables(given: Mapping[str, Any]) -> None:
    """Raise WrongExample where variables do not fit the argument specs of the roles."""
    spec = {name: list_variable_specs()[name] for name in given if name in list_variable_specs()}
    raise_wrong_example_if_any("variables", ArgumentSpecValidator(deepcopy(spec)).validate(dict(given)).error_messages)


def raise_wrong_example_if_any(subject: str, messages: Sequence[str]) -> None:
    if messages:
        raise WrongExample(f"{subject}: {' '.join(messages)}")
