# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What guesses tokens before they are verified: one kind, or several that are asked in turn until one guesses."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models import draft_compatibility

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: By the word of an inventory, the kind as it is wanted of a server. llama.cpp asks them in this order.
SERVER_KINDS = {
    "ngram": "ngram-simple",
    "ngram_map": "ngram-map-k",
    "ngram_mod": "ngram-mod",
    "suffix": "suffix",
    "draft": "draft",
    **{kind: kind for kind in draft_compatibility.KINDS},
}
#: Those that draft with a model, or with a head of the model: a server has room for one.
DRAFTING_KINDS = ("draft", *draft_compatibility.KINDS)
#: Words that stand for others.
ALIASES = {"none": (), "cascade": ("ngram", "draft")}
WORDS = (*SERVER_KINDS, *ALIASES)


def parse_speculation(value: object) -> tuple[str, ...]:
    """Return the words of KINDS that a list, or a text with commas, stands for; BadRequest for anything else."""
    words = [str(word).strip() for word in (value if isinstance(value, (list, tuple)) else str(value).split(","))]
    for word in words:
        if word not in WORDS:
            raise BadRequest(f"speculation is '{word}'; say one or several of {', '.join(WORDS)}.")
    found = [one for word in words for one in ALIASES.get(word, (word,))]
    if len(set(found)) < len(found) or ("none" in words and len(words) > 1):
        raise BadRequest(f"speculation is '{','.join(words)}': say each kind once, and none only by itself.")
    drafting = [word for word in found if word in DRAFTING_KINDS]
    if len(drafting) > 1:
        raise BadRequest(
            f"speculation is '{','.join(words)}': a server drafts with one model. Say one of {', '.join(drafting)}."
        )
    return tuple(found)


def sort_kinds(words: Sequence[str]) -> list[str]:
    """Return the words in the order in which llama.cpp asks."""
    return [word for word in SERVER_KINDS if word in words]
