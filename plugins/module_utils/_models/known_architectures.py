# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The architectures of which it is known what their layers store; that of any other one is only a guess.

Source: create_memory() in src/llama-model.cpp and load_arch_hparams() in src/models of llama.cpp, build 11434.
"""

from __future__ import annotations

from . import token_cost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Model

#: Architectures in which each layer stores keys and values of every token, or the compressed keys that the header
#: describes. Newer ones are missing here until somebody has read how they store tokens.
PLAIN_ARCHITECTURES = (
    *("apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom", "chameleon"),
    *("chatglm", "codeshell", "cogvlm", "command-r", "dbrx", "deci", "deepseek", "deepseek2-ocr", "deepseek32"),
    *("dots1", "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4", "glm4moe", "gpt2", "gptj"),
    *("gptneox", "granite", "granitemoe", "grok", "grovemoe", "hrm_text", "hunyuan-dense", "hunyuan-moe"),
    *("hunyuan_vl", "hy_v3", "internlm2", "jais", "jais2", "llama", "llama-embed", "maincoder", "minicpm"),
    *("minicpm3", "minimax-m2", "mistral3", "mpt", "nemotron", "olmo", "olmoe", "openelm", "orion"),
    *("paddleocr", "pangu-embedded", "phi2", "phi3", "phimoe", "plamo", "plm", "qwen", "qwen2", "qwen2moe"),
    *("qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "refact", "seed_oss", "smollm3", "stablelm"),
    *("starcoder", "starcoder2", "talkie", "xverse"),
)
#: The tables with the architectures whose layers store something else.
SPECIAL_ARCHITECTURES = (
    *token_cost.WINDOWS,
    *token_cost.INTERVALS,
    *token_cost.STATE_WITHOUT_KEY_HEADS,
    *token_cost.STATE_AND_TOKENS,
    *token_cost.STATES_ONLY,
    *token_cost.ARCHITECTURES_WITHOUT_CACHE,
    *token_cost.MLA_ARCHITECTURES,
)


def is_known_name(architecture: str) -> bool:
    """Return whether it is known what the layers of an architecture store, which is given by its name."""
    return architecture in PLAIN_ARCHITECTURES or architecture in SPECIAL_ARCHITECTURES


def is_known_architecture(model: Model) -> bool:
    """Return whether it is known what the layers of a model store, so that the size of its KV cache is right."""
    return is_known_name(model.architecture)


def unknown_architecture_remark(model: Model) -> str:
    """Return a sentence on a model of an unknown architecture, an empty text for a known one."""
    return unknown_name_remark(model.architecture)


def unknown_name_remark(architecture: str) -> str:
    """Return the sentence on an unknown architecture, which is given by its name; an empty text for a known one."""
    if is_known_name(architecture):
        return ""
    return (
        f"The architecture {architecture} is not known here. Its KV cache counts as if each layer stored and read "
        "every token, and may be far smaller."
    )
