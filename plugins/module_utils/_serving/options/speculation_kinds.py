# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of speculation of an inventory. A server asks several kinds in turn until one proposes tokens."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models import draft_compatibility

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The name of each kind for the server, by its name in an inventory. llama.cpp asks the kinds in this order.
SERVER_KINDS = {
    "ngram": "ngram-simple",
    "ngram_map": "ngram-map-k",
    "ngram_mod": "ngram-mod",
    "suffix": "suffix",
    "draft": "draft",
    **{kind: kind for kind in draft_compatibility.HEAD_KINDS},
}
#: The kinds that draft with a second model, or with a head of the model. A server can use only one of these kinds.
DRAFTING_KINDS = ("draft", *draft_compatibility.HEAD_KINDS)
#: Words of an inventory that stand for several kinds, or for no kind.
ALIASES = {"none": (), "cascade": ("ngram", "draft")}
WORDS = (*SERVER_KINDS, *ALIASES)


def parse_speculation_kinds(value: object) -> tuple[str, ...]:
    """Return the kinds of speculation in a list, or in a text with commas; BadRequest for an unknown kind."""
    words = [str(word).strip() for word in (value if isinstance(value, (list, tuple)) else str(value).split(","))]
    for word in words:
        if word not in WORDS:
            raise BadRequest(f"speculation is '{word}'; say one or several of {', '.join(WORDS)}.")
    kinds = [kind for word in words for kind in ALIASES.get(word, (word,))]
    if len(set(kinds)) < len(kinds) or ("none" in words and len(words) > 1):
        raise BadRequest(f"speculation is '{','.join(words)}': say each kind once, and none only by itself.")
    drafting = [word for word in kinds if word in DRAFTING_KINDS]
    if len(drafting) > 1:
        raise BadRequest(
            f"speculation is '{','.join(words)}': a server drafts with one model. Say one of {', '.join(drafting)}."
        )
    return tuple(kinds)


def sort_speculation_kinds(kinds: Sequence[str]) -> list[str]:
    """Return kinds of speculation in the order in which llama.cpp asks them for tokens."""
    return [word for word in SERVER_KINDS if word in kinds]
