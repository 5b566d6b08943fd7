# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that what the text of a page names exists: variables, roles, modules, options, playbooks, targets, commands.

Names count where they stand between backticks. An option is recognised by its value, as in `slots: 4`, or by the words
beside it: "`tokens` of `llama_ask`", "`msr_bits` with `allow_undocumented`", "the options `slots` and `context` of an
instance".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from tools.examples.commands import check_make_targets
from tools.examples.specs import (
    ROOT,
    WrongExample,
    arguments_of_ansible_module,
    list_variable_specs,
    read_module,
    read_site_layers,
)

#: A variable with which a page shows what an operator may call a variable of his own.
EXAMPLE_VARIABLES = {"epyc_rack"}
#: Files that the documents tell the reader to write, or that other programs have.
FILES_OF_OTHERS = {"epyc_tuned.yml", "health.yml", "mine.yml", "prometheus.yml"}
#: Keys of Ansible, Prometheus and Grafana.
KEYS_OF_OTHERS = {"file_sd_configs", "grafana_dashboards_dir", "tasks_from"}
#: Folders whose files the documents name without the folder.
FOLDERS = ("", "docs", "playbooks", "playbooks/vars", "meta")
#: The module whose option "instances" has the options of an instance.
INSTANCE_MODULE = "llama_server"
_OPTIONS = r"((?:`[a-z_0-9]+`(?:, and |, or |, | and | or ))*`[a-z_0-9]+`)"
OPTIONS_OF_MODULE = re.compile(rf"{_OPTIONS} of (?:the modules? )?`([a-z_0-9]+)`")
MODULE_WITH_OPTIONS = re.compile(rf"`([a-z_0-9]+)` with {_OPTIONS}")
OPTIONS_OF_INSTANCE = re.compile(rf"options? {_OPTIONS} of (?:an|the|each|every) instance\b")


def list_wrong_names(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and a message for each name in the text of a page that nothing in the collection has."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        line = token.map[0] + 1 if token.map else 0
        codes = [child.content for child in token.children or () if child.type == "code_inline"]
        for code in codes:
            yield from ((line, message) for message in _wrong_names_of_code(code))
        if codes:
            yield from ((line, message) for message in _wrong_options(" ".join(token.content.split())))


def _wrong_names_of_code(code: str) -> Iterator[str]:
    for name in re.findall(r"\bepyc_\w+\b(?!\*)", code):
        if name not in _list_known_names():
            yield f"there is no variable, role or module {name}"
    for prefix in re.findall(r"^([a-z_]+_)\*", code):
        if not any(name.startswith(prefix) for name in list_variable_specs()):
            yield f"no variable begins with {prefix}"
    for path in re.findall(r"(?<![\w*{}./-])[a-z_/-]+\.yml\b", code):
        is_ours = "/" not in path or (ROOT / path.partition("/")[0]).is_dir()
        if is_ours and path not in FILES_OF_OTHERS and not any((ROOT / folder / path).is_file() for folder in FOLDERS):
            yield f"there is no playbook or file {path}"
    for layers in re.findall(r"--tags ([a-z_,]+)", code):
        if unknown := set(layers.split(",")) - {*read_site_layers()}:
            yield f"site.yml has no layer {', '.join(sorted(unknown))}"
    for key in re.findall(r"^([a-z_]+): ", code):
        if key not in _list_keys() | _list_known_names() | KEYS_OF_OTHERS:
            yield f"no option of a module or role is called {key}"
    program, dummy, rest = code.partition(" ")
    if program == "make":
        try:
            check_make_targets(shlex.split(rest))
        except WrongExample as wrong:
            yield str(wrong)
    if program == "sovereign-epyc" and re.match(r"[a-z]", rest):
        command = rest.split()[0]
        if not re.search(rf"^  {command}\b", read_module("module_utils._cli").USAGE, re.MULTILINE):
            yield f"sovereign-epyc has no command {command}"


def _wrong_options(text: str) -> Iterator[str]:
    pairs = [*OPTIONS_OF_MODULE.findall(text), *(pair[::-1] for pair in MODULE_WITH_OPTIONS.findall(text))]
    for options, module in pairs:
        if (ROOT / f"plugins/modules/{module}.py").is_file():
            known = {*_list_nested_keys(_options_of_module(module)), *_return_values_of_module(module)}
            yield from _unknown_options(options, known, module)
    for options in OPTIONS_OF_INSTANCE.findall(text):
        known = {*_options_of_module(INSTANCE_MODULE)["instances"]["options"]}
        yield from _unknown_options(options, known, "an instance")


def _unknown_options(options: str, known: set[str], owner: str) -> Iterator[str]:
    return (f"there is no option {name} of {owner}" for name in re.findall(r"`(\w+)`", options) if name not in known)


@cache
def _list_known_names() -> frozenset[str]:
    plugins = (path.stem for path in ROOT.glob("plugins/*/*.py"))
    return frozenset(
        {*list_variable_specs(), *(path.name for path in ROOT.glob("roles/*")), *plugins, *EXAMPLE_VARIABLES}
    )


@cache
def _list_keys() -> frozenset[str]:
    """Return the names of all options of modules and roles, and of the options inside of them."""
    modules = (_options_of_module(path.stem) for path in ROOT.glob("plugins/modules/*.py"))
    return frozenset(
        key for specification in (*modules, list_variable_specs()) for key in _list_nested_keys(specification)
    )


def _list_nested_keys(options: Mapping[str, Any]) -> Iterator[str]:
    for name, option in options.items():
        yield name
        yield from _list_nested_keys(option.get("options") or {})


@cache
def _options_of_module(module: str) -> Mapping[str, Any]:
    specification: Mapping[str, Any] = arguments_of_ansible_module(module)["argument_spec"]
    return specification


@cache
def _return_values_of_module(module: str) -> frozenset[str]:
    text = read_module(f"modules.{module}").RETURN
    return frozenset(re.findall(r"^ *(\w+):", text, re.MULTILINE))
