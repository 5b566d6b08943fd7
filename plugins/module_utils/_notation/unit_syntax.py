# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words and command lines in the syntax of systemd's unit files. Source: systemd.syntax(7) and systemd.service(5)."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Words that mean the same without quotes.
PLAIN = re.compile(r"[][A-Za-z0-9_./:,=@+-]+\Z")


def quote_unit_word(word: str, escape_variables: bool = True) -> str:
    """Return a word quoted for a unit file; ``escape_variables`` where systemd expands $VARIABLES of the service."""
    if PLAIN.match(word):
        return word
    text = ""
    for char in word:
        if char in '\\"':
            text += f"\\{char}"
        elif ord(char) < 32 or ord(char) == 127:
            text += f"\\x{ord(char):02x}"
        elif char == "%" or (char == "$" and escape_variables):
            text += char * 2
        else:
            text += char
    return f'"{text}"'


def format_unit_command_line(program: str, arguments: Iterable[str]) -> str:
    """Return a program and its arguments as a command line; systemd expands no variables in the program's name."""
    return " ".join([quote_unit_word(program, escape_variables=False), *map(quote_unit_word, arguments)])
