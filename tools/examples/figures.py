# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that the figures in the output that a page shows are printed by a benchmark of the sources under that name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tools.examples.specs import ROOT, WrongExample

#: The function that prints a line "figure NAME VALUE UNIT".
PRINTER = "print_figure"
SHOWN_FIGURE = re.compile(r"^figure (\S+)", re.MULTILINE)
#: At least so many characters of a name stand in the source; a shorter pattern would fit any name.
LEAST_LITERAL = 5


def check_figures(text: str) -> None:
    """Raise WrongExample for a line "figure NAME ..." whose name no program prints."""
    for name in SHOWN_FIGURE.findall(text):
        if not any(pattern.fullmatch(name) for pattern in _patterns_of_figures()):
            raise WrongExample(f"no program prints a figure {name}")


@cache
def _patterns_of_figures() -> frozenset[re.Pattern[str]]:
    paths = [path for folder in ("tools", "lab/vepyc") for path in (ROOT / folder).rglob("*.py")]
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in paths)
    return frozenset(re.compile(pattern) for tree in trees for pattern in _patterns_of_module(tree))


def _patterns_of_module(tree: ast.Module) -> Iterator[str]:
    """Yield patterns of the names of figures; where a name is a variable, of each text that may be its value."""
    names = [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == PRINTER and node.args
    ]
    texts = [name for name in names if not isinstance(name, ast.Name)]
    if len(texts) < len(names):
        texts += [node for node in ast.walk(tree) if isinstance(node, (ast.Constant, ast.JoinedStr))]
    for text in texts:
        pattern, literal = _pattern_of_text(text)
        if re.fullmatch(r"[a-z0-9_]+", literal) and "_" in literal and len(literal) >= LEAST_LITERAL:
            yield pattern


def _pattern_of_text(node: ast.expr) -> tuple[str, str]:
    """Return a pattern in which each value of an f-string is any word, and the characters that stand in the source."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    literals = [
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else None for part in parts
    ]
    return "".join(r"\w+" if part is None else re.escape(part) for part in literals), "".join(filter(None, literals))
