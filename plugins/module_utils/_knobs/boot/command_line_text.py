# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Command lines inside text files: the file /etc/kernel/cmdline, and the options of a boot entry of type 1.

Each kind of file has a function that splits a row into what stands before the command line, and the command line; None
for a row without one. Source: 90-loaderentry.install of systemd for comments and for several rows of the file; the Boot
Loader Specification for entries, in which the key options may occur several times.
"""

from __future__ import annotations

from ..._notation import cmdline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Optional

    #: Takes the number of a row and the row.
    RowSplitter = Callable[[int, str], Optional[tuple[str, str]]]

OPTIONS = "options"


def split_cmdline_row(number: int, row: str) -> tuple[str, str] | None:
    """Split a row of /etc/kernel/cmdline as kernel-install reads it: all rows count, but for comments."""
    return None if row.lstrip().startswith("#") else ("", row)


def split_first_cmdline_row(number: int, row: str) -> tuple[str, str] | None:
    """Split a row of /etc/kernel/cmdline as proxmox-boot-tool reads it: only the first row counts."""
    return None if number else ("", row)


def split_entry_row(number: int, row: str) -> tuple[str, str] | None:
    """Split a row of a boot entry of type 1."""
    key, dummy, rest = row.strip().replace("\t", " ").partition(" ")
    if key != OPTIONS:
        return None
    start = len(row) - len(row.lstrip()) + len(key)
    line = row[start:].lstrip()
    return row[: len(row) - len(line)] or f"{key} ", line if rest else ""


def read_parameters(text: str, split_row: RowSplitter) -> list[str]:
    """Return the parameters of all command lines of a text."""
    parts = [split_row(number, row) for number, row in enumerate(text.splitlines())]
    return [word for part in parts if part for word in cmdline.split_kernel_command_line(part[1])]


def read_settings(text: str, split_row: RowSplitter) -> dict[str, str]:
    """Return the settings of all command lines of a text: canonical name -> text."""
    return cmdline.parameters_to_settings(read_parameters(text, split_row))


def replace_settings(text: str, wanted: Mapping[str, str | None], split_row: RowSplitter, new_row: str = "") -> str:
    """Return a text whose command lines have the wanted settings (None removes one) and all others as they were.

    New parameters go to the end of the last command line; a text without any gets one that begins with ``new_row``.
    """
    present = read_settings(text, split_row)
    changed = {
        name: value for name, value in wanted.items() if present.get(cmdline.canonical_parameter_name(name)) != value
    }
    if not changed:
        return text
    names = {cmdline.canonical_parameter_name(name) for name in changed}
    new = [
        word
        for name, value in changed.items()
        if value is not None
        for word in cmdline.setting_to_parameters(name, value)
    ]
    rows = text.splitlines()
    if not any(split_row(number, row) for number, row in enumerate(rows)):
        rows.append(new_row)
    last = max(number for number, row in enumerate(rows) if split_row(number, row))
    return "".join(
        f"{_replace_in_row(row, split_row(number, row), names, new if number == last else [])}\n"
        for number, row in enumerate(rows)
    )


def _replace_in_row(row: str, part: tuple[str, str] | None, names: set[str], new: list[str]) -> str:
    if part is None:
        return row
    words = cmdline.split_kernel_command_line(part[1])
    kept = [
        word
        for word in words
        if cmdline.setting_name_of_parameter(cmdline.split_kernel_parameter(word)[0]) not in names
    ]
    return row if kept == words and not new else part[0] + " ".join([*kept, *new])
