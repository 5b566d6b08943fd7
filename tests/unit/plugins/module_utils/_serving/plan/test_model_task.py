# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which models can do a task, and how long a text may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan import model_task
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import MemoryNeed
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.memory_need import (
    estimate_memory_need,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, heads
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import NEW

CHAT = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/m.gguf", "port": 8080}


def options(**more: Any) -> Options:
    return Options.parse({**CHAT, **more})


def model(folder: Path, content: bytes) -> gguf_model.Model:
    path = folder / "m.gguf"
    path.write_bytes(content)
    return gguf_model.read_model(str(path))


def encoder(trained: int = 512) -> bytes:
    return ggufs.gguf(ggufs.model(architecture="bert", context_length=trained, pooling_type=2), ggufs.WEIGHTS, 1152)


@pytest.mark.parametrize(
    ("asked", "content", "words"),
    [
        ({"task": "embedding"}, heads.embeds(None), "Add the line 'pooling: last' for a generating model"),
        (
            {"task": "embedding"},
            heads.embeds(0),
            "the server would answer each request to /v1/embeddings with an error",
        ),
        ({"task": "embedding"}, heads.ranks(), "was made for ranking, and gives scores in place of vectors."),
        ({"task": "rerank"}, heads.model(), "has no head for scores (no tensor cls.weight or cls.output.weight)"),
        ({"task": "rerank", "pooling": "rank"}, heads.embeds(4), "has no head for scores"),
        ({}, encoder(), "is of the kind bert, which continues no text. Say 'task: embedding' or 'task: rerank'"),
    ],
)
def test_a_model_that_cannot_do_the_task(tmp_path: Path, asked: dict[str, Any], content: bytes, words: str) -> None:
    reason = model_task.task_refusal_reason(options(**asked), model(tmp_path, content))
    assert words in reason and reason.startswith("task ") and reason.endswith(".")


@pytest.mark.parametrize(
    ("asked", "content"),
    [
        ({}, heads.model()),
        ({}, heads.embeds()),
        ({"task": "embedding"}, heads.embeds()),
        ({"task": "embedding"}, encoder()),
        ({"task": "embedding", "pooling": "last"}, heads.model()),
        ({"task": "rerank"}, heads.ranks()),
        ({"task": "rerank", "pooling": "rank"}, heads.ranks()),
    ],
)
def test_a_model_that_can(tmp_path: Path, asked: dict[str, Any], content: bytes) -> None:
    assert model_task.task_refusal_reason(options(**asked), model(tmp_path, content)) == ""


@pytest.mark.parametrize(
    "asked",
    [
        {"pooling": "last"},
        {"task": "rerank", "pooling": "mean"},
        {"task": "embedding", "pooling": "rank"},
    ],
)
def test_a_pooling_without_effect(asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match=r"pooling \w+ has no effect with task"):
        options(**asked)


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ({}, (None, None)),
        ({"batch": 4096}, (4096, None)),
        # A text may be as long as the context of a slot, and not longer than the model was trained for.
        ({"task": "embedding", "context": 400}, (400, 400)),
        ({"task": "embedding", "context": 800, "slots": 4}, (200, 200)),
        ({"task": "rerank", "context": 8192}, (512, 512)),
        ({"task": "embedding", "ubatch": 64}, (64, 64)),
        ({"task": "embedding", "batch": 128}, (128, 128)),
        ({"task": "embedding", "batch": 256, "ubatch": 64}, (256, 64)),
    ],
)
def test_the_sizes_of_batches(tmp_path: Path, asked: dict[str, Any], sizes: tuple[int, int]) -> None:
    assert model_task.choose_batch_sizes(options(**asked), model(tmp_path, encoder())) == sizes


def test_models_of_a_router_may_have_been_trained_for_more(tmp_path: Path) -> None:
    several = {"model": None, "models": {"a": "/srv/a.gguf", "b": "/srv/b.gguf"}, "task": "embedding"}
    assert model_task.choose_batch_sizes(options(**several), model(tmp_path, encoder())) == (8192, 8192)


def test_the_buffers_of_large_batches_count(tmp_path: Path) -> None:
    large = model(tmp_path, encoder(32768))
    needs = [
        estimate_memory_need(options(context=32768, task="embedding", **more), NEW, large)[0]
        for more in ({}, {"ubatch": 512})
    ]
    assert needs[0].compute > 2 * needs[1].compute


def test_large_buffers_and_short_batches_are_remarks(tmp_path: Path) -> None:
    embeds = model(tmp_path, encoder(32768))
    need = MemoryNeed(0, 0, 3 << 30)
    (said,) = model_task.batch_remarks(options(task="embedding", context=16384), [embeds], need)
    assert said.startswith(
        "task embedding: a text is computed in one batch of up to 16384 tokens, whose buffers take 3"
    )
    (said,) = model_task.batch_remarks(options(task="embedding", ubatch=512), [embeds], need)
    assert said == "task embedding: the server refuses texts of more than 512 tokens, the size of a batch."
    assert model_task.batch_remarks(options(task="embedding"), [embeds], MemoryNeed(0, 0, 1 << 20)) == []
    assert model_task.batch_remarks(options(), [embeds], need) == []
