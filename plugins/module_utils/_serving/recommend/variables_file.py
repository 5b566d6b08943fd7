# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of a file of variables: YAML with a comment above each line, which says why it is so and what it costs.

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
    Rows = Sequence[Sequence["Line"]]

WIDTH = 120
#: Texts that need no quotes: words, paths and URLs, and amounts. Others are quoted, as YAML may read a number there.
PLAIN = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./,:-]*[A-Za-z0-9_./-])?\Z|[0-9]+(?:[KMG]iB|%)\Z")
#: Words that YAML reads as something else than a text.
OTHER = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")


class Line:
    """A variable or an option with its value, or with ``rows`` of a list, and the reason with the cost.

    A value is a text, a number, a truth value, or a dictionary or list of them, and stands in one line.
    """

    __slots__ = ("key", "rows", "value", "why")

    def __init__(self, key: str, value: object, why: str, rows: Rows = ()) -> None:
        self.key = key
        self.value = value
        self.why = why
        self.rows = rows

    def plain(self) -> object:
        """Return the value as plain data."""
        return [{line.key: line.plain() for line in row} for row in self.rows] if self.rows else self.value


def counted(count: int, word: str) -> str:
    """Return a number of things in words."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def page(head: Sequence[str], lines: Sequence[Line]) -> str:
    """Return the whole file; each text of ``head`` is a comment of its own at the top.

    BadRequest for a value that Ansible would run as a template when it reads the file. Of comments it reads nothing.
    """
    text = ["---", *[comment for one in head for comment in _comment(one, 0)]]
    for line in lines:
        text += ["", *_comment(line.why, 0)]
        text += [f"{line.key}:", *_listed(line.rows)] if line.rows else [f"{line.key}: {_flow(line.value)}"]
    return "\n".join(text) + "\n"


def _listed(rows: Rows) -> Iterator[str]:
    for row in rows:
        for number, line in enumerate(row):
            yield from _comment(line.why, 4 if number else 2)
            yield f"{'    ' if number else '  - '}{line.key}: {_flow(line.value)}"


def _comment(text: str, indent: int) -> Iterator[str]:
    """Yield the lines of a comment. A name in it may come from a file, and must not end the comment."""
    shown = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    for line in textwrap.wrap(shown, WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False):
        yield f"{' ' * indent}# {line}"


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    if has_template(text):
        raise BadRequest(
            f"The file of variables would hold {text!r}, in which Ansible would run the braces as a template. Nothing "
            "was written. Rename that file or folder, or name another."
        )
    if PLAIN.match(text) and text.lower() not in OTHER:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in ('"', "\\"):
        return f"\\{char}"
    return char if " " <= char <= "~" else f"\\U{ord(char):08x}"
