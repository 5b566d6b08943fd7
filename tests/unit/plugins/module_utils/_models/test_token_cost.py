# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a model reads of its weights, on files whose sizes are written here."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models.token_cost import TokenWork
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs


def test_the_work_of_a_file(tmp_path: Path) -> None:
    found = TokenWork.of_model(ggufs.written(tmp_path / "m.gguf", 144_000, experts=8, used=2, expert_weights=14_400))
    assert (found.dense, found.dense_parameters) == (144_000, 256_000)
    assert (found.expert, found.expert_parameters, found.experts, found.used) == (14_400, 25_600, 8, 2)
    assert (
        TokenWork.of_model(ggufs.written(tmp_path / "m.gguf", 144_000, experts=8, used=2), experts_per_token=1).used
        == 1
    )


def test_an_embedding_is_looked_up_and_not_read(tmp_path: Path) -> None:
    embedding = ggufs.tensor("token_embd.weight", (32,), 0, 0)
    tied = tmp_path / "tied.gguf"
    tied.write_bytes(ggufs.gguf(ggufs.model(), [embedding], 128))
    output = [embedding, ggufs.tensor("output.weight", (64,), 0, 128)]
    parted = tmp_path / "parted.gguf"
    parted.write_bytes(ggufs.gguf(ggufs.model(), output, 384))
    assert [TokenWork.of_model(ggufs.gguf_model.read_model(str(path))).dense for path in (tied, parted)] == [128, 256]


def test_layers_that_guess_and_other_tables_take_no_part(tmp_path: Path) -> None:
    names = ["token_embd", "per_layer_token_embd", "position_embd", "blk.0.attn_q", "blk.1.ffn_up", "blk.2.attn_q"]
    tensors = [ggufs.tensor(f"{name}.weight", (32,), 0, 128 * number) for number, name in enumerate(names)]
    path = tmp_path / "m.gguf"
    for ahead, layers in ((1, 256), (0, 384)):
        path.write_bytes(ggufs.gguf(ggufs.model(block_count=3, nextn_predict_layers=ahead), tensors, 768))
        work = TokenWork.of_model(ggufs.gguf_model.read_model(str(path)))
        assert work.bytes_read_by_batch_per_part(1) == {"layers": layers, "experts": 0, "output": 128}


def test_more_tokens_use_more_different_experts() -> None:
    """Two of eight experts each: of 1000 batches whose tokens choose by chance, the mean is what is said."""
    work = TokenWork(100.0, 200.0, 8000.0, 16000.0, experts=8, used=2, output=10.0)
    assert work.bytes_read_by_batch_per_part(1) == pytest.approx({"layers": 90, "experts": 2000, "output": 10})
    random = Random(23)
    drawn = [{one for dummy in range(4) for one in random.sample(range(8), 2)} for dummy in range(1000)]
    assert work.bytes_read_by_batch_per_part(4)["experts"] == pytest.approx(sum(map(len, drawn)), rel=0.02)
