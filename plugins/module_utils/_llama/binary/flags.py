# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of llama.cpp's flags: what is wanted of a server, and what each era of llama.cpp calls it.

A row has one candidate for each era, the newest first; the first that fits the binary's own --help is taken. One
without words says that the server of that era did so without being asked. Read in the sources of August 2025 (with
llama-cpp-python 0.3.16), of early 2026 (0.3.17) and of builds 9093 to 11434.
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

#: A draft that matched by accident costs a batch of its length: at least so many tokens must follow. The server's own
#: 48 would throw away all drafts of fewer tokens than that, which are most of the short ones that suit a CPU.
SHORTEST_MOD = "2"

FLAGS: dict[str, tuple[Candidate, ...]] = {
    "model": (("--model", X),),
    "alias": (("--alias", X),),
    "host": (("--host", X),),
    "port": (("--port", X),),
    "context": (("--ctx-size", X),),
    "slots": (("--parallel", X),),
    "threads": (("--threads", X),),
    "threads_batch": (("--threads-batch", X),),
    # The masks for batches are the ones above only where no --threads-batch is given.
    "cpus": (("--cpu-mask", X, "--cpu-strict", "1", "--cpu-mask-batch", X, "--cpu-strict-batch", "1"),),
    "numa": (("--numa", X),),
    # Build 10108 deprecated the old flags and 10883 has them no more; in between their meaning together changed.
    "load=mmap": (("--load-mode", "mmap"), ("--mmap",), ()),
    "load=none": (("--load-mode", "none"), ("--no-mmap",)),
    "load=mlock": (("--load-mode", "mlock"), ("--no-mmap", "--mlock")),
    "repack=True": (("--repack",), ()),
    "repack=False": (("--no-repack",),),
    # Without a value until August 2025: it would take the next argument for one today.
    "flash_attention=on": (("--flash-attn", "on"), ("--flash-attn",)),
    "flash_attention=off": (("--flash-attn", "off"), ()),
    "flash_attention=auto": (("--flash-attn", "auto"),),
    "cache_type_k": (("--cache-type-k", X),),
    "cache_type_v": (("--cache-type-v", X),),
    "batch": (("--batch-size", X),),
    "ubatch": (("--ubatch-size", X),),
    "experts": (("--override-kv", X),),
    "speculation": (("--spec-type", X),),
    "draft_model": (("--spec-draft-model", X), ("--model-draft", X)),
    "draft_threads": (("--spec-draft-threads", X), ("--threads-draft", X)),
    "draft_threads_batch": (("--spec-draft-threads-batch", X), ("--threads-batch-draft", X)),
    "draft_max": (("--spec-draft-n-max", X), ("--draft-max", X)),
    "draft_min": (("--spec-draft-n-min", X), ("--draft-min", X)),
    "draft_p_min": (("--spec-draft-p-min", X), ("--draft-p-min", X)),
    # Early in 2026 all kinds shared their flags, and no draft was longer than --draft-max.
    "ngram_lookup/ngram-simple": (("--spec-ngram-simple-size-n", X), ("--spec-ngram-size-n", X)),
    "ngram_lookup/ngram-map-k": (("--spec-ngram-map-k-size-n", X), ("--spec-ngram-size-n", X)),
    "ngram_lookup/ngram-mod": (("--spec-ngram-mod-n-match", X), ("--spec-ngram-size-n", X)),
    "ngram_max/ngram-simple": (("--spec-ngram-simple-size-m", X), ("--spec-ngram-size-m", X, "--draft-max", X)),
    "ngram_max/ngram-map-k": (("--spec-ngram-map-k-size-m", X), ("--spec-ngram-size-m", X, "--draft-max", X)),
    "ngram_max/ngram-mod": (
        ("--spec-ngram-mod-n-max", X, "--spec-ngram-mod-n-min", SHORTEST_MOD),
        ("--draft-max", X, "--draft-min", SHORTEST_MOD),
    ),
    "ngram_min_hits/ngram-simple": (("--spec-ngram-simple-min-hits", X), ("--spec-ngram-min-hits", X)),
    "ngram_min_hits/ngram-map-k": (("--spec-ngram-map-k-min-hits", X), ("--spec-ngram-min-hits", X)),
    "ngram_min_hits/ngram-mod=1": ((),),
    # Only the draft goes to the other process: without --device none the model would go there too.
    "rpc": (
        ("--rpc", X, "--device", "none", "--spec-draft-device", "RPC0", "--spec-draft-ngl", "99"),
        ("--rpc", X, "--device", "none", "--device-draft", "RPC0", "--gpu-layers-draft", "99"),
    ),
    "metrics": (("--metrics",),),
    "slots_endpoint": (("--slots",), ()),
    "api_key_file": (("--api-key-file", X),),
}

#: What this collection calls the kinds of speculation, and what --spec-type calls them, where they differ.
SPEC_TYPES = {"draft": "draft-simple"}


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
    """Tell whether each flag works, takes a value where one follows and only there, and offers that value."""
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
