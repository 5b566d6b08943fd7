# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check every example that users may copy against the sources.

    python -m tools.examples [PAGE ...]

Examples are the code blocks of the documents, or of the pages given, and the EXAMPLES of the modules. ansible-playbook
checks the syntax of tasks and plays. Options of tasks are compared with the specifications of the modules, variables
with those of the roles, and commands with the argument parsers of the programs. Names between backticks in the text of
a page, such as variables and playbooks, must exist. Prints what is wrong; exit code 1.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from markdown_it import MarkdownIt

from tools.examples.commands import check_shell_line
from tools.examples.figures import check_figures
from tools.examples.names import list_wrong_names
from tools.examples.specs import (
    ROOT,
    WrongExample,
    check_module_options_of_task,
    check_role_variables,
    read_module,
    read_source,
)
from vepyc.playbook_runs import run_command

PAGES = ["README.md", "CONTRIBUTING.md", "docs/*.md", "roles/*/README.md"]
#: Languages of code blocks. Blocks of ini and text are searched only for unknown metrics, environment variables and
#: figures; a test runs the blocks of Python.
LANGUAGES = {"yaml", "bash", "ini", "text", "python"}
#: A key of each file of Prometheus, Alertmanager or Grafana; such a file has no variables of the collection.
FOREIGN_KEYS = {"rule_files", "apiVersion", "route", "repair_token"}


class Block(NamedTuple):
    """A code block to check: its file and line, its language and its text."""

    place: str
    language: str
    text: str


def list_page_blocks(page: Path) -> Iterator[Block]:
    """Yield the code blocks of a page; an indented block has no language and cannot be checked."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            line = token.map[0] + 1 if token.map else 0
            yield Block(f"{_name_of_page(page)}:{line}", token.info.strip(), token.content)


def _name_of_page(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


def list_module_examples() -> Iterator[Block]:
    """Yield the EXAMPLES of every module."""
    for path in sorted(ROOT.glob("plugins/modules/*.py")):
        text = read_module(f"modules.{path.stem}").EXAMPLES
        yield Block(f"plugins/modules/{path.name}", "yaml", text)


def check_block(block: Block) -> tuple[str, str]:
    """Check a block, or raise WrongExample; return kind and text of a file that ansible-playbook checks too."""
    if block.language not in LANGUAGES:
        raise WrongExample(f"say one of {', '.join(sorted(LANGUAGES))} as its language, not '{block.language}'")
    check_metric_and_variable_names(block.text)
    check_figures(block.text)
    if block.language == "bash":
        for line in block.text.replace("\\\n", " ").splitlines():
            check_shell_line(line)
    if block.language == "python":
        compile(block.text, block.place, "exec")
    if block.language != "yaml":
        return "", ""
    try:
        data = yaml.safe_load(block.text)
    except yaml.YAMLError as error:
        raise WrongExample(f"is no YAML: {error}") from None
    if isinstance(data, list):
        play = "hosts" in data[0] or "ansible.builtin.import_playbook" in data[0]
        plays = data if play else [{"name": block.place, "hosts": "localhost", "gather_facts": False, "tasks": data}]
        for task in list_tasks(plays):
            check_module_options_of_task(task)
        return "playbook", yaml.safe_dump(plays, sort_keys=False)
    if {"all", "epyc_servers"} & data.keys():
        return "inventory", block.text
    if "images" in data:
        check_execution_environment(data)
    elif not FOREIGN_KEYS & data.keys():
        check_role_variables(data)
    return "", ""


def check_metric_and_variable_names(text: str) -> None:
    """Raise WrongExample for a metric or an environment variable that the sources of the collection do not have."""
    modules = (
        read_module(f"module_utils.{name}")
        for name in ("_drift.metrics", "_drift.repair", "_serving.verify.metrics", "_verify.host_metrics")
    )
    pattern = r"\b(?:sovereign_epyc|SOVEREIGN_EPYC)_\w+"
    callbacks = (read_source(f"plugins/callback/{name}.py") for name in ("drift", "plan"))
    known = {
        *(name for module in modules for name in module.HELP),
        *(name for source in callbacks for name in re.findall(pattern, source)),
    }
    for name in re.findall(pattern, text):
        if name not in known:
            raise WrongExample(f"there is nothing called {name}")


def list_tasks(plays: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield all tasks of plays, also those inside of blocks."""
    for play in plays:
        for key in ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from play.get(key, [])
            yield from list_tasks(play.get(key, []))
        for role in play.get("roles", []):
            if isinstance(role, dict) and role.get("vars"):
                check_role_variables(role["vars"])


def check_execution_environment(data: Mapping[str, Any]) -> None:
    """Check the definition of an execution environment against the schema of ansible-builder."""
    from ansible_builder.ee_schema import validate_schema
    from ansible_builder.exceptions import DefinitionError

    try:
        validate_schema(data)
    except DefinitionError as error:
        raise WrongExample(f"ansible-builder says: {error}") from None


def check_syntax_of_all_examples(files: Mapping[str, Sequence[str]]) -> str:
    """Check all examples by one run of ansible-playbook; return its output where it refuses an example."""
    inventories = [word for path in ["localhost,", *files.get("inventory", [])] for word in ("-i", path)]
    command = ("ansible-playbook", "--syntax-check", *inventories, *files["playbook"])
    done = run_command(*command, ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="true")
    return done.stdout if done.returncode else ""


def main(pages: Sequence[str]) -> int:
    paths = [Path(page) for page in pages] or sorted(path for pattern in PAGES for path in ROOT.glob(pattern))
    blocks = [block for path in paths for block in list_page_blocks(path)]
    if not pages:
        blocks += list_module_examples()
    messages = [f"{_name_of_page(path)}:{line}: {wrong}" for path in paths for line, wrong in list_wrong_names(path)]
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, list[str]] = {}
        for block in blocks:
            try:
                kind, text = check_block(block)
            except WrongExample as wrong:
                messages.append(f"{block.place}: {wrong}")
                continue
            if kind:
                path = Path(folder, re.sub(r"[/:]", "-", block.place) + ".yml")
                path.write_text(text, encoding="utf-8")
                files.setdefault(kind, []).append(str(path))
        if files.get("playbook"):
            messages += filter(None, [check_syntax_of_all_examples(files)])
    print("\n".join(messages) or f"{len(blocks)} examples are right")
    return bool(messages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
