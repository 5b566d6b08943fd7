# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an instance needs, and that a real server needs no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import MemoryNeed
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.memory_need import (
    PICTURE_BYTES,
    PROCESS_BYTES,
    estimate_memory_need,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures, ggufs, llama_servers
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import NEW, Able

GIB, MIB = 1 << 30, 1 << 20
#: MiB of the compute buffers, as build 11434 says them, by model, context, slots, tokens of a batch, flash attention.
FIGURES = {
    ("dense", 8192, 1, 512, "auto"): 112.52,
    ("dense", 131072, 1, 512, "auto"): 232.52,
    ("dense", 32768, 1, 512, "off"): 2176.01,
    ("gqa", 8192, 1, 2048, "auto"): 416.07,
    ("gqa", 131072, 8, 512, "auto"): 112.02,
    ("gqa", 32768, 1, 512, "off"): 4260.01,
    ("swa", 131072, 1, 512, "auto"): 214.53,
    ("swa", 32768, 1, 512, "off"): 616.02,
    ("mla", 8192, 1, 512, "auto"): 414.01,
    ("mla", 8192, 1, 2048, "auto"): 1656.05,
    ("mla", 32768, 1, 512, "off"): 8662.01,
    ("hybrid", 8192, 1, 512, "auto"): 160.02,
    ("hybrid", 32768, 1, 512, "off"): 1690.02,
    ("moe", 8192, 1, 512, "auto"): 184.02,
    ("moe", 8192, 1, 2048, "auto"): 736.07,
    ("moe", 32768, 1, 512, "off"): 4234.01,
}


def options(**more: Any) -> Options:
    if more.get("speculation") == "draft":
        more["draft_model"] = "/srv/d.gguf"
    return Options.parse({"name": "chat", "binary": "/opt/llama-server", "model": "/srv/m.gguf", "port": 8080, **more})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, gguf_model.Model]:
    return architectures.write_and_read(tmp_path_factory.mktemp("models"), architectures.NUMBERS)


@pytest.mark.parametrize("told", FIGURES, ids=str)
def test_buffers_of_a_real_server(models: dict[str, gguf_model.Model], told: tuple[Any, ...]) -> None:
    """A safe estimate: never too little, and not so much that an instance is refused for nothing."""
    name, context, slots, ubatch, flash = told
    asked = options(context=context, slots=slots, kv_unified=False, ubatch=ubatch, flash_attention=flash)
    found = (estimate_memory_need(asked, NEW, models[name])[0].compute - PROCESS_BYTES) / MIB
    assert FIGURES[told] <= found <= 4 * FIGURES[told]


def test_the_matrices_that_ik_llama_makes_at_its_start(models: dict[str, gguf_model.Model]) -> None:
    """With compressed keys it also makes one matrix of keys and values in Q8_0; llama.cpp and mla 0 make none."""
    ik, model = Able(engine="ik_llama.cpp"), models["mla"]
    matrices = [item for item in model.tensors if item.name.endswith(("attn_k_b.weight", "attn_v_b.weight"))]
    made = estimate_memory_need(options(), ik, model)[0].weights - model.weight_bytes
    assert made == sum(item.elements for item in matrices) * 34 / 32 > 0
    for server, mla in ((NEW, None), (ik, 0)):
        assert estimate_memory_need(options(mla=mla), server, model)[0].weights == model.weight_bytes
    assert estimate_memory_need(options(), ik, models["moe"])[0].weights == models["moe"].weight_bytes


def test_what_an_instance_needs(tmp_path: Path) -> None:
    large = ggufs.written(tmp_path / "l.gguf", 40 * GIB)
    small = ggufs.written(tmp_path / "s.gguf", GIB)
    alone, own, nothing = estimate_memory_need(options(context=16384, prompt_cache="8GiB"), NEW, large)
    assert (own, nothing) == (None, [])
    assert alone.weights == pytest.approx(40 * GIB, abs=4096) and alone.kv_cache == 5 * GIB
    both, own, dummy = estimate_memory_need(options(context=16384), NEW, large, small)
    assert own is None and both.weights == pytest.approx(41 * GIB, abs=4096) and both.kv_cache == 10 * GIB
    assert 0 < alone.compute < both.compute < 3 * GIB
    assert alone.to_dict() == {
        "weights": alone.weights,
        "kv_cache": alone.kv_cache,
        "compute": alone.compute,
        "prompt_cache": 8 * GIB,
        "checkpoints": 0,
        "total": alone.total,
    }
    assert alone.total == sum(size for key, size in alone.to_dict().items() if key != "total")


def test_a_draft_in_a_process_of_its_own_has_a_need_of_its_own(tmp_path: Path) -> None:
    large = ggufs.written(tmp_path / "l.gguf", 40 * GIB)
    small = ggufs.written(tmp_path / "s.gguf", GIB)
    alone = estimate_memory_need(options(), NEW, large)[0]
    whole, own, dummy = estimate_memory_need(options(), NEW, large, small, draft_is_separate=True)
    assert whole.to_dict() == alone.to_dict()
    assert own is not None and own.weights == pytest.approx(GIB, abs=4096) and own.kv_cache == whole.kv_cache
    assert own.compute > PROCESS_BYTES and own.prompt_cache == own.checkpoints == 0
    asked = options(speculation="draft", draft_cache_type_k="q8_0", draft_cache_type_v="q8_0")
    smaller = estimate_memory_need(asked, NEW, large, small, draft_is_separate=True)[1]
    # 34 bytes for 32 numbers, instead of 64.
    assert smaller is not None and smaller.kv_cache == own.kv_cache * 34 // 64


