# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the commands of examples by the parsers of the programs, and that each file that a command names exists."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.examples.specs import (
    OURS,
    ROOT,
    WrongExample,
    check_role_variables,
    read_module,
    read_site_layers,
    read_source,
)

#: Programs whose arguments are not checked.
PLAIN = {
    "amtool",
    "cat",
    "cd",
    "cp",
    "curl",
    "echo",
    "export",
    "git",
    "journalctl",
    "pip",
    "printf",
    "sed",
    "sha256sum",
    "systemctl",
}
#: The inventory that the documents tell the reader to make, and the example inventory that it is a copy of.
COPY = ("inventories/mine", "inventories/example")
#: The name of inventories and files of variables that the documents tell the reader to write.
MINE = "mine.yml"
#: The folder of the clone on a host that tunes itself.
CLONE = "/srv/sovereign-epyc/"
#: The command that puts the tools of `make setup` into PATH.
ACTIVATE = ".venv/bin/activate"


def check_shell_line(line: str) -> None:
    """Check each command of a line for a shell; commands are separated by ``&&``."""
    words: list[str] = []
    for word in [*shlex.split(line, comments=True), "&&"]:
        if word != "&&":
            words.append(word)
        elif words:
            check_shell_command(words)
            words = []


def check_shell_command(words: Sequence[str]) -> None:
    program, arguments = words[0], list(words[1:])
    if program in PLAIN:
        return
    if program == "lab/bin/vepyc" and arguments[:1] == ["ssh"]:
        check_shell_command(arguments[2:])
        arguments = arguments[:2]
    if program == "tools/run.sh":
        return check_command_of_run_sh(arguments)
    if program not in PROGRAMS:
        raise WrongExample(f"'{program}' is a program that nobody checks; teach tools/examples/commands.py")
    try:
        PROGRAMS[program](arguments)
    except SystemExit:
        raise WrongExample(f"{shlex.join(words)}: {program} does not take that") from None


def check_command_of_run_sh(arguments: Sequence[str]) -> None:
    if not any(Path(folder, arguments[0]).is_file() for folder in os.environ["PATH"].split(os.pathsep)):
        raise WrongExample(f"there is no tool {arguments[0]}")
    if arguments[0] in PROGRAMS:
        check_shell_command(arguments)


def check_sourced_file(arguments: Sequence[str]) -> None:
    if list(arguments) != [ACTIVATE]:
        raise WrongExample(f"there is no file of the setup {shlex.join(arguments)}; {ACTIVATE} is one")


def parse_ansible_options(program: str, arguments: Sequence[str]) -> Any:
    """Return the options as the argument parser of a program of Ansible parses them."""
    name = {"ansible": "adhoc"}.get(program, program.partition("-")[2])
    cli = getattr(import_module(f"ansible.cli.{name}"), {"adhoc": "AdHoc"}.get(name, name.capitalize()) + "CLI")
    parser = cli([program, *arguments])
    parser.init_parser()
    return parser.parser.parse_args(parser.args[1:])


def check_ansible(arguments: Sequence[str]) -> None:
    module = parse_ansible_options("ansible", arguments).module_name
    if module.startswith(OURS) and not (ROOT / f"plugins/modules/{module[len(OURS) :]}.py").is_file():
        raise WrongExample(f"there is no module {module}")


def check_ansible_playbook(arguments: Sequence[str], program: str = "ansible-playbook") -> None:
    options = parse_ansible_options(program, arguments)
    for book in options.args:
        path = f"playbooks/{book[len(OURS) :]}.yml" if book.startswith(OURS) else book
        if not (ROOT / path).is_file():
            raise WrongExample(f"there is no playbook {book}")
        unknown = set(",".join(options.tags or []).split(",")) - {"", *read_site_layers()}
        if unknown and "site" in path:
            raise WrongExample(f"site.yml has no layer {', '.join(sorted(unknown))}")
    for inventory in options.inventory or []:
        # An inventory with a comma is a list of hosts and no file.
        if (
            "," not in inventory
            and Path(inventory).name != MINE
            and not (ROOT / inventory.removeprefix(CLONE).replace(*COPY)).exists()
        ):
            raise WrongExample(f"there is no inventory {inventory}")
    for text in options.extra_vars:
        if text.startswith("@"):
            if Path(text[1:]).name != MINE:
                read_source(text[1:])
        else:
            check_role_variables(json.loads(text) if text.startswith("{") else dict([text.split("=", 1)]))


def check_make_targets(arguments: Sequence[str]) -> None:
    for word in arguments:
        name = word.partition("=")[0]
        pattern = rf"^{name} \??:?=" if "=" in word else rf"^{name}:"
        if not re.search(pattern, read_source("Makefile"), re.MULTILINE):
            raise WrongExample(f"the Makefile knows no {name}")


def check_host_tool_command(arguments: Sequence[str]) -> None:
    cli = read_module("module_utils._cli")
    words = [word for word in arguments if word != "--json"]
    if words[:1] == ["bench"]:
        command_line = read_module("module_utils._bench.command_line")
        try:
            command_line._build_argument_parser().parse_args(words[1:])
        except command_line.BadRequest as error:
            raise WrongExample(f"sovereign-epyc does not take '{shlex.join(arguments)}': {error}") from None
        return
    if words[:1] == ["check"] and words[1:2] == [cli.TEXTFILE]:
        words = words[:1]
    if words[:1] == ["restore"] and len(words) == 2 and not words[1].startswith("-"):
        layers = read_module("module_utils._knobs.layers")
        try:
            layers.validate_layer_names(words[1].split(","))
        except layers.BadRequest as error:
            raise WrongExample(str(error)) from None
        return
    if list(arguments) in ([], ["--help"], ["--version"]):
        return
    if words == ["history", "--forget"]:
        words = words[:1]
    if len(words) != 1 or not re.search(rf"^  {words[0]} ", cli.USAGE, re.MULTILINE):
        raise WrongExample(f"sovereign-epyc does not take '{shlex.join(arguments)}'")


def check_vepyc_command(arguments: Sequence[str]) -> None:
    import_module("vepyc.cli")._build_parser().parse_args(arguments)


PROGRAMS: dict[str, Callable[[Sequence[str]], Any]] = {
    ".": check_sourced_file,
    "ansible": check_ansible,
    "ansible-playbook": check_ansible_playbook,
    "ansible-pull": lambda arguments: check_ansible_playbook(arguments, "ansible-pull"),
    "ansible-doc": lambda arguments: parse_ansible_options("ansible-doc", arguments),
    "ansible-galaxy": lambda arguments: parse_ansible_options("ansible-galaxy", arguments),
    "ansible-inventory": lambda arguments: parse_ansible_options("ansible-inventory", arguments),
    "make": check_make_targets,
    "sovereign-epyc": check_host_tool_command,
    "lab/bin/vepyc": check_vepyc_command,
}
