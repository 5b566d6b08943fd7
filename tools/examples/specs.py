# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What examples are checked against: the specifications of modules, and of the variables of roles and playbooks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROOT = Path(__file__).parents[2]
PLUGINS = "ansible_collections.sovereign.epyc.plugins"
OURS = "sovereign.epyc."


class Wrong(Exception):
    """Raised with the sentence that says what is wrong with an example."""


@cache
def read_source(path: str) -> str:
    """Return the text of a file of the collection."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except OSError:
        raise Wrong(f"there is no file {path}") from None


def check_task(task: Mapping[str, Any]) -> None:
    """Check the options of a task against the specification of its module, if it is of this collection."""
    for name, options in task.items():
        if not name.startswith(OURS):
            continue
        given = deepcopy(module_spec(name[len(OURS) :]))  # Copied, because Ansible fills defaults into its argument.
        spec, rules = given["argument_spec"], {key: value for key, value in given.items() if key.endswith("_if")}
        templates = {key for key, value in (options or {}).items() if "{{" in str(value)}
        if templates:  # Templates have a value only in a run.
            spec, rules = (
                {key: {**option, "required": False} for key, option in spec.items() if key not in templates},
                {},
            )
        literal = {key: value for key, value in (options or {}).items() if key not in templates}
        raise_messages(name, ArgumentSpecValidator(spec, **rules).validate(literal).error_messages)


@cache
def module_spec(name: str) -> dict[str, Any]:
    """Return the arguments with which a module calls AnsibleModule."""
    doors: list[Any] = [import_module(f"{PLUGINS}.module_utils.{door}") for door in ("_ansible", "_bmc")]
    taken: dict[str, Any] = {}

    class Taken(Exception):
        pass

    def take(**given: Any) -> None:
        taken.update(given)
        raise Taken

    real = [door.AnsibleModule for door in doors]
    for door in doors:
        door.AnsibleModule = take
    try:
        import_module(f"{PLUGINS}.modules.{name}").main()
    except Taken:
        return taken
    except ModuleNotFoundError:
        raise Wrong(f"there is no module {OURS}{name}") from None
    finally:
        for door, module in zip(doors, real, strict=True):
            door.AnsibleModule = module
    raise Wrong(f"the module {OURS}{name} does not begin with its specification")


@cache
def list_variable_specs() -> dict[str, dict[str, Any]]:
    """Return the specification of every variable of roles and playbooks; those of playbooks are empty."""
    known: dict[str, dict[str, Any]] = {}
    for path in ROOT.glob("playbooks/*.yml"):
        of_playbooks = r"(?:ablation|analyse|ask|benchmark|recommend|tune)_(?!results?\b)\w+"
        pattern = rf"\b(?:epyc_(?:steps|reboot_\w+|repair_(?!result\b)\w+|restore_\w+|roll_\w+)|{of_playbooks})\b"
        names = re.findall(pattern, path.read_text(encoding="utf-8"))
        known.update({name: {"type": "raw"} for name in names if not name.endswith("_now")})
    for path in ROOT.glob("roles/*/meta/main.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            known.update(entry["options"])
            known.update({name: {"type": "raw"} for name in re.findall(r"C\((epyc_\w+)\)", path.read_text())})
    return known


def check_variables(given: Mapping[str, Any]) -> None:
    """Check variables of an inventory against the specifications of the roles."""
    spec = {name: list_variable_specs()[name] for name in given if name in list_variable_specs()}
    raise_messages("variables", ArgumentSpecValidator(deepcopy(spec)).validate(dict(given)).error_messages)


def raise_messages(what: str, messages: Sequence[str]) -> None:
    if messages:
        raise Wrong(f"{what}: {' '.join(messages)}")
