# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a server is asked in a measurement: the collection's own prompts by kind, and those of a user's file.

A user's file has the shape that AIPerf calls single turn: one JSON object a line, with ``text`` or ``texts``, and
perhaps ``output_length``, the tokens to generate. Empty lines are passed over. What AIPerf would send differently, such
as images or a schedule, is refused, because the two would not measure the same.
Source: docs/tutorials/custom-dataset.md of AIPerf 0.13.
"""

from __future__ import annotations

import hashlib
import json

from ..._errors import BadRequest
from ..._io.safe_open import open_file
from .built_in_prompts import TEXTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

#: Tokens of an answer: fewer than the default make a rate of little more than noise.
TOKENS = 96
#: The kind of what comes from a user's file.
USER = "user"
#: Fields that say nothing about what is sent when each line is a request of its own.
UNUSED = ("role", "session_id")
LARGEST_FILE = 64 << 20


class Prompt:
    """A text to go on with, its kind, and how many tokens the answer has to have."""

    __slots__ = ("kind", "text", "tokens")

    def __init__(self, kind: str, text: str, tokens: int = TOKENS) -> None:
        self.kind = kind
        self.text = text
        self.tokens = tokens


def ours(tokens: int = TOKENS) -> dict[str, list[Prompt]]:
    """Return the collection's prompts by kind, each with an answer of this many tokens."""
    return {kind: [Prompt(kind, text, tokens) for text in texts] for kind, texts in TEXTS.items()}


def read(path: str, tokens: int = TOKENS) -> list[Prompt]:
    """Return the prompts of a user's file; a line that does not say how many tokens it wants gets ``tokens``.

    BadRequest, with the number of the line, for what is not in the shape.
    """
    try:
        with open(open_file(path), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadRequest(f"The prompts {path} cannot be read: {error.strerror}.") from None
    if len(data) > LARGEST_FILE:
        raise BadRequest(f"The prompts {path} are larger than {LARGEST_FILE >> 20} MiB: take a part of them.")
    lines = enumerate(data.split(b"\n"), 1)
    found = [_prompt(f"{path}, line {number}", line, tokens) for number, line in lines if line.strip()]
    if not found:
        raise BadRequest(f'The prompts {path} are empty: write a line such as {{"text": "Once upon a time"}} for each.')
    return found


def render(prompts: Iterable[Prompt]) -> str:
    """Return prompts as a file that ``read`` and AIPerf take, so that a user can ask the same from elsewhere."""
    rows = [{"text": prompt.text, "output_length": prompt.tokens} for prompt in prompts]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def digest(prompts: Iterable[Prompt]) -> str:
    """Return the SHA-256 of kinds, texts and tokens in their order, in hexadecimal digits."""
    rows = [[prompt.kind, prompt.text, prompt.tokens] for prompt in prompts]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _prompt(where: str, line: bytes, tokens: int) -> Prompt:
    try:
        row = json.loads(line.decode())
    except UnicodeDecodeError:
        _refuse(where, "it is not UTF-8; save the file as UTF-8")
    except ValueError as error:
        _refuse(where, f"it is not JSON ({error}); each line is one whole object")
    if not isinstance(row, dict):
        _refuse(where, 'it is no JSON object; write {"text": "..."}')
    return Prompt(USER, _text(where, row), _tokens(where, row, tokens))


def _text(where: str, row: dict[str, Any]) -> str:
    given = {name: value for name, value in row.items() if value is not None}
    if given.pop("type", "single_turn") != "single_turn":
        _refuse(where, f"its type is {row['type']!r}; only single_turn can be asked")
    for name in ("output_length", *UNUSED):
        given.pop(name, None)
    texts = given.pop("texts", None)
    text = given.pop("text", None)
    if given:
        _refuse(where, f"'{sorted(given)[0]}' cannot be asked here; leave only text or texts, and output_length")
    if text and texts:
        _refuse(where, "it has both text and texts; keep one")
    if texts and (not isinstance(texts, list) or len(texts) != 1):
        _refuse(where, "its texts are not one text in a list; write each on a line of its own")
    found = text or (texts[0] if texts else None)
    if not found or not isinstance(found, str):
        _refuse(where, "it has no text, which must be a string that is not empty")
    return str(found)


def _tokens(where: str, row: dict[str, Any], default: int) -> int:
    length = row.get("output_length")
    if length is None:
        return default
    # One token has no time per token, and true counts as 1 in Python.
    if not isinstance(length, int) or isinstance(length, bool) or length < 2:
        _refuse(where, f"its output_length is {length!r}; say a whole number of tokens, at least 2")
    return int(length)


def _refuse(where: str, why: str) -> NoReturn:
    raise BadRequest(f"{where}: {why}.")
