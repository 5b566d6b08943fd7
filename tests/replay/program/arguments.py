# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line, taken and refused as the recorded server does: one word after another, each by its own --help."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1]
HELP, VERSION = "--help", "--version"


class Refused(Exception):
    """Something that the server does not start with, in a sentence."""


class Ended(Exception):
    """The command line asks for a text and nothing else."""


class Table:
    """The options of the recorded server; install.py writes them, with all names of each."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._options: dict[str, dict[str, Any]] = json.loads((folder / "options.json").read_text())

    def name(self, word: str) -> str:
        """Return the one name under which a flag is kept here, by any of its names; Refused where there is none."""
        flag = word.replace("_", "-") if word.startswith("--") else word
        if flag not in self._options:
            raise Refused(f"error: invalid argument: {word}")
        return str(self._options[flag]["name"])

    def read(self, words: Sequence[str]) -> dict[str, str]:
        """Return the value of each option that is given, an empty text for a switch; the last one counts."""
        found: dict[str, str] = {}
        left = list(reversed(words))
        while left:
            word, equals, value = left.pop().partition("=")
            name = self.name(word)
            if name in (HELP, VERSION):
                raise Ended((self._folder / f"{name[2:]}.txt").read_text())
            option = self._options[name]
            if option["removed"]:
                raise Refused(f'error while handling argument "{word}": the argument has been removed.')
            if option["takes_value"] and not equals:
                if not left:
                    raise Refused(f'error while handling argument "{word}": expected value for argument')
                value = left.pop()
            self._check(word, option, value)
            found[name] = value
        return found

    def _check(self, word: str, option: dict[str, Any], value: str) -> None:
        parts = value.split(",") if option["many"] else [value]
        if option["values"] and not set(parts) <= set(option["values"]):
            raise Refused(f'error while handling argument "{word}": unknown value: {value}')
