# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders a file of variables: YAML with a comment above each variable that states its reason and its cost.

Source: YAML 1.1, which Ansible reads.
"""

from __future__ import annotations

import re
import textwrap

from ..._errors import BadRequest
from ..._notation.templates import has_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    #: The rows of a list below its key.
    Rows = Sequence[Sequence["Variable"]]

WIDTH = 120
#: Texts that need no quotes in YAML: words, paths, URLs and amounts. YAML might read another text as a number.
UNQUOTED = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./,:-]*[A-Za-z0-9_./-])?\Z|[0-9]+(?:[KMG]iB|%)\Z")
#: Words that YAML reads as a truth value or as null.
NOT_TEXT = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")


class Variable:
    """A variable or an option with its reason and cost, and with either a value or the ``rows`` of a list.

    A value is a text, a number, a truth value, or a dictionary or list of such values. It is written in one line.
    """

    __slots__ = ("key", "reason", "rows", "value")

    def __init__(self, key: str, value: object, reason: str, rows: Rows = ()) -> None:
        self.key = key
        self.value = value
        self.reason = reason
        self.rows = rows

    def value_or_rows(self) -> object:
        """Return the value, or the rows as a list of dictionaries."""
        return [{line.key: line.value_or_rows() for line in row} for row in self.rows] if self.rows else self.value


def format_count_with_noun(count: int, word: str) -> str:
    """Return a number with a noun in singular or plural, such as "2 nodes"."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def render_variables_file(head: Sequence[str], lines: Sequence[Variable]) -> str:
    """Return the text of the file; each text of ``head`` becomes a comment at the top.

    BadRequest for a value that Ansible would run as a template when it loads the file.
    """
    text = ["---", *[line for paragraph in head for line in _render_comment(paragraph, 0)]]
    for line in lines:
        text += ["", *_render_comment(line.reason, 0)]
        text += (
            [f"{line.key}:", *_render_rows(line.rows)] if line.rows else [f"{line.key}: {_format_value(line.value)}"]
        )
    return "\n".join(text) + "\n"


def _render_rows(rows: Rows) -> Iterator[str]:
    for row in rows:
        for number, line in enumerate(row):
            yield from _render_comment(line.reason, 4 if number else 2)
            yield f"{'    ' if number else '  - '}{line.key}: {_format_value(line.value)}"


def _render_comment(text: str, indent: int) -> Iterator[str]:
    """Yield the lines of a comment without control characters, because a file name in the text must not end it."""
    shown = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    for line in textwrap.wrap(shown, WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False):
        yield f"{' ' * indent}# {line}"


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_format_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _format_text(str(value))


def _format_text(text: str) -> str:
    if has_template(text):
        raise BadRequest(
            f"The file of variables would hold {text!r}, in which Ansible would run the braces as a template. Nothing "
            "was written. Rename that file or folder, or name another."
        )
    if UNQUOTED.match(text) and text.lower() not in NOT_TEXT:
        return text
    return f'"{"".join(map(_escape_character, text))}"'


def _escape_character(char: str) -> str:
    if char in ('"', "\\"):
        return f"\\{char}"
    return char if " " <= char <= "~" else f"\\U{ord(char):08x}"
