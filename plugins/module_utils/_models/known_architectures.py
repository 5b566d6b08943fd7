# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The architectures of which it is known what their layers store; that of any other one is only a guess.

Source: create_memory() in src/llama-model.cpp and load_arch_hparams() in src/models of llama.cpp, build 11434.
tests/gates/test_architectures.py compares the tables with that source.
"""

from __future__ import annotations

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
#: By architecture: the length of a group of layers in which one layer sees all tokens (0: no layer does), whether this
#: is the first layer of the group or the last, and the sliding window of the other layers in tokens where the file
#: states none. The file may also state which layers have a window.
WINDOWS = {
    "afmoe": (4, False, 0),
    "cohere2": (4, False, 0),
    "cohere2moe": (4, True, 0),
    "deepseek4": (0, False, 0),
    "dots3note": (1, False, 0),
    "exaone-moe": (4, False, 128),
    "exaone4": (4, False, 4096),
    "gemma2": (2, False, 4096),
    "gemma3": (6, False, 0),
    "gemma3n": (5, False, 0),
    "gemma4": (1, False, 0),
    "gpt-oss": (2, False, 0),
    "granite_swa": (1, False, 0),
    "laguna": (4, True, 0),
    "lfm2": (0, False, 0),
    "llama4": (4, False, 8192),
    "maple": (1, False, 0),
    "mellum": (4, False, 0),
    "mimo2": (1, False, 0),
    "muse-glimmer": (4, False, 0),
    "olmo2": (4, False, 0),
    "plamo3": (8, False, 0),
    "smallthinker": (4, True, 0),
    "spark2_5": (1, False, 0),
    "step35": (1, False, 0),
}
#: Sliding windows in tokens that the server itself sets, unless the file states a window of 0.
FIXED_WINDOWS = {"llama4": 8192, "smallthinker": 4096}
#: Architectures whose models have windows only with this number of layers.
WINDOWED_LAYERS = {"exaone4": 64}
#: The number of first layers that have a cache of their own. Each later layer reads the cache of one of these layers.
LAYERS_WITH_OWN_CACHE = {"gemma3n": 20}
#: The length of a group of layers in which one layer stores tokens; the other layers of the group keep a state.
INTERVALS = {"minimax-01": 8, "qwen35": 4, "qwen35moe": 4, "qwen3next": 4, "qwen4exp": 4}
#: Architectures whose layers without key heads keep a state.
STATE_WITHOUT_KEY_HEADS = (
    *("bailingmoe3", "glm5-next", "granitehybrid", "jamba", "kimi-k3", "kimi-linear", "lfm2", "lfm2moe", "nemotron_h"),
    *("nemotron_h_moe", "plamo2"),
)
#: Architectures in which each layer both keeps a state and stores tokens.
STATE_AND_TOKENS = ("falcon-h1",)
STATES_ONLY = ("arwkv7", "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7")
#: Architectures that read a whole text at once and store no tokens.
ARCHITECTURES_WITHOUT_CACHE = (
    *("bert", "clef", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada", "llada-moe"),
    *("modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1", "wavtokenizer-dec"),
)
#: Architectures in which a layer has a window, and beside it one row of keys for each block of tokens. The header
#: states the lengths of blocks by layer.
BLOCK_ARCHITECTURES = ("deepseek4",)
#: How many rows of the indexer's width a layer stores of each token, where the indexer compares pools of keys.
INDEXER_ROWS = {"glm5-next": 3, "qwen4exp": 2}
#: Architectures in which not every layer has an indexer, and whose layers are else of the plain kind.
INDEXER_ARCHITECTURES = ("hy_v4", "minimax-m3")
#: Architectures with compressed keys (MLA), which ik_llama.cpp stores compressed in any file; llama.cpp stores the keys
#: and values of each head for a file that describes heads. Source: is_mla_model() in src/llama-model.h of ik_llama.cpp.
MLA_ARCHITECTURES = ("bailingmoe3", "deepseek2", "glm-dsa", "mistral4")
#: All architectures whose layers store something else than the keys and values of every token.
SPECIAL_ARCHITECTURES = (
    *WINDOWS,
    *INTERVALS,
    *STATE_WITHOUT_KEY_HEADS,
    *STATE_AND_TOKENS,
    *STATES_ONLY,
    *ARCHITECTURES_WITHOUT_CACHE,
    *INDEXER_ARCHITECTURES,
    *MLA_ARCHITECTURES,
)
#: Architectures of the same build of which nobody has read what their layers store: heads that draft for another model,
#: models of sound and pictures, encoders with decoders, and models that pass their layers several times.
UNREAD_ARCHITECTURES = (
    *("clip", "dflash", "eagle3", "gemma4-assistant", "graniteswitch", "nanbeige", "pockettts", "qwen3tts", "t5"),
    "t5encoder",
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
