# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of architectures and tensor types against the sources of the engines that the lab pins.

`make caches` has fetched the archives; where they are missing, these tests fetch them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import known_architectures as known
from ansible_collections.sovereign.epyc.plugins.module_utils._models import token_cost
from ansible_collections.sovereign.epyc.plugins.module_utils._models.tensor_types import (
    FILE_TYPE_NAMES,
    IK_TYPES,
    LAST_KNOWN_NUMBER,
    LLAMA_TYPES,
    TENSOR_TYPES,
)
from vepyc.llama import llama_cpp

from . import engine_source
from .engine_source import Source

#: The architectures with a memory of their own kind: their layout is counted in token_cost.py, or they are unread.
SPECIAL_MEMORIES = {"deepseek32", "deepseek4", "dflash", "dots3note", "glm-dsa", "glm5-next", "hy_v4", "minimax-m3"}
#: Names that llama.cpp no longer has or never had, and files have.
ONLY_IN_FILES: set[str] = set()


@pytest.fixture(scope="module")
def llama() -> Source:
    """The source of llama.cpp of the build that the lab compiles."""
    archive, dummy = llama_cpp.build_request()
    return engine_source.read_source(archive)


@pytest.fixture(scope="module")
def ik() -> Source:
    """The source of ik_llama.cpp that the lab compiles."""
    archive, dummy = llama_cpp.build_ik_request()
    return engine_source.read_source(archive)


def compare_names(source: Source) -> None:
    names = set(engine_source.parse_names(source).values())
    tables = {*known.PLAIN_ARCHITECTURES, *known.SPECIAL_ARCHITECTURES, *known.UNREAD_ARCHITECTURES}
    assert names - tables == set() and tables - names == ONLY_IN_FILES
    cached = names - set(known.ARCHITECTURES_WITHOUT_CACHE)
    assert engine_source.parse_special_memories(source) == SPECIAL_MEMORIES <= cached


def compare_states(source: Source) -> None:
    functions = engine_source.parse_header_functions(source)
    arch = "src/llama-arch.cpp"
    recurrent = engine_source.parse_switch(source, arch, "bool llm_arch_is_recurrent(", "default:")
    hybrid = engine_source.parse_switch(source, arch, "bool llm_arch_is_hybrid(", "default:")
    assert recurrent == set(known.STATES_ONLY)
    assert hybrid == {
        *known.INTERVALS,
        *known.STATE_WITHOUT_KEY_HEADS,
        *known.STATE_AND_TOKENS,
        *known.BLOCK_ARCHITECTURES,
    }
    numbers = {name: engine_source.parse_number(body, "full_attn_interval") for name, body in functions.items()}
    assert {name: number for name, number in numbers.items() if number and name in hybrid} == known.INTERVALS
    headless = {name for name, body in functions.items() if "n_head_kv(i) == 0" in body or "n_head_kv(il) == 0" in body}
    assert headless == set(known.STATE_WITHOUT_KEY_HEADS)
    no_memory = engine_source.parse_switch(
        source, "src/llama-model.cpp", "llama_memory_i * llama_model::create_memory", "res = nullptr;"
    )
    assert no_memory == set(known.ARCHITECTURES_WITHOUT_CACHE)


def compare_windows(source: Source) -> None:
    found, functions = {}, engine_source.parse_header_functions(source)
    for name, body in functions.items():
        window = engine_source.parse_window(body)
        if window and name not in (*known.ARCHITECTURES_WITHOUT_CACHE, *known.UNREAD_ARCHITECTURES):
            found[name] = window
    assert {name: window[:3] for name, window in found.items()} == known.WINDOWS
    assert {name: window[3] for name, window in found.items() if window[3]} == known.FIXED_WINDOWS
    counted = {name: re.search(r"if \(hparams.n_layer\(\) == (\d+)\)", functions[name]) for name in found}
    assert {name: int(number[1]) for name, number in counted.items() if number} == known.WINDOWED_LAYERS
    own = {name: engine_source.parse_number(body, "n_layer_kv_from_start") for name, body in functions.items()}
    assert {name: number for name, number in own.items() if number} == known.LAYERS_WITH_OWN_CACHE


