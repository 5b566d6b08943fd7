# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bytes of a step, against sizes that are counted here from the shapes and types of the tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.memory_traffic import (
    DraftModel,
    StepTraffic,
    compute_step_traffic,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures, ggufs

F32, Q8_0, Q4_K = 0, 8, 12
#: Elements of a block and its bytes, as ggml-common.h has them.
BLOCKS = {F32: (1, 4), Q8_0: (32, 34), Q4_K: (256, 144)}
Shapes = dict[str, tuple[tuple[int, ...], int]]

#: One layer, and what is around the layers: width 1024, 8 heads of 128, 2 of keys, 4000 words.
LAYER: Shapes = {
    "attn_norm.weight": ((1024,), F32),
    "attn_q.weight": ((1024, 1024), Q4_K),
    "attn_k.weight": ((1024, 256), Q4_K),
    "attn_v.weight": ((1024, 256), Q8_0),
    "attn_output.weight": ((1024, 1024), Q4_K),
    "ffn_norm.weight": ((1024,), F32),
}
DENSE: Shapes = {
    "ffn_gate.weight": ((1024, 3072), Q4_K),
    "ffn_up.weight": ((1024, 3072), Q4_K),
    "ffn_down.weight": ((3072, 1024), Q8_0),
}
ROUTED: Shapes = {
    "ffn_gate_exps.weight": ((1024, 512, 16), Q4_K),
    "ffn_up_exps.weight": ((1024, 512, 16), Q4_K),
    "ffn_down_exps.weight": ((512, 1024, 16), Q8_0),
}
SHARED: Shapes = {
    "ffn_gate_inp.weight": ((1024, 16), F32),
    "ffn_gate_shexp.weight": ((1024, 512), Q4_K),
    "ffn_up_shexp.weight": ((1024, 512), Q4_K),
    "ffn_down_shexp.weight": ((512, 1024), Q8_0),
}
EMBEDDING: Shapes = {"token_embd.weight": ((1024, 4000), Q4_K)}
NORM: Shapes = {"output_norm.weight": ((1024,), F32)}
OUTPUT: Shapes = {"output.weight": ((1024, 4000), Q8_0), **NORM}
NUMBERS = {"embedding_length": 1024, "attention.head_count": 8, "attention.head_count_kv": 2}
EXPERTS = {"expert_count": 16, "expert_used_count": 4, "expert_shared_count": 1}


def elements(shapes: Shapes) -> int:
    total = 0
    for shape, dummy in shapes.values():
        product = 1
        for length in shape:
            product *= length
        total += product
    return total


def counted(shapes: Shapes) -> float:
    """The bytes of tensors."""
    return sum(elements({"": (shape, kind)}) / BLOCKS[kind][0] * BLOCKS[kind][1] for shape, kind in shapes.values())


def layers(number: int, *groups: Shapes) -> Shapes:
    return {f"blk.{n}.{name}": tensor for n in range(number) for group in groups for name, tensor in group.items()}


def written(path: Path, tensors: Shapes, numbers: dict[str, Any], architecture: str = "llama") -> gguf_model.Model:
    write(path, tensors, ggufs.model(None, architecture, **numbers))
    return gguf_model.read_model(str(path))


def write(path: Path, tensors: Shapes, entries: list[bytes]) -> None:
    listed, end = [], 0
    for name, (shape, kind) in tensors.items():
        listed.append(ggufs.tensor(name, shape, kind, end))
        end += -(-int(counted({name: (shape, kind)})) // 32) * 32
    head = ggufs.gguf(entries, listed)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + end)


def taken(model: gguf_model.Model, *args: Any, **options: Any) -> StepTraffic:
    found = compute_step_traffic(model, *args, **options)
    assert found is not None
    return found


