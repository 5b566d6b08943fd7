# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts that ik_llama.cpp looks suffixes up in from its start on. It tells only its log of those that it cannot take.

A file whose name ends in .json has texts, any other one numbers of tokens, each in 4 bytes.
Source: common_suffix_tree::load_corpus() in common/suffix-tree.cpp of ik_llama.cpp (8337e4c, August 2026).
"""

from __future__ import annotations

import json
import os

from ..._errors import BadRequest
from ..._io.safe_open import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The most tokens that it takes: 2^28 steps, of which each token needs 64.
MOST = (1 << 28) // 64


def validate_corpus(path: str) -> None:
    """Raise BadRequest for a file that such a server would leave out."""
    size = os.stat(path).st_size
    if path.endswith(".json"):
        try:
            with open(open_file(path), encoding="utf-8") as file:
                found = any(_find_texts(json.load(file)))
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"suffix_corpus: {path} is no JSON ({error}).") from None
        if not found:
            raise BadRequest(
                f"suffix_corpus: {path} has no text. It is a list of texts, or of objects with content or messages."
            )
    elif size % 4:
        raise BadRequest(
            f"suffix_corpus: {path} has {size} bytes, and a token has 4. Texts are in a file whose name ends in .json."
        )
    elif size // 4 > MOST:
        raise BadRequest(f"suffix_corpus: {path} has {size // 4} tokens, and {MOST} is the most. Make it shorter.")


def _find_texts(node: object) -> Iterator[str]:
    """Yield the texts as that server finds them."""
    if isinstance(node, str):
        if node:
            yield node
    elif isinstance(node, list):
        for one in node:
            yield from _find_texts(one)
    elif isinstance(node, dict):
        content = node.get("content")
        if isinstance(content, str):
            yield from _find_texts(content)
        else:
            yield from _find_texts(node.get("messages"))
