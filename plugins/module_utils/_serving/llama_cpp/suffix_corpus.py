# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the file of the option suffix_corpus: texts in which ik_llama.cpp looks up suffixes from its start on.

A server that cannot use the file only writes a line to its log. A file whose name ends in .json has texts; any other
file has the numbers of tokens, in 4 bytes each.
Source: common_suffix_tree::load_corpus() in common/suffix-tree.cpp of ik_llama.cpp (8337e4c, August 2026).
"""

from __future__ import annotations

import os

from ..._errors import BadRequest
from ..._io.foreign_json import parse_json
from ..._io.safe_open import open_file

#: The most tokens that the server reads from a file. It has room for 2^28 steps, and each token needs 64.
MOST_TOKENS = (1 << 28) // 64


def validate_suffix_corpus(path: str) -> None:
    """Raise BadRequest for a file that a server would ignore."""
    size = os.stat(path).st_size
    if path.endswith(".json"):
        try:
            with open(open_file(path), encoding="utf-8") as file:
                has_text = _has_corpus_text(parse_json(file.read()))
        except ValueError as error:
            raise BadRequest(f"suffix_corpus: {path} is no JSON ({error}).") from None
        if not has_text:
            raise BadRequest(
                f"suffix_corpus: {path} has no text. It is a list of texts, or of objects with content or messages."
            )
    elif size % 4:
        raise BadRequest(
            f"suffix_corpus: {path} has {size} bytes, and a token has 4. Texts are in a file whose name ends in .json."
        )
    elif size // 4 > MOST_TOKENS:
        raise BadRequest(
            f"suffix_corpus: {path} has {size // 4} tokens, and {MOST_TOKENS} is the most. Make it shorter."
        )


def _has_corpus_text(corpus: object) -> bool:
    """Return whether a corpus has a text that is not empty, whatever its number of levels."""
    nodes = [corpus]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            content = node.get("content")
            node = content if isinstance(content, str) else node.get("messages")
        if isinstance(node, str) and node:
            return True
        if isinstance(node, list):
            nodes += node
    return False