def test_a_dense_model(tmp_path: Path) -> None:
    """The embedding, of 2.3 MB, is not read. Of 1000 tokens, 3 layers read 2 heads of keys and of values."""
    shapes = layers(3, LAYER, DENSE)
    model = written(tmp_path / "m.gguf", {**EMBEDDING, **shapes, **OUTPUT}, {"block_count": 3, **NUMBERS})
    found = taken(model, 1000)
    assert found.parts == {
        "layers": counted(shapes),
        "experts": 0,
        "output": counted(OUTPUT),
        "kv": 3 * 1000 * 2 * (128 + 128) * 2,
        "state": 0,
    }
    assert found.total_bytes == sum(found.parts.values())
    # A multiplication and an addition for each parameter, and for each number of a key and a value by each head.
    assert found.flops == 2 * elements({**shapes, **OUTPUT}) + 3 * 4 * 1000 * 8 * 128
    assert found.to_dict()["bytes"] == int(counted(shapes) + counted(OUTPUT)) + 3 * 1000 * 2 * 256 * 2


def test_an_embedding_that_is_the_output_too_is_read_once(tmp_path: Path) -> None:
    shapes = {**EMBEDDING, **layers(3, LAYER, DENSE), **NORM}
    found = taken(written(tmp_path / "m.gguf", shapes, {"block_count": 3, **NUMBERS}), 0)
    assert found.parts["output"] == counted({**EMBEDDING, **NORM})
    assert found.total_bytes == counted(shapes)


def test_experts_count_by_how_many_are_used_and_shared_ones_whole(tmp_path: Path) -> None:
    dense, routed = layers(2, LAYER, SHARED), layers(2, ROUTED)
    numbers = {"block_count": 2, **NUMBERS, **EXPERTS}
    model = written(tmp_path / "m.gguf", {**EMBEDDING, **dense, **routed, **OUTPUT}, numbers, "qwen2moe")
    found = taken(model, 0)
    assert (found.parts["layers"], found.parts["experts"]) == (counted(dense), counted(routed) * 4 / 16)
    assert found.flops == pytest.approx(2 * (elements({**dense, **OUTPUT}) + elements(routed) / 4))
    assert taken(model, 0, experts_per_token=2).parts["experts"] == counted(routed) * 2 / 16
    # Three tokens that choose by chance miss an expert with (12/16)^3.
    three = taken(model, 500, streams=3)
    assert three.parts["experts"] == pytest.approx(counted(routed) * (1 - 0.75**3))
    assert (three.parts["layers"], three.parts["kv"]) == (counted(dense), 3 * 2 * 500 * 2 * 256 * 2)
    assert (three.tokens, three.flops) == (3, 3 * taken(model, 500).flops)


def test_three_files_are_one_model(tmp_path: Path) -> None:
    paths = [tmp_path / f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    shapes = layers(3, LAYER, DENSE)
    parts: list[Shapes] = [EMBEDDING, shapes, OUTPUT]
    for number, (path, tensors) in enumerate(zip(paths, parts)):
        first = ggufs.model(None, block_count=3, **NUMBERS) if number == 0 else []
        write(path, tensors, [*first, ggufs.entry("split.no", "H", number)])
    found = taken(gguf_model.read_model(str(paths[1])), 0)
    assert found.total_bytes == counted({**shapes, **OUTPUT})


def test_keys_and_values_have_types_of_their_own(tmp_path: Path) -> None:
    model = written(tmp_path / "m.gguf", {**layers(3, LAYER, DENSE), **OUTPUT}, {"block_count": 3, **NUMBERS})
    numbers = 3 * 1000 * 2 * 128
    assert taken(model, 1000, ("q8_0", "q8_0")).parts["kv"] == pytest.approx(numbers * 2 * 34 / 32)
    assert taken(model, 1000, ("q8_0", "f16")).parts["kv"] == pytest.approx(numbers * (34 / 32 + 2))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, gguf_model.Model]:
    return architectures.write_and_read(tmp_path_factory.mktemp("models"), ("swa", "mla", "hybrid"))


@pytest.mark.parametrize(("context", "windowed"), [(500, 500), (8000, 1024)])
def test_layers_with_windows_read_no_more_than_those(
    real: dict[str, gguf_model.Model], context: int, windowed: int
) -> None:
    """Gemma 3 4B with 7 layers: the sixth sees all tokens. 4 heads of keys, 8 in all, of 256 numbers."""
    found, none = taken(real["swa"], context), taken(real["swa"], 0)
    assert found.parts["kv"] == (context + 6 * windowed) * 4 * (256 + 256) * 2
    assert found.flops - none.flops == (context + 6 * windowed) * 4 * 8 * 256


