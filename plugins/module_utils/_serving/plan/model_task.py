# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a model fits the task of an instance, and the sizes of batches that the task needs.

llama-server starts with any model for any task. Without pooling it answers each request to /v1/embeddings with an
error, and without a ranking head its scores are one number of a vector, which says nothing. Source: build_pooling() in
src/llama-graph.cpp, and update_slots() in tools/server/server-context.cpp, of llama.cpp, build 11434.
"""

from __future__ import annotations

from ..._models.known_architectures import ARCHITECTURES_WITHOUT_CACHE
from ..._notation.sizes import UNITS, format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._models.model import Model
    from ..options.options import Options
    from .instance_plan import MemoryNeed

#: Values of ARCHITECTURE.pooling_type in a model file: no pooling, and scores instead of vectors.
NO_POOLING, RANK_POOLING = 0, 4
#: The tensors of a head that turns the vector of a text into its score.
RANKING_HEAD = ("cls.weight", "cls.output.weight")
#: Larger compute buffers of a server that makes no text are worth a remark.
LARGE_BUFFER_BYTES = UNITS["GiB"]


def task_refusal_reason(options: Options, model: Model) -> str:
    """Return why a model cannot do the task of an instance; "" where it can."""
    if options.generates_text and model.architecture in ARCHITECTURES_WITHOUT_CACHE:
        return (
            f"task completion: {model.path} is of the kind {model.architecture}, which continues no text. Say 'task: "
            "embedding' or 'task: rerank', as it was made for."
        )
    if options.task == "rerank" and not any(tensor.name in RANKING_HEAD for tensor in model.tensors):
        return (
            f"task rerank: {model.path} has no head for scores (no tensor {' or '.join(RANKING_HEAD)}), so that its "
            "scores would mean nothing. Take a model that was made for ranking, in a file that a converter of "
            "llama.cpp made; with any other model compare the vectors of task embedding."
        )
    if options.task != "embedding" or options.pooling:
        return ""
    if model.pooling_type == RANK_POOLING:
        return (
            f"task embedding: {model.path} was made for ranking, and gives scores in place of vectors. Say 'task: "
            "rerank', or take a model of embeddings."
        )
    if model.pooling_type in (None, NO_POOLING):
        return (
            f"task embedding: {model.path} does not state how the vectors of its tokens become one vector, so that the "
            "server would answer each request to /v1/embeddings with an error. Add the line 'pooling: last' for a "
            "generating model that was trained for embeddings, or 'pooling: mean' or 'pooling: cls' for an encoder, "
            "as the page of the model says."
        )
    return ""


def choose_batch_sizes(options: Options, model: Model) -> tuple[int | None, int | None]:
    """Return the logical and the physical size of a batch in tokens; None for the default of the server.

    A server that makes no text refuses a text that is longer than a physical batch, so that the batches are as long as
    the longest text: the context of a slot, or the context for which the model was trained.
    """
    if options.generates_text:
        return options.batch, options.ubatch
    longest = options.context // options.slots
    trained = None if options.models else model.header_number_of_architecture("context_length")
    longest = max(1, min(longest, trained or longest, options.batch or longest))
    ubatch = options.ubatch or longest
    return options.batch or ubatch, ubatch


def batch_remarks(options: Options, models: Sequence[Model], need: MemoryNeed) -> list[str]:
    """Return remarks on the batches of a server that makes no text: on large buffers, and on texts that are refused."""
    if options.generates_text:
        return []
    ubatch = choose_batch_sizes(options, models[0])[1]
    if options.ubatch is None and options.batch is None and need.compute > LARGE_BUFFER_BYTES:
        return [
            f"task {options.task}: a text is computed in one batch of up to {ubatch} tokens, whose buffers take "
            f"{format_bytes_short(need.compute)}. Where texts are shorter, say a smaller context, or ubatch."
        ]
    if ubatch and ubatch < options.context // options.slots and (options.ubatch or options.batch):
        return [f"task {options.task}: the server refuses texts of more than {ubatch} tokens, the size of a batch."]
    return []