def test_adapters_are_weights(tmp_path: Path) -> None:
    large = ggufs.written(tmp_path / "l.gguf", 40 * GIB)
    adapters = [ggufs.written(tmp_path / f"{name}.gguf", GIB) for name in "ab"]
    alone, both = (estimate_memory_need(options(), NEW, large, adapters=these)[0] for these in ([], adapters))
    assert both.weights - alone.weights == pytest.approx(2 * GIB, abs=8192)


def test_what_is_kept_of_earlier_requests(models: dict[str, gguf_model.Model]) -> None:
    """The server's own limits are counted whole, since it grows up to them and no further."""
    found = estimate_memory_need(options(prompt_cache="8GiB"), NEW, models["gqa"])[0]
    assert (found.prompt_cache, found.checkpoints) == (8 * GIB, 0)
    assert estimate_memory_need(options(), NEW, models["gqa"])[0].prompt_cache == 0, "the plan chooses it"
    assert estimate_memory_need(options(prompt_cache="512MiB"), NEW, models["gqa"])[0].prompt_cache == 512 * MIB
    assert estimate_memory_need(options(prompt_cache="0MiB"), NEW, models["gqa"])[0].prompt_cache == 0
    windows = estimate_memory_need(options(slots=2, speculation="ngram", context_per_slot=8192), NEW, models["swa"])[0]
    assert windows.checkpoints == 32 * 2 * 36 * MIB
    few = estimate_memory_need(options(slots=2, context_per_slot=8192, checkpoints=3), NEW, models["swa"])[0]
    assert few.checkpoints == 3 * 2 * 36 * MIB
    one = int(9.3515625 * MIB)
    assert estimate_memory_need(options(speculation="none"), NEW, models["hybrid"])[0].checkpoints == 32 * one
    assert estimate_memory_need(options(speculation="ngram"), NEW, models["hybrid"])[0].checkpoints == 33 * one
    for task in ("embedding", "rerank"):
        found = estimate_memory_need(options(task=task), NEW, models["hybrid"])[0]
        assert (found.prompt_cache, found.checkpoints) == (0, 0)


def test_a_server_that_is_told_to_keep_every_token(models: dict[str, gguf_model.Model]) -> None:
    found = estimate_memory_need(options(extra_arguments=["--swa-full"]), NEW, models["swa"])[0]
    assert (found.kv_cache // MIB, found.checkpoints) == (224, 0)


def test_a_server_without_these_caches_needs_none(models: dict[str, gguf_model.Model]) -> None:
    old = Able(lacks=("--cache-ram", "--ctx-checkpoints", "--swa-full", "--spec-type"))
    found = {name: estimate_memory_need(options(), old, models[name])[0] for name in ("swa", "mla")}
    assert {(one.prompt_cache, one.checkpoints) for one in found.values()} == {(0, 0)}
    assert {name: one.kv_cache // MIB for name, one in found.items()} == {"swa": 224, "mla": 34}


def test_what_recorded_builds_keep(models: dict[str, gguf_model.Model]) -> None:
    for name in llama_servers.SERVERS:
        server = llama_servers.server(name)
        asked = options(prompt_cache="8GiB")
        found = {kind: estimate_memory_need(asked, server, models[kind])[0] for kind in ("swa", "mla")}
        assert found["mla"].kv_cache == 18 * MIB and found["mla"].prompt_cache == 8 * GIB, name
        windows = server.engine == "llama.cpp"
        assert found["swa"].kv_cache // MIB == (68 if windows else 224), name
        assert found["swa"].checkpoints // MIB == (32 * 36 if windows else 0), name


def test_a_projector(tmp_path: Path, models: dict[str, gguf_model.Model]) -> None:
    projector = ggufs.written(tmp_path / "p.gguf", 1440)
    alone, both = (estimate_memory_need(options(), NEW, models["gqa"], projector=one)[0] for one in (None, projector))
    assert both.weights == alone.weights + 1440 and both.compute == alone.compute + PICTURE_BYTES


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(ggufs.gguf(ggufs.model(), [ggufs.tensor("a", (32,), 250, 0)], 4096))
    found, dummy, remarks = estimate_memory_need(options(), NEW, gguf_model.read_model(str(path)))
    assert (found.weights, found.kv_cache) == (4096, 0)
    assert "does not state its layers and heads" in remarks[0]
    assert remarks[1] == (
        f"{path} has tensors of types that are not known here (type 250). Their size is taken from the file."
    )


def test_a_need_in_words() -> None:
    assert MemoryNeed(4 * GIB, GIB, 512 * MIB, 8 * GIB, GIB).format_parts_with_sizes(GIB) == (
        "3 GiB weights, 1 GiB KV cache, 512 MiB compute buffers, 8 GiB prompt cache, 1 GiB checkpoints"
    )
    assert MemoryNeed(0, 0, GIB).format_parts_with_sizes() == "0 B weights, 1 GiB compute buffers"
