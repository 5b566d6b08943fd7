# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the arguments that say a want to a binary, in the table of its engine.

A row of a table has one candidate for each era of the engine, the newest first; the first that fits the binary's own
--help is taken. One without words says that the server of that era did so without being asked.
"""

from __future__ import annotations

from ..._errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .capabilities import Capabilities

    Candidate = tuple[str, ...]
    Table = Mapping[str, Sequence[Candidate]]

#: Where the value goes.
X = "{}"

#: How tokens are chosen: all eras of both engines say it in the same way.
CHOOSING: dict[str, tuple[Candidate, ...]] = {
    "temperature": (("--temp", X),),
    "top_k": (("--top-k", X),),
    "top_p": (("--top-p", X),),
    "min_p": (("--min-p", X),),
    "repeat_penalty": (("--repeat-penalty", X),),
    "presence_penalty": (("--presence-penalty", X),),
    "frequency_penalty": (("--frequency-penalty", X),),
    "max_tokens": (("--predict", X),),
}

#: A draft that matched by accident costs a batch of its length: at least so many tokens must follow. The server's own
#: 48 would throw away all drafts of fewer tokens than that, which are most of the short ones that suit a CPU.
SHORTEST_MOD = "2"


def spelled(want: str, value: object, table: Table, capabilities: Capabilities) -> list[str]:
    """Return the arguments that say a want to this binary; BadRequest when no candidate of the table fits it.

    A row that depends on the value is called ``want=value``.
    """
    text = str(value)
    row = table.get(f"{want}={text}", table.get(want))
    if row is None:
        offered = [name.partition("=")[2] for name in table if name.startswith(f"{want}=")]
        hint = f"say {' or '.join(offered)}" if offered else "leave it out"
        raise BadRequest(f"No build of {capabilities.engine} is known to have {_named(want)} {text}; {hint}.")
    for candidate in row:
        words = [word.replace(X, text) for word in candidate]
        if _fits(words, capabilities):
            return words
    tried = list(dict.fromkeys(word for candidate in row for word in candidate if word.startswith("--")))
    offers = [f"{flag} offers {', '.join(capabilities.values(flag))}" for flag in tried if capabilities.values(flag)]
    raise BadRequest(
        f"{capabilities.name} cannot have {_named(want)} {text}: tried {', '.join(tried)}, and its --help has no such "
        f"flag that works{''.join(f'; {offer}' for offer in offers)}. Leave it out, or take another build."
    )


def _named(want: str) -> str:
    name, dummy, kind = want.partition("/")
    return f"{name} of {kind}" if kind else name


def _fits(words: Sequence[str], capabilities: Capabilities) -> bool:
    """Return whether each flag works, takes a value where one follows and only there, and offers that value."""
    for number, word in enumerate(words):
        if not word.startswith("--"):
            continue
        value = words[number + 1] if number + 1 < len(words) and not words[number + 1].startswith("--") else None
        if not capabilities.works(word) or capabilities.takes_value(word) != (value is not None):
            return False
        offered = capabilities.values(word)
        if value is not None and offered:
            asked = value.split(",") if capabilities.takes_many(word) else [value]
            if not set(asked) <= set(offered):
                return False
    return True
