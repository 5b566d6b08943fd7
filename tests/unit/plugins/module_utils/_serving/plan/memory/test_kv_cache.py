# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a server keeps of a context, against the figures of a real one.

tests/service/test_llama_refusals.py asks the real one again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.memory_traffic import compute_step_traffic
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.kv_cache import (
    CacheSettings,
    KvCache,
    compute_kv_cache_size,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures, ggufs

MIB = 1 << 20
#: MiB of the caches for tokens and for states, as build 11434 says them, by model and by what it was told: context,
#: slots, tokens of a batch, the type of keys and values, and whether it has flash attention.
FIGURES = {
    ("dense", 8192, 1, 512, "f16", True): 256.0,
    ("dense", 5000, 3, 512, "f16", True): 168.0,
    ("dense", 100000, 2, 2048, "q8_0", True): 1666.0,
    ("gqa", 8192, 1, 512, "f16", True): 32.0,
    ("gqa", 131072, 8, 512, "f16", True): 512.0,
    ("gqa", 300, 1, 512, "f16", True): 2.0,
    ("swa", 8192, 1, 512, "f16", True): 68.0,
    ("swa", 8192, 1, 64, "f16", False): 62.0,
    ("swa", 5000, 3, 512, "f16", True): 129.0,
    ("swa", 100000, 2, 2048, "q8_0", True): 284.75,
    ("swa", 131072, 8, 512, "f16", True): 800.0,
    ("swa", 300, 1, 512, "f16", True): 14.0,
    ("mla", 8192, 1, 512, "f16", True): 18.0,
    ("mla", 100000, 2, 2048, "q8_0", True): 117.14,
    ("hybrid", 8192, 1, 512, "f16", True): 41.35,
    ("hybrid", 5000, 3, 512, "f16", True): 49.05,
    ("hybrid", 131072, 8, 512, "f16", True): 586.81,
    ("moe", 8192, 1, 512, "f16", True): 32.0,
    ("moe", 100000, 2, 2048, "q8_0", True): 208.25,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, gguf_model.Model]:
    return architectures.write_and_read(tmp_path_factory.mktemp("models"), architectures.NUMBERS)


@pytest.mark.parametrize("told", FIGURES, ids=str)
def test_the_figures_of_a_real_server(models: dict[str, gguf_model.Model], told: tuple[Any, ...]) -> None:
    name, context, slots, batch, kind, flash = told
    cache = compute_kv_cache_size(models[name], CacheSettings(context, slots, batch, (kind, kind), flat=not flash))
    assert cache is not None
    assert cache.bytes / MIB == pytest.approx(FIGURES[told], abs=0.02)


@pytest.mark.parametrize(
    ("name", "batch", "size"),
    [("gqa", 512, 0), ("mla", 512, 0), ("swa", 512, 36.0), ("swa", 64, 30.0), ("hybrid", 512, 9.352)],
)
def test_a_copy_to_which_a_slot_can_go_back(
    models: dict[str, gguf_model.Model], name: str, batch: int, size: float
) -> None:
    """The server said 9.352 MiB of a hybrid, and of windows that were not full in proportion to their tokens."""
    cache = compute_kv_cache_size(models[name], CacheSettings(8192, 4, batch, ("f16", "f16")))
    assert cache is not None and cache.checkpoint / MIB == pytest.approx(size, abs=0.001)
    assert cache.recurrent == (name == "hybrid")


def test_servers_that_keep_more(models: dict[str, gguf_model.Model]) -> None:
    """Earlier builds kept values beside compressed keys, and ik_llama.cpp keeps every token for every layer."""
    old = CacheSettings(8192, 1, 512, ("f16", "f16"), windows=False, compressed=False)
    found = {name: compute_kv_cache_size(models[name], old) for name in ("swa", "mla")}
    assert {name: cache and (cache.bytes / MIB, cache.checkpoint) for name, cache in found.items()} == {
        "swa": (224.0, 0),
        "mla": (34.0, 0),
    }


# Headers without a real server


def cache(
    path: Path, architecture: str, context: int = 8192, lists: dict[str, list[int]] | None = None, **numbers: int
) -> KvCache | None:
    """The cache of a model of 12 layers with heads of 64 numbers, 2 of keys, unless the numbers say otherwise."""
    shape = {"block_count": 12, "embedding_length": 512, "attention.head_count": 8, "attention.head_count_kv": 2}
    told = {key: value for key, value in {**shape, **numbers}.items() if key not in (lists or {})}
    more = [ggufs.entry(f"{architecture}.{key}", "AI", values) for key, values in (lists or {}).items()]
    path.write_bytes(ggufs.gguf(ggufs.model(None, architecture, more, **told)))
    return compute_kv_cache_size(gguf_model.read_model(str(path)), CacheSettings(context, 1, 512, ("f16", "f16")))


@pytest.mark.parametrize(
    ("mla", "flat", "types", "numbers"),
    [
        (0, False, ("f16", "f16"), 2 * 128 * (192 + 128)),
        (1, False, ("f16", "f16"), 2 * 576),
        (2, False, ("f16", "f16"), 2 * 576),
        (2, True, ("f16", "f32"), 4 * 576),
        (3, False, ("q8_0", "f16"), 34 / 32 * 576),
        (3, True, ("f32", "f16"), 2 * 576),
        (1, True, ("f16", "f16"), 2 * (576 + 512)),
    ],
)
def test_a_server_that_compresses_keys_itself(
    tmp_path: Path, mla: int, flat: bool, types: tuple[str, str], numbers: float
) -> None:
    """ik_llama.cpp stores 576 numbers of a token for all heads; at 32k tokens that is 2.14 GiB and not 152.5."""
    path = tmp_path / "m.gguf"
    path.write_bytes(ggufs.gguf(ggufs.model(None, "deepseek2", **architectures.HEADS_OF_MLA)))
    sizes = CacheSettings(32768, 1, 512, types, flat=flat, mla=mla)
    found = compute_kv_cache_size(gguf_model.read_model(str(path)), sizes)
    assert found is not None and found.bytes == 61 * 32768 * numbers


#: What a layer keeps of a token, two heads of keys and of values, and of 8192 tokens.
TOKEN = 2 * 2 * 64 * 2
LAYER = 8192 * TOKEN
WINDOW = {"attention.sliding_window": 1024}
#: 1024 tokens, and a batch.
NARROW = 1536 * TOKEN


@pytest.mark.parametrize(
    ("architecture", "numbers", "whole"),
    [
        ("llama", WINDOW, 12),
        ("gemma3", WINDOW, 2),
        ("gemma3", {"attention.sliding_window": 0}, 12),
        ("gemma3", {}, 12),
        ("gpt-oss", WINDOW, 6),
        ("cohere2", WINDOW, 3),
        ("smallthinker", {"attention.sliding_window": 0}, 12),
        ("laguna", WINDOW, 3),
        ("exaone4", WINDOW, 12),
        ("phi3", WINDOW, 12),
        ("gemma3", {**WINDOW, "attention.sliding_window_pattern": 3}, 4),
        ("mimo2", WINDOW, 12),
    ],
)
def test_which_layers_see_a_window(tmp_path: Path, architecture: str, numbers: dict[str, int], whole: int) -> None:
    found = cache(tmp_path / "m.gguf", architecture, **numbers)
    assert found and found.bytes == whole * LAYER + (12 - whole) * NARROW


def test_which_layers_see_a_window_may_stand_in_the_file(tmp_path: Path) -> None:
    lists = {"attention.sliding_window_pattern": [1] * 11 + [0]}
    found = cache(tmp_path / "m.gguf", "gemma4", lists=lists, **WINDOW)
    assert found and found.bytes == LAYER + 11 * NARROW
    # Its last layers read what others keep, and heads of windows have a width of their own.
    other = {"attention.shared_kv_layers": 4, "attention.key_length_swa": 32, "attention.value_length_swa": 32}
    found = cache(tmp_path / "m.gguf", "gemma4", lists=lists, **WINDOW, **other)
    assert found and found.bytes == 8 * NARROW // 2


def test_windows_that_the_server_sets_itself(tmp_path: Path) -> None:
    context = 65536
    found = cache(tmp_path / "m.gguf", "llama4", context)
    assert found and found.bytes == (3 * context + 9 * (8192 + 512)) * TOKEN
    found = cache(tmp_path / "m.gguf", "smallthinker", context, **WINDOW)
    assert found and found.bytes == (3 * context + 9 * (4096 + 512)) * TOKEN


STATES = {"ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 16, "ssm.group_count": 2}
STATE = 4 * (3 * (256 + 2 * 2 * 16) + 256 * 16)


@pytest.mark.parametrize(
    ("architecture", "lists", "tokens", "states"),
    [
        ("qwen3next", {}, 3, 9),
        ("qwen35moe", {"attention.recurrent_layers": [1, 0] * 6}, 6, 6),
        ("jamba", {"attention.head_count_kv": [0, 0, 2] * 4}, 4, 8),
        ("nemotron_h", {"attention.head_count_kv": [0, 0, 2] * 4, "feed_forward_length": [0, 9, 0] * 4}, 4, 4),
        ("deci", {"attention.head_count_kv": [0, 0, 2] * 4}, 4, 0),
        ("falcon-h1", {}, 12, 12),
        ("mamba2", {}, 0, 12),
    ],
)
def test_layers_that_keep_a_state(
    tmp_path: Path, architecture: str, lists: dict[str, list[int]], tokens: int, states: int
) -> None:
    found = cache(tmp_path / "m.gguf", architecture, lists=lists, **STATES)
    assert found and found.bytes == tokens * LAYER + states * STATE
    assert found.checkpoint == states * STATE and found.recurrent == bool(states)


@pytest.mark.parametrize(
    ("architecture", "numbers", "size"),
    [
        ("rwkv7", {"wkv.head_size": 64}, 2 * 512 + 512 * 64),
        ("arwkv7", {"wkv.head_size": 64, "token_shift_count": 1}, 512 + 512 * 64),
        ("kimi-linear", {"kda.head_dim": 64, "ssm.conv_kernel": 4}, 3 * 3 * 8 * 64 + 64 * 64 * 8),
        ("lfm2", {"shortconv.l_cache": 3}, 2 * 512),
        ("minimax-01", {}, 64 * 64 * 8),
    ],
)
def test_states_of_other_kinds(tmp_path: Path, architecture: str, numbers: dict[str, int], size: int) -> None:
    lists = {"attention.head_count_kv": [0, 2] * 6}
    found = cache(tmp_path / "m.gguf", architecture, lists=lists, **numbers)
    states = {"rwkv7": 12, "arwkv7": 12, "minimax-01": 11}.get(architecture, 6)
    assert found and found.checkpoint == states * 4 * size


def test_a_layer_that_chooses_the_tokens_that_it_reads(tmp_path: Path) -> None:
    found = cache(tmp_path / "m.gguf", "deepseek32", **{"attention.indexer.key_length": 128})
    assert found and found.bytes == 12 * (LAYER + 8192 * 128 * 2)


def test_which_layers_have_an_indexer(tmp_path: Path) -> None:
    """MiniMax M3 also stores a row of values beside the keys of an indexer; GLM 5.2 has one for four layers."""
    width = {"attention.indexer.key_length": 128}
    row = 8192 * 128 * 2
    found = cache(tmp_path / "m.gguf", "minimax-m3", **width, leading_dense_block_count=3)
    assert found and found.bytes == 12 * LAYER + 9 * (row + row // 2)
    for context, layers in ((202752, 12), (1 << 20, 5)):
        found = cache(tmp_path / "m.gguf", "glm-dsa", **width, context_length=context)
        assert found and found.bytes == 12 * LAYER + layers * row
    lists = {"attention.indexer.types": [1, 0, 0] * 4}
    found = cache(tmp_path / "m.gguf", "hy_v4", lists=lists, **width)
    assert found and found.bytes == 12 * LAYER + 4 * row
    found = cache(tmp_path / "m.gguf", "glm5-next", lists={"attention.head_count_kv": [0, 0, 2] * 4}, **width)
    assert found and found.bytes - found.checkpoint == 4 * (LAYER + 3 * row)


#: The header of DeepSeek V4-Flash.
DEEPSEEK_V4 = {
    "block_count": 43,
    "embedding_length": 4096,
    "attention.head_count": 64,
    "attention.head_count_kv": 1,
    "attention.key_length": 512,
    "attention.value_length": 512,
    "attention.sliding_window": 128,
    "attention.indexer.key_length": 128,
}


def test_a_row_of_keys_for_a_block_of_tokens(tmp_path: Path) -> None:
    """At 131,072 tokens DeepSeek V4-Flash stores 0.9 GiB, and not the 12.4 GiB that a layer of every token had."""
    ratios = [0, 0, *[4, 128] * 20, 4]
    lists = {"attention.compress_ratios": ratios}
    found = cache(tmp_path / "m.gguf", "deepseek4", 131072, lists=lists, **DEEPSEEK_V4)
    windows = 43 * (128 + 512 + 128) * 512 * 2
    rows = 21 * 131072 // 4 * (512 + 128) * 2 + 20 * 131072 // 128 * 512 * 2
    states = 21 * (2 * 8 * 2 * 512 + 2 * 8 * 2 * 128) * 4 + 20 * 2 * 128 * 512 * 4
    assert found and (found.bytes, found.checkpoint) == (windows + rows + states, windows + states)
    assert found.bytes / (1 << 30) == pytest.approx(0.9, abs=0.02) and found.recurrent
    step = compute_step_traffic(gguf_model.read_model(str(tmp_path / "m.gguf")), 131072)
    assert step and step.parts["kv"] == 43 * 128 * 512 * 2 + rows and step.parts["state"] == states


def test_layers_that_guess_the_next_tokens_are_not_used(tmp_path: Path) -> None:
    found = cache(tmp_path / "m.gguf", "glm4moe", nextn_predict_layers=1)
    assert found and found.bytes == 11 * LAYER


def test_a_model_that_keeps_nothing(tmp_path: Path) -> None:
    found = cache(tmp_path / "m.gguf", "bert")
    assert found and (found.bytes, found.checkpoint) == (0, 0)


@pytest.mark.parametrize(
    "numbers",
    [
        {"block_count": 0},
        {"block_count": (1 << 32) - 1},
        {"attention.head_count": 0, "attention.head_count_kv": 0},
        {"embedding_length": 0},
    ],
)
def test_a_header_that_says_nothing_of_use(tmp_path: Path, numbers: dict[str, int]) -> None:
    assert cache(tmp_path / "m.gguf", "llama", **numbers) is None


def test_a_list_that_is_too_short(tmp_path: Path) -> None:
    found = cache(tmp_path / "m.gguf", "llama", lists={"attention.head_count_kv": [2, 2]})
    assert found and found.bytes == 2 * LAYER
