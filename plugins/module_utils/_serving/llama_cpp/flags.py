# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the arguments that pass a parameter to a server binary, from the flag table of the binary's engine.

The names of flags changed over time. A row of a table has a candidate for each age of the engine, the newest first, and
the first candidate that the binary's --help lists is taken. An empty candidate stands for a server that behaves as
requested without a flag.
"""

from __future__ import annotations

from ..._errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .capabilities import Capabilities

    Candidate = tuple[str, ...]
    Table = Mapping[str, Sequence[Candidate]]

#: The place of the value in a candidate.
VALUE = "{}"

#: The rows that are the same in the flag tables of both engines.
COMMON_FLAGS: dict[str, tuple[Candidate, ...]] = {
    "model": (("--model", VALUE),),
    "host": (("--host", VALUE),),
    "port": (("--port", VALUE),),
    "context": (("--ctx-size", VALUE),),
    "slots": (("--parallel", VALUE),),
    "task=embedding": (("--embedding",),),
    "pooling": (("--pooling", VALUE),),
    # The flag of task rerank says so, too.
    "pooling=rank": ((),),
    "projector": (("--mmproj", VALUE),),
    "chat_template": (("--jinja", "--chat-template-file", VALUE),),
    # A build without these flags stores no earlier prompts and no checkpoints, so no argument is needed.
    "prompt_cache": (("--cache-ram", VALUE), ()),
    "checkpoints": (("--ctx-checkpoints", VALUE), ()),
    "threads": (("--threads", VALUE),),
    "threads_batch": (("--threads-batch", VALUE),),
    "numa": (("--numa", VALUE),),
    "flash_attention=auto": (("--flash-attn", "auto"),),
    "cache_type_k": (("--cache-type-k", VALUE),),
    "cache_type_v": (("--cache-type-v", VALUE),),
    "batch": (("--batch-size", VALUE),),
    "ubatch": (("--ubatch-size", VALUE),),
    "speculation": (("--spec-type", VALUE),),
    "metrics": (("--metrics",),),
    "api_key_file": (("--api-key-file", VALUE),),
    "temperature": (("--temp", VALUE),),
    "top_k": (("--top-k", VALUE),),
    "top_p": (("--top-p", VALUE),),
    "min_p": (("--min-p", VALUE),),
    "repeat_penalty": (("--repeat-penalty", VALUE),),
    "presence_penalty": (("--presence-penalty", VALUE),),
    "frequency_penalty": (("--frequency-penalty", VALUE),),
    "max_tokens": (("--predict", VALUE),),
    "ngram_min_hits/ngram-mod=1": ((),),
}

#: The least number of tokens in a draft of ngram-mod, because each chance match costs a batch. The server's default of
#: 48 would discard the short drafts that suit a CPU.
SHORTEST_NGRAM_MOD_DRAFT = "2"

#: The flags of drafts and n-grams until early 2026; ik_llama.cpp still has these flags. All kinds of n-gram speculation
#: shared their flags, and --draft-max limited every draft. --device none keeps the model out of the RPC process.
EARLY_FLAGS: dict[str, Candidate] = {
    "draft_model": ("--model-draft", VALUE),
    "draft_threads": ("--threads-draft", VALUE),
    "draft_threads_batch": ("--threads-batch-draft", VALUE),
    "draft_max": ("--draft-max", VALUE),
    "draft_min": ("--draft-min", VALUE),
    "draft_p_min": ("--draft-p-min", VALUE),
    "draft_cache_type_k": ("--cache-type-k-draft", VALUE),
    "draft_cache_type_v": ("--cache-type-v-draft", VALUE),
    **{f"ngram_lookup/{kind}": ("--spec-ngram-size-n", VALUE) for kind in ("ngram-simple", "ngram-map-k", "ngram-mod")},
    "ngram_max/ngram-simple": ("--spec-ngram-size-m", VALUE, "--draft-max", VALUE),
    "ngram_max/ngram-map-k": ("--spec-ngram-size-m", VALUE, "--draft-max", VALUE),
    "ngram_max/ngram-mod": ("--draft-max", VALUE, "--draft-min", SHORTEST_NGRAM_MOD_DRAFT),
    **{f"ngram_min_hits/{kind}": ("--spec-ngram-min-hits", VALUE) for kind in ("ngram-simple", "ngram-map-k")},
    "rpc": ("--rpc", VALUE, "--device", "none", "--device-draft", "RPC0", "--gpu-layers-draft", "99"),
}


def choose_accepted_arguments(parameter: str, value: object, table: Table, capabilities: Capabilities) -> list[str]:
    """Return the arguments that pass a parameter to this binary; BadRequest when the binary accepts no candidate.

    A row of the table that is for one value only has the name ``parameter=value``.
    """
    text = str(value)
    row = table.get(f"{parameter}={text}", table.get(parameter))
    if row is None:
        offered = [name.partition("=")[2] for name in table if name.startswith(f"{parameter}=")]
        hint = f"say {' or '.join(offered)}" if offered else "leave it out"
        raise BadRequest(
            f"No build of {capabilities.engine} is known to have {_format_parameter(parameter)} {text}; {hint}."
        )
    for candidate in row:
        words = [word.replace(VALUE, text) for word in candidate]
        if _accepts_flags_and_values(words, capabilities):
            return words
    tried = list(dict.fromkeys(word for candidate in row for word in candidate if word.startswith("--")))
    offers = [
        f"{flag} offers {', '.join(capabilities.offered_values(flag))}"
        for flag in tried
        if capabilities.offered_values(flag)
    ]
    raise BadRequest(
        f"{capabilities.title} cannot have {_format_parameter(parameter)} {text}: tried {', '.join(tried)}, and its "
        f"--help has no such flag that works{''.join(f'; {offer}' for offer in offers)}. Leave it out, or take "
        "another build."
    )


def _format_parameter(parameter: str) -> str:
    name, dummy, kind = parameter.partition("/")
    return f"{name} of {kind}" if kind else name


def _accepts_flags_and_values(words: Sequence[str], capabilities: Capabilities) -> bool:
    """Return whether the binary has each of these flags, and each flag takes the value, if any, that follows."""
    for number, word in enumerate(words):
        if not word.startswith("--"):
            continue
        value = words[number + 1] if number + 1 < len(words) and not words[number + 1].startswith("--") else None
        if not capabilities.has_flag(word) or capabilities.takes_value(word) != (value is not None):
            return False
        offered = capabilities.offered_values(word)
        if value is not None and offered:
            passed = value.split(",") if capabilities.takes_list(word) else [value]
            if not set(passed) <= set(offered):
                return False
    return True
