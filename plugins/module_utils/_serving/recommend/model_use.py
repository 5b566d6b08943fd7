# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a model is used for, and which slots, contexts, prompt cache and speculation suit that use.

Sources: a coding agent sends 10,000 to 30,000 tokens with its first request, and the whole conversation with each
further one, so that a short context refuses it and a lost prompt costs minutes on CPUs. Requests that are decoded
together share each reading of the weights, so that slots cost little but memory.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CHAT, CODING, BATCH, RETRIEVAL = "chat", "coding", "batch", "retrieval"
#: The slots of an instance are at most one for this many cores, because each request in progress needs computing.
CORES_PER_SLOT = 2


class ModelUse:
    """A use of a model. ``levels`` are pairs of slots and of tokens for each slot, the best first.

    ``speculation`` is the kind of speculation, and ``prompt_cache`` the size of the prompt cache where the use needs a
    certain one. The texts say why slots and contexts, the speculation and the prompt cache are as they are.
    """

    __slots__ = (
        *("levels", "name", "prompt_cache", "prompt_cache_reason", "slots_reason", "speculation"),
        "speculation_reason",
    )

    def __init__(
        self,
        name: str,
        levels: Sequence[tuple[int, int]],
        slots_reason: str,
        speculation: str,
        speculation_reason: str,
        prompt_cache_reason: str,
        prompt_cache: str | None = None,
    ) -> None:
        self.name = name
        self.levels = list(levels)
        self.slots_reason = slots_reason
        self.speculation = speculation
        self.speculation_reason = speculation_reason
        self.prompt_cache_reason = prompt_cache_reason
        self.prompt_cache = prompt_cache

    def levels_for_model(
        self, trained: int | None, slots: int | None, context: int | None, most_slots: int
    ) -> list[tuple[int, int]]:
        """Return the pairs of slots and tokens of each slot to try, the best first.

        ``trained`` is the context that the model was trained for, ``slots`` and ``context`` are requested numbers, the
        context of all slots together. ``most_slots`` limits the slots that the use chooses.
        """
        usual = min(self.levels[0][0], most_slots)
        if context is not None:
            return [(slots or usual, context // (slots or usual))]
        pairs = [(slots or min(number, most_slots), min(tokens, trained or tokens)) for number, tokens in self.levels]
        return list(dict.fromkeys(pairs))


NGRAM_REASON = "Tokens are looked up in the text so far, which costs next to nothing where it finds none."
USES = {
    use.name: use
    for use in (
        ModelUse(
            CHAT,
            [(4, 32768), (4, 16384), (4, 8192), (2, 8192), (1, 8192), (1, 4096)],
            "some people at a time, each with a conversation of usual length",
            "ngram",
            NGRAM_REASON,
            "Conversations that wait for their next turn, which is not read from its beginning then.",
        ),
        ModelUse(
            CODING,
            [
                *((2, 262144), (2, 131072), (1, 131072), (2, 65536), (1, 65536), (2, 32768), (1, 32768)),
                *((1, 16384), (1, 8192), (1, 4096)),
            ],
            "few agents at a time, whose first request has 10,000 to 30,000 tokens and whose sessions are long",
            "ngram",
            "Tokens are looked up in the text so far, because edits repeat most of a file. Costs next to nothing where "
            "it finds none.",
            "Sessions that wait for their next step, which would be read anew for minutes.",
        ),
        ModelUse(
            BATCH,
            [(16, 8192), (16, 4096), (8, 4096), (4, 4096), (2, 4096), (1, 4096)],
            "many short requests at a time, which share each reading of the weights",
            "none",
            "Many requests at a time keep the cores computing, so that wrong guesses would cost. Costs nothing.",
            "None, because no request of a batch continues another one. Costs nothing.",
            "0MiB",
        ),
        ModelUse(
            RETRIEVAL,
            [(4, 8192), (4, 4096), (4, 2048), (4, 512), (1, 512)],
            "texts of documents and questions, each of which is computed in one batch",
            "none",
            "No token is guessed. Costs nothing.",
            "",
        ),
    )
}