def test_compressed_keys_hold_the_values(real: dict[str, gguf_model.Model]) -> None:
    """DeepSeek V3 with 2 layers: 512 numbers and 64 that turn with the position, for all 128 heads."""
    found, none = taken(real["mla"], 8000), taken(real["mla"], 0)
    assert found.parts["kv"] == 2 * 8000 * (512 + 64) * 2
    assert found.flops - none.flops == 2 * 8000 * 128 * 2 * (576 + 512)
    assert taken(real["mla"], 8000, ("q8_0", "q8_0")).parts["kv"] == 2 * 8000 * 576 / 32 * 34


def test_a_state_has_one_size_for_any_context(real: dict[str, gguf_model.Model]) -> None:
    """Qwen 3.5 27B with 4 layers, of which one keeps tokens; the others 48 heads of 128 x 128, and a convolution."""
    for context in (0, 8000):
        parts = taken(real["hybrid"], context).parts
        assert parts["kv"] == context * 4 * (256 + 256) * 2
        assert parts["state"] == 3 * 4 * (128 * 6144 + 3 * (6144 + 2 * 16 * 128))


def test_layers_that_read_what_others_keep(tmp_path: Path) -> None:
    """Gemma 4 with 12 layers, the last 4 of which read the keys of layers before them."""
    numbers = {"block_count": 12, "attention.shared_kv_layers": 4, **NUMBERS}
    assert taken(written(tmp_path / "m.gguf", layers(12, LAYER), numbers, "gemma4"), 100).parts["kv"] == (
        12 * 100 * 2 * 256 * 2
    )


def test_a_draft_is_read_for_each_token_that_it_guesses(tmp_path: Path) -> None:
    large, small = layers(3, LAYER, DENSE), layers(1, LAYER, DENSE)
    model = written(tmp_path / "large.gguf", {**large, **OUTPUT}, {"block_count": 3, **NUMBERS})
    draft = written(tmp_path / "small.gguf", {**small, **EMBEDDING, **NORM}, {"block_count": 1, **NUMBERS})
    found = taken(model, 1000, draft=DraftModel(draft, 5))
    alone = taken(model, 1000)
    assert {name: found.parts[name] for name in alone.parts} == alone.parts
    assert found.parts["draft"] == 5 * counted({**small, **EMBEDDING, **NORM})
    assert found.parts["draft_context"] == 5 * 1000 * 2 * 256 * 2
    assert (found.tokens, found.flops) == (6, 6 * alone.flops + 5 * taken(draft, 1000).flops)


def test_a_header_that_says_too_little(tmp_path: Path) -> None:
    model = written(tmp_path / "m.gguf", OUTPUT, {"block_count": 3})
    whole = written(tmp_path / "n.gguf", OUTPUT, {"block_count": 3, **NUMBERS})
    assert (
        compute_step_traffic(model, 1000) is None
        and compute_step_traffic(whole, 1000, draft=DraftModel(model, 2)) is None
    )


def test_a_model_that_reads_a_whole_text_at_once_keeps_nothing(tmp_path: Path) -> None:
    found = taken(written(tmp_path / "m.gguf", NORM, {"block_count": 1}, "bert"), 1000)
    assert (found.parts["kv"], found.parts["state"], found.total_bytes) == (0, 0, 4096)


@pytest.mark.parametrize(("mla", "numbers"), [(0, 128 * (192 + 128)), (3, 576)])
def test_compressed_keys_of_a_file_that_describes_heads(tmp_path: Path, mla: int, numbers: int) -> None:
    """ik_llama.cpp reads 576 numbers of a token for all heads, llama.cpp keys and values of each head."""
    path = tmp_path / "m.gguf"
    path.write_bytes(ggufs.gguf(ggufs.model(None, "deepseek2", **architectures.HEADS_OF_MLA)))
    traffic = compute_step_traffic(gguf_model.read_model(str(path)), 1000, mla=mla)
    assert traffic is not None and traffic.parts["kv"] == 61 * 1000 * numbers * 2
