# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The prompts of a measurement: the built-in prompts by kind, or the prompts of a user's file.

A user's file has the single-turn format of AIPerf: one JSON object per line, with ``text`` or ``texts``, and optionally
``output_length``, the number of tokens to generate. Beside these a line may have a ``kind``, under which the results of
its prompt are shown. Empty lines are skipped. Fields that only AIPerf supports, such as images or a schedule, are
refused, because AIPerf would measure other requests then.

Source: docs/tutorials/custom-dataset.md of AIPerf 0.13.
"""

from __future__ import annotations

import hashlib
import json

from ..._errors import BadRequest
from ..._io.foreign_json import parse_json
from ..._io.safe_open import open_file
from .built_in_prompts import PROMPT_TEXTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, NoReturn

#: Default number of tokens to generate; rates of much shorter answers would be mostly noise.
DEFAULT_TOKENS = 96
#: The kind of prompts from a user's file that name no kind, and the largest number of characters of a kind.
USER_KIND = "user"
LONGEST_KIND = 40
#: Fields of AIPerf that have no effect on requests of a single turn.
IGNORED_FIELDS = ("role", "session_id")
LARGEST_FILE = 64 << 20


class Prompt:
    """A prompt: its kind, the text that the model continues, and the number of tokens to generate.

    ``context`` are token ids before the text. With ``reuses_prefix`` the server may take the beginning of the prompt
    from its prefix cache; without it a cached token is an error.
    """

    def __init__(
        self,
        kind: str,
        text: str,
        tokens: int = DEFAULT_TOKENS,
        context: Sequence[int] = (),
        reuses_prefix: bool = False,
    ) -> None:
        self.kind = kind
        self.text = text
        self.tokens = tokens
        self.context = context
        self.reuses_prefix = reuses_prefix

    @property
    def digest(self) -> str:
        """The first twelve hexadecimal digits of the SHA-256 of the text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def built_in_prompts(output_length: int = DEFAULT_TOKENS) -> dict[str, list[Prompt]]:
    """Return the built-in prompts by kind, each with this number of tokens for its answer."""
    return {kind: [Prompt(kind, text, output_length) for text in texts] for kind, texts in PROMPT_TEXTS.items()}


def read_prompt_file(path: str, default_output_length: int = DEFAULT_TOKENS) -> list[Prompt]:
    """Return the prompts of a user's file; ``default_output_length`` is in tokens.

    BadRequest, with the number of the line, for a line in another format.
    """
    try:
        with open(open_file(path), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadRequest(f"The prompts {path} cannot be read: {error.strerror}.") from None
    if len(data) > LARGEST_FILE:
        raise BadRequest(f"The prompts {path} are larger than {LARGEST_FILE >> 20} MiB: take a part of them.")
    lines = enumerate(data.split(b"\n"), 1)
    prompts = [
        _parse_prompt_line(f"{path}, line {number}", line, default_output_length)
        for number, line in lines
        if line.strip()
    ]
    if not prompts:
        raise BadRequest(f'The prompts {path} are empty: write a line such as {{"text": "Once upon a time"}} for each.')
    return prompts


def digest_prompts(prompts: Iterable[Prompt]) -> str:
    """Return the SHA-256, in hexadecimal digits, of kinds, texts and token counts of prompts."""
    rows = [[prompt.kind, prompt.text, prompt.tokens] for prompt in prompts]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _parse_prompt_line(place: str, line: bytes, default_output_length: int) -> Prompt:
    try:
        row = parse_json(line.decode())
    except UnicodeDecodeError:
        _refuse_prompt_line(place, "it is not UTF-8; save the file as UTF-8")
    except ValueError as error:
        _refuse_prompt_line(place, f"it is not JSON ({error}); each line is one whole object")
    if not isinstance(row, dict):
        _refuse_prompt_line(place, 'it is no JSON object; write {"text": "..."}')
    kind = _parse_kind(place, row)
    return Prompt(kind, _parse_prompt_text(place, row), _parse_output_length(place, row, default_output_length))


def _parse_kind(place: str, row: dict[str, Any]) -> str:
    kind = row.get("kind")
    if kind is None:
        return USER_KIND
    is_name = isinstance(kind, str) and kind.isascii() and kind.isprintable() and kind == kind.strip()
    if not is_name or not 0 < len(kind) <= LONGEST_KIND:
        _refuse_prompt_line(place, f"its kind is {kind!r}; give a name of at most {LONGEST_KIND} plain characters")
    return str(kind)


def _parse_prompt_text(place: str, row: dict[str, Any]) -> str:
    given = {name: value for name, value in row.items() if value is not None}
    if given.pop("type", "single_turn") != "single_turn":
        _refuse_prompt_line(place, f"its type is {row['type']!r}; only single_turn can be asked")
    for name in ("output_length", "kind", *IGNORED_FIELDS):
        given.pop(name, None)
    texts = given.pop("texts", None)
    text = given.pop("text", None)
    if given:
        _refuse_prompt_line(
            place, f"'{sorted(given)[0]}' cannot be asked here; leave only text or texts, output_length and kind"
        )
    if text and texts:
        _refuse_prompt_line(place, "it has both text and texts; keep one")
    if texts and (not isinstance(texts, list) or len(texts) != 1):
        _refuse_prompt_line(place, "its texts are not one text in a list; write each on a line of its own")
    text = text or (texts[0] if texts else None)
    if not text or not isinstance(text, str):
        _refuse_prompt_line(place, "it has no text, which must be a string that is not empty")
    return str(text)


def _parse_output_length(place: str, row: dict[str, Any], default: int) -> int:
    length = row.get("output_length")
    if length is None:
        return default
    # An answer of one token has no time per token, and True is an int in Python.
    if not isinstance(length, int) or isinstance(length, bool) or length < 2:
        _refuse_prompt_line(place, f"its output_length is {length!r}; give a whole number of tokens, at least 2")
    return int(length)


def _refuse_prompt_line(place: str, reason: str) -> NoReturn:
    raise BadRequest(f"{place}: {reason}.")