def compare_indexers(source: Source) -> None:
    types = engine_source.parse_indexers_of_glm(source)
    assert len(types) == 78 and [layer < 2 or layer % 4 == 2 for layer in range(78)] == list(map(bool, types))
    assert f"n_ctx_train < {token_cost.GLM_WITH_SHARED_INDEXERS}" in source["src/models/glm-dsa.cpp"]
    default = engine_source.parse_number(source["src/llama-hparams.h"], "indexer_kpool_row")
    pooled = {name for name, text in source.items() if "indexer_kpool " in text and "/models/" in name}
    assert pooled == {"src/models/glm5-next.cpp", "src/models/qwen4exp.cpp"}
    rows = engine_source.parse_number(source["src/models/qwen4exp.cpp"], "hparams.indexer_kpool_row")
    assert {"glm5-next": default, "qwen4exp": rows} == known.INDEXER_ROWS
    blocks = source["src/llama-kv-cache-dsv4.cpp"]
    assert engine_source.parse_number(blocks, "DSV4_CSA_RATIO") == token_cost.INDEXED_BLOCK


def compare_types(source: Source) -> None:
    numbers, blocks = engine_source.parse_type_numbers(source), engine_source.parse_blocks(source)
    assert {number: (name, *blocks[name]) for number, name in numbers.items()} == TENSOR_TYPES
    assert max(numbers) == LAST_KNOWN_NUMBER
    assert engine_source.parse_file_types(source) == FILE_TYPE_NAMES


def compare_ik_types(source: Source) -> None:
    numbers = engine_source.parse_type_numbers(source)
    only_ik = {number: name for number, name in numbers.items() if number not in TENSOR_TYPES}
    assert only_ik.items() <= IK_TYPES.items() and len(only_ik) > 50
    missing = {name for number, (name, *dummy) in TENSOR_TYPES.items() if number not in numbers}
    assert set(LLAMA_TYPES) <= missing


COMPARISONS = (compare_names, compare_states, compare_windows, compare_indexers, compare_types)


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda compare: compare.__name__)
def test_the_tables_are_those_of_llama_cpp(llama: Source, compare: Callable[[Source], None]) -> None:
    compare(llama)


def test_the_types_are_those_of_ik_llama_cpp(ik: Source) -> None:
    compare_ik_types(ik)


#: Differences that a new llama.cpp might bring: the comparison that finds each, a file, a text in it, and its change.
CHANGES: list[tuple[Any, str, str, str]] = [
    (compare_names, "src/llama-arch.cpp", '"deepseek4" ', '"deepseek5" '),
    (compare_names, "src/llama-model.cpp", "case LLM_ARCH_MINIMAX_M3:\n            {", "case LLM_ARCH_QWEN3:\n {"),
    (
        compare_states,
        "src/llama-arch.cpp",
        "case LLM_ARCH_RWKV7:\n        case LLM_ARCH_ARWKV7:\n            return",
        "x",
    ),
    (compare_states, "src/models/qwen35.cpp", "full_attn_interval = 4;", "full_attn_interval = 6;"),
    (compare_states, "src/models/jamba.cpp", "n_head_kv(i) == 0", "n_head_kv(i) == 1"),
    (compare_windows, "src/models/gemma3.cpp", "load_swa_pattern(ml, 6)", "load_swa_pattern(ml, 4)"),
    (compare_windows, "src/models/laguna.cpp", "/*dense_first=*/true", "/*dense_first=*/false"),
    (compare_windows, "src/models/smallthinker.cpp", "n_swa       = 4096", "n_swa       = 8192"),
    (compare_windows, "src/models/exaone4.cpp", "hparams.n_layer() == 64", "hparams.n_layer() == 48"),
    (compare_windows, "src/models/phi3.cpp", "LLAMA_SWA_TYPE_NONE", "LLAMA_SWA_TYPE_STANDARD"),
    (compare_indexers, "src/models/glm-dsa.cpp", "    1, 0, 0, 0,\n", "    1, 1, 0, 0,\n"),
    (compare_types, "ggml/include/ggml.h", "GGML_TYPE_Q2_0    = 42", "GGML_TYPE_Q2_0    = 43"),
    (compare_types, "ggml/src/ggml-common.h", "#define QK2_0 64", "#define QK2_0 128"),
    (compare_types, "include/llama.h", "LLAMA_FTYPE_MOSTLY_Q2_0 ", "LLAMA_FTYPE_MOSTLY_Q2_1 "),
]


@pytest.mark.parametrize(("compare", "path", "text", "change"), CHANGES, ids=[change[3] for change in CHANGES])
def test_a_planted_difference_is_found(
    llama: Source, compare: Callable[[Source], None], path: str, text: str, change: str
) -> None:
    assert text in llama[path]
    with pytest.raises((AssertionError, KeyError, ValueError)):
        compare({**llama, path: llama[path].replace(text, change, 1)})
