# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chat templates that a server cannot parse, by the pairs of marks and of statements in them.

A server reads the template of its model at its start and ends where the template does not parse. Only what no parser of
Jinja accepts is found here: a mark that is not closed, and a block that is not ended, or ended by another word.
Source: https://jinja.palletsprojects.com/en/stable/templates/
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The marks at which a template has something else than text, with the marks that close them.
MARKS = {"{%": "%}", "{{": "}}", "{#": "#}"}
OPEN_MARK = re.compile(r"\{[%{#]")
#: A string, the end of a statement or an expression, or a brace within it.
WITHIN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[-+]?%\}|[-+]?\}\}|[{}'"]""", re.DOTALL)
WORD = re.compile(r"[-+]?\s*(\w+)")
#: Statements that end with "end" and their name, and statements between their begin and end.
BLOCKS = ("if", "for", "macro", "call", "filter", "block", "generation")
#: A part in which marks are text.
RAW, END_OF_RAW = "raw", re.compile(r"\{%[-+]?\s*endraw")
BETWEEN = {"else": ("if", "for"), "elif": ("if",)}


def chat_template_faults(template: str) -> Iterator[str]:
    """Yield what keeps a chat template from being parsed; nothing where it may be a valid template."""
    blocks: list[str] = []
    at = 0
    while True:
        match = OPEN_MARK.search(template, at)
        if match is None:
            break
        mark = match.group()
        end = (
            template.find("#}", match.end())
            if mark == "{#"
            else _find_closing_delimiter(template, match.end(), MARKS[mark])
        )
        if end < 0:
            yield f"its mark {mark} at character {match.start()} is not closed"
            return
        if mark == "{%":
            found = WORD.match(template, match.end())
            word = found.group(1) if found else ""
            fault = _update_open_blocks_and_find_fault(blocks, word, template[match.end() : end])
            if fault:
                yield f"{fault} at character {match.start()}"
                return
            raw_end = END_OF_RAW.search(template, end) if word == RAW else None
            end = raw_end.start() - 2 if raw_end else end
        at = end + 2
    if blocks:
        yield f"its {{% {blocks[-1]} %}} is not ended"


def _find_closing_delimiter(template: str, at: int, close: str) -> int:
    """Return where a statement or an expression is closed, outside of strings and braces; -1 where it is not."""
    depth = 0
    while True:
        match = WITHIN.search(template, at)
        if match is None or match.group() in ("'", '"'):
            return -1
        text = match.group()
        at = match.end()
        if text.endswith(close) and not (close == "}}" and depth):
            return match.end() - 2
        if text == "{":
            depth += 1
        elif text == "}" or text.endswith("}}"):
            # Of two braces that close a dictionary, the second may belong to the mark that follows.
            at = match.end() - (1 if text.endswith("}}") else 0)
            depth = max(0, depth - 1)


def _update_open_blocks_and_find_fault(blocks: list[str], word: str, statement: str) -> str:
    """Begin or end a block, and return the fault of the statement; empty for a fitting statement."""
    if word in BLOCKS or (word == "set" and "=" not in statement):
        blocks.append(word)
    elif word.startswith("end") and word[3:] in (*BLOCKS, "set"):
        if not blocks or blocks.pop() != word[3:]:
            return f"its {{% {word} %}} ends no {{% {word[3:]} %}}"
    elif word in BETWEEN and (not blocks or blocks[-1] not in BETWEEN[word]):
        return f"its {{% {word} %}} is in no {{% {BETWEEN[word][0]} %}}"
    return ""
