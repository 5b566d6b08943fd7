# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Suggestions for misspelt words."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The least similarity of two words for a suggestion, from 0 to 1.
LEAST_SIMILARITY = 0.7


def find_most_similar_word(word: str, known: Iterable[str], least_similarity: float = LEAST_SIMILARITY) -> str | None:
    """Return the most similar known word; None where no known word is similar enough."""
    # Imported here because words are rarely misspelt.
    import difflib

    return next(iter(difflib.get_close_matches(word, list(known), 1, least_similarity)), None)


def similar_or_known_words_message(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the end of an error message: the similar known word, or ``otherwise`` and all known words."""
    names = list(known)
    near = find_most_similar_word(word, names)
    return f"did you mean {near}?" if near else f"{otherwise} {', '.join(names)}."
