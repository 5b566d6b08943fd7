# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words and command lines as systemd reads them in a unit file. Source: systemd.syntax(7) and systemd.service(5)."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Words that mean the same without quotes.
PLAIN = re.compile(r"[][A-Za-z0-9_./:,=@+-]+\Z")


def quote_word(word: str, escape_variables: bool = True) -> str:
    """Return a word as systemd gives it back unchanged; ``variables`` where it would put those of a service in."""
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


def format_command_line(program: str, arguments: Iterable[str]) -> str:
    """Return a command line; systemd puts no variables into the name of the program."""
    return " ".join([quote_word(program, escape_variables=False), *map(quote_word, arguments)])
