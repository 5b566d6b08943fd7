# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A procedure: its steps as data, their run on a stage, and the text of both for a page.

A step is a command with a sentence before it. Of its output the page has the lines that match a pattern of ``show``; a
pattern that matches no line is an error, so that a changed output is noticed when the page is made anew.
"""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

import yaml

#: The inventory in the commands of the page. A stage has its own in place of it.
INVENTORY = "inventories/mine"
#: Marks of the generated part of a procedure in the page.
BEGIN, END = "<!-- `make day-two` writes {} from here -->", "<!-- to here: {} -->"
#: Columns of a line of output.
COLUMNS = 112
#: Stands for lines of output that the page does not show.
OMITTED = "[...]"
#: Seconds between two runs of a command that is awaited.
PAUSE = 3


class RecordingError(Exception):
    """A step did not do what the page says of it."""


class Stage(Protocol):
    """Hosts on which procedures run, and their inventory."""

    def run(self, command: str, host: str) -> tuple[int, str]:
        """Run a command on a host as root, or on the controller for an empty host; return exit code and output."""

    def write_inventory_file(self, path: str, text: str) -> None:
        """Write a file of the inventory; ``path`` begins at the folder of the inventory."""


@dataclass(frozen=True)
class Step:
    """A command with its sentence; or a file of the inventory with its new content; or a sentence alone."""

    text: str = ""
    run: str = ""
    #: The host on which the command runs; empty for the controller.
    host: str = ""
    file: str = ""
    content: str = ""
    #: Patterns of the lines of output that the page shows; all lines without a pattern.
    show: Sequence[str] = ()
    #: The most lines of output that the page shows.
    most: int = 30
    #: The exit code that the command must have.
    code: int = 0
    #: Seconds for which the command is repeated until each pattern of ``show`` matches a line.
    wait: float = 0
    #: Whether the page leaves out the step, or only the command of it.
    hidden: bool = False
    command_hidden: bool = False


@dataclass(frozen=True)
class Procedure:
    name: str
    stage: str
    steps: Sequence[Step]


def read_procedures(path: Path) -> dict[str, Procedure]:
    """Return the procedures of a YAML file, by name."""
    known = {field.name for field in fields(Step)}
    procedures = {}
    for name, entry in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        for step in entry["steps"]:
            if unknown := step.keys() - known:
                raise RecordingError(f"{path.name}: {name} has a step with unknown keys: {', '.join(sorted(unknown))}")
        procedures[name] = Procedure(name, entry["stage"], [Step(**step) for step in entry["steps"]])
    return procedures


def run_procedure(procedure: Procedure, stage: Stage) -> list[str]:
    """Run each step on a stage; return the output of each, empty for a step without a command."""
    outputs = []
    for step in procedure.steps:
        if step.file:
            stage.write_inventory_file(step.file, step.content)
        outputs.append(run_step(step, stage) if step.run else "")
    return outputs


def run_step(step: Step, stage: Stage) -> str:
    """Run the command of a step, until it shows what it should or its time is over; return its output."""
    print(f"  {step.host or 'controller'}: {step.run}", flush=True)
    end = time.monotonic() + step.wait
    while True:
        code, output = stage.run(step.run, step.host)
        problem = "" if code == step.code else f"has the exit code {code} instead of {step.code}"
        problem = problem or missing_pattern_message(step, output)
        if not problem:
            return output
        if time.monotonic() > end:
            raise RecordingError(f"'{step.run}' {problem}. Its output:\n{output}")
        time.sleep(PAUSE)


def missing_pattern_message(step: Step, output: str) -> str:
    """Return which pattern of a step matches no line of its output; an empty text if each matches one."""
    lines = output.splitlines()
    missing = [pattern for pattern in step.show if not any(re.search(pattern, line) for line in lines)]
    return f"has no line like {missing[0]!r}" if missing else ""


def trim_output(step: Step, output: str) -> str:
    """Return the lines of an output that the page shows, with a mark where lines between them are left out."""
    shown: list[str] = []
    for line in output.strip("\n").splitlines():
        if not step.show or any(re.search(pattern, line) for pattern in step.show):
            shown += textwrap.wrap(line.rstrip(), COLUMNS, subsequent_indent=" " * 4) or [""]
        elif shown and shown[-1] != OMITTED:
            shown.append(OMITTED)
    while shown and shown[-1] in ("", OMITTED):
        shown.pop()
    return "\n".join([*shown[: step.most], OMITTED] if len(shown) > step.most else shown)


def render_procedure(procedure: Procedure, outputs: Sequence[str]) -> str:
    """Return the steps of a procedure as Markdown, with their commands and outputs."""
    parts = []
    for step, output in zip(procedure.steps, outputs, strict=True):
        if step.hidden:
            continue
        if step.text:
            parts.append(fill_text(step.text))
        if step.file:
            parts.append(f"```yaml\n# {INVENTORY}/{step.file}\n{step.content.strip()}\n```")
        if step.run and not step.command_hidden:
            parts.append(f"```bash\n{step.run.strip()}\n```")
        if step.run and (shown := trim_output(step, output)):
            parts.append(f"```text\n{shown}\n```")
    return "\n\n".join(parts)


def fill_text(text: str) -> str:
    """Return a sentence in lines of the width of the pages; the lines of a numbered step stand below its first word."""
    indent = "   " if re.match(r"\d\. ", text) else ""
    words = " ".join(text.split())
    return textwrap.fill(words, 119, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def find_page(docs: Path, name: str) -> Path:
    """Return the one page that has the generated part of a procedure."""
    pages = [page for page in sorted(docs.glob("*.md")) if BEGIN.format(name) in page.read_text(encoding="utf-8")]
    if len(pages) != 1:
        raise RecordingError(
            f"{len(pages)} pages in {docs.name} have the line '{BEGIN.format(name)}'; one must have it"
        )
    return pages[0]


def replace_generated_part(page: str, name: str, text: str) -> str:
    """Return a page with the generated part of a procedure replaced."""
    begin, end = BEGIN.format(name), END.format(name)
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(end) < page.index(begin):
        raise RecordingError(f"the page needs one line '{begin}', and one line '{end}' below it")
    head, dummy, rest = page.partition(begin)
    return f"{head}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


def list_missing_parts(docs: Path, procedures: Iterable[Procedure]) -> list[str]:
    """Return the sentences, commands and files of procedures that their page lacks, each with its procedure."""
    missing = []
    for procedure in procedures:
        page = find_page(docs, procedure.name).read_text(encoding="utf-8")
        part = page.partition(BEGIN.format(procedure.name))[2].partition(END.format(procedure.name))[0]
        for step in procedure.steps:
            shown = [] if step.hidden else [fill_text(step.text), step.content, "" if step.command_hidden else step.run]
            missing += [f"{procedure.name}: {text.strip()!r}" for text in shown if text.strip() not in part]
    return missing
