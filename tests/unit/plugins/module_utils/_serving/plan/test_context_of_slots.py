# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many tokens a request may have, what a shared KV cache needs, and how large the prompt cache is by default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.arguments import build_arguments
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import (
    InstancePlan,
    MemoryNeed,
    SlotBytes,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.kv_cache import (
    CacheSettings,
    compute_kv_cache_size,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.memory_need import shares_kv_cache
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.slot_state import plan_prompt_cache
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures, ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, NEW, OLD, Able, Models, planned, refused
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import server
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import sized

GIB, MIB = 1 << 30, 1 << 20
LEAST = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/m.gguf", "port": 8080}
IK = Able(engine="ik_llama.cpp", can_pin_threads=False)
EARLIER = Able(lacks=("--no-kv-unified",))


def options(**more: Any) -> Options:
    return Options.parse({**LEAST, **more})


def choices(plan: InstancePlan) -> list[tuple[str, object, str]]:
    return [(choice.option, choice.value, choice.undo) for choice in plan.default_choices if choice.option != "threads"]


# The options


@pytest.mark.parametrize(
    ("more", "context"),
    [
        ({}, 8192),
        ({"context": 16384, "slots": 4}, 16384),
        ({"context_per_slot": 16384}, 16384),
        ({"context_per_slot": 16384, "slots": 4}, 65536),
        ({"context_per_slot": 16384, "slots": 4, "context": 65536}, 65536),
    ],
)
def test_the_context_of_all_slots(more: dict[str, Any], context: int) -> None:
    assert options(**more).context == context


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"context": 8192, "context_per_slot": 8192, "slots": 4},
            "context is 8192, and context_per_slot 8192 with 4 slots makes 32768. Leave one of the two out.",
        ),
        ({"context_per_slot": 0}, "context_per_slot is '0'; say a whole number from 1 up"),
        ({"kv_unified": "yes"}, "kv_unified is 'yes'; say true or false"),
        (
            {"kv_unified": True, "slots": 2, "task": "embedding"},
            "kv_unified has no effect with task embedding, which keeps no tokens. Leave it out.",
        ),
    ],
)
def test_what_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        options(**more)
    assert words in str(caught.value)


# Which instances share one KV cache


def test_several_slots_share_the_context_by_default(host: Host, models: Models) -> None:
    plan = planned(host, models, context=16384, slots=8)
    assert plan.parameters["kv_unified"] is True and "slot_limit" not in plan.parameters
    assert choices(plan) == [("kv_unified", "true", "kv_unified: false")]
    assert any("each request may then have up to 16384 tokens instead of 2048" in remark for remark in plan.remarks)
    assert plan.need.kv_cache == planned(host, models, context=16384).need.kv_cache


@pytest.mark.parametrize("more", [{}, {"context_per_slot": 4096}, {"kv_unified": True}, {"kv_unified": False}])
def test_an_instance_of_one_slot_is_as_before(host: Host, models: Models, more: dict[str, Any]) -> None:
    plan = planned(host, models, **more)
    assert not {"kv_unified", "slot_limit", "keep_idle_slots"} & plan.parameters.keys()
    assert choices(plan) == []


@pytest.mark.parametrize("more", [{"context_per_slot": 4096}, {"context": 16384, "kv_unified": False}])
def test_what_is_said_is_divided_without_a_word(host: Host, models: Models, more: dict[str, Any]) -> None:
    plan = planned(host, models, slots=4, **more)
    assert plan.parameters["context"] == 16384 and "kv_unified" not in plan.parameters
    assert choices(plan) == [] and not any("Each request" in remark for remark in plan.remarks)


def test_a_shared_cache_in_which_no_request_takes_the_part_of_another(host: Host, models: Models) -> None:
    plan = planned(host, models, OLD, slots=4, context_per_slot=4096, kv_unified=True)
    assert (plan.parameters["kv_unified"], plan.parameters["slot_limit"], plan.parameters["context"]) == (
        *(True, 4096, 16384),
    )
    words = build_arguments(plan.parameters, server("b11434"))
    assert words[words.index("--kv-unified") :][:3] == ["--kv-unified", "--kv-unified-per-slot", "4096"]
    with pytest.raises(BadRequest, match="cannot have slot_limit 4096: tried --kv-unified-per-slot"):
        build_arguments(plan.parameters, server("b9093"))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (IK, "ik_llama.cpp always divides the context among the slots"),
        (EARLIER, "this build always divides the context among the slots"),
    ],
)
def test_servers_that_cannot_share(host: Host, models: Models, build: Able, reason: str) -> None:
    plan = planned(host, models, capabilities=build, slots=4)
    assert "kv_unified" not in plan.parameters
    assert (
        f"Each request may have 2048 tokens, because context is divided among 4 slots: {reason}. Say with "
        "context_per_slot how many each request may have."
    ) in plan.remarks
    said = refused(host, models, capabilities=build, slots=4, kv_unified=True)
    assert said.startswith(f"kv_unified is true, and {reason}, so that each request has 2048 tokens.")


def test_texts_of_embeddings_are_divided(host: Host, tmp_path: Path) -> None:
    asked = options(task="embedding", pooling="last", slots=4)
    assert not shares_kv_cache(asked, NEW, [ggufs.written(tmp_path / "m.gguf", GB)])


@pytest.mark.parametrize("architecture", ["deepseek4", "minimax-m3"])
def test_models_that_lose_by_sharing(host: Host, models: Models, tmp_path: Path, architecture: str) -> None:
    path = tmp_path / "m.gguf"
    numbers = {"block_count": 4, "embedding_length": 512, "attention.head_count": 8, "attention.head_count_kv": 2}
    path.write_bytes(ggufs.gguf(ggufs.model(None, architecture, **numbers), ggufs.WEIGHTS, 1152))
    found = gguf_model.read_model(str(path))
    assert not shares_kv_cache(options(slots=4), NEW, [found])
    assert shares_kv_cache(options(slots=4, kv_unified=True), NEW, [found])
    plan = planned(host, models._replace(large=found), slots=4, kv_unified=True, speculation="none")
    assert any(remark.startswith("kv_unified: the server ") for remark in plan.remarks)


def test_windows_whose_checkpoints_would_be_larger(tmp_path: Path) -> None:
    """One slot may fill the windows of all slots, and each of its checkpoints copies them."""
    found = gguf_model.read_model(str(architectures.write(tmp_path / "swa.gguf", "swa")))
    assert not shares_kv_cache(options(slots=4, context=32768), NEW, [found])
    assert shares_kv_cache(options(slots=4, context=32768, checkpoints=0), NEW, [found])


# What a shared KV cache needs


@pytest.mark.parametrize(
    ("name", "context", "slots", "size"),
    [
        ("gqa", 131072, 8, 512.0),
        ("gqa", 5000, 3, 20.0),
        ("mla", 8192, 4, 18.0),
        # One of seven layers stores all tokens; the others store four windows of 1024 and a batch of 512.
        ("swa", 32768, 4, 128.0 + 6 * 18.0),
        ("hybrid", 8192, 1, 41.35),
        ("hybrid", 8192, 4, 32.0 + 4 * 9.35),
    ],
)
def test_the_size_of_a_shared_cache(tmp_path: Path, name: str, context: int, slots: int, size: float) -> None:
    found = gguf_model.read_model(str(architectures.write(tmp_path / "m.gguf", name)))
    cache = compute_kv_cache_size(found, CacheSettings(context, slots, 512, ("f16", "f16"), shared=True))
    assert cache is not None and cache.bytes / MIB == pytest.approx(size, abs=0.02)


# The prompt cache

#: A slot of 70 billion parameters: 320 KiB for each token.
SLOT = SlotBytes(0, (320 << 10) + 16, 32768)


def cache_mib(
    node_gib: int,
    spare_gib: float,
    slot: SlotBytes = SLOT,
    running: int | None = None,
    kv_cache: int = 10 * GIB,
    **more: Any,
) -> int:
    need = MemoryNeed(40 * GIB, kv_cache, GIB)
    plan = plan_prompt_cache(options(**more), NEW, slot, need, node_gib * GIB, int(spare_gib * GIB), running)
    return plan.bytes // MIB


@pytest.mark.parametrize(
    ("node_gib", "spare_gib", "size"),
    [
        # The tokens of all slots twice, as there is memory for more.
        (768, 700, 20480),
        # An eighth of the memory of the nodes is less than that.
        (160, 100, 16384),
        # A full slot needs more than an eighth of the memory, or than half of what is free.
        (64, 40, 11264),
        (64, 16, 11264),
        (768, 12, 11264),
        (768, 10.5, 10241),
        # A full slot does not fit.
        (768, 9, 8192),
        (768, 0.3, 256),
        (768, -5, 0),
    ],
)
def test_the_default_holds_a_full_slot_where_it_can(node_gib: int, spare_gib: float, size: int) -> None:
    assert cache_mib(node_gib, spare_gib) == size


def test_a_small_model_is_not_refused_for_its_prompt_cache() -> None:
    """A model of 270 million parameters on a virtual machine of 21 GiB, and on one of 4 GiB."""
    small = SlotBytes(0, 18 << 10, 8192)
    assert [cache_mib(gib, gib - 2, small, kv_cache=150 * MIB) for gib in (21, 4, 768)] == [2048, 512, 8192]


@pytest.mark.parametrize(
    ("running", "size"),
    [
        (10241, 10241),  # holds a full slot
        (15000, 15000),
        (8192, 20480),  # does not
        (65536, 20480),  # was larger than any default
    ],
)
def test_a_size_that_serves_stays(running: int, size: int) -> None:
    assert cache_mib(768, 700, running=running) == size


def test_an_installed_size_is_read_from_the_unit(host: Host) -> None:
    engine = LlamaEngine()
    engine.remember_installed_unit("chat", "[Service]\nExecStart=/opt/s --port 1 --cache-ram 8192 --slots\nUser=x\n")
    engine.remember_installed_unit("last", "ExecStart=/opt/s --cache-ram 64\n")
    engine.remember_installed_unit("other", "ExecStart=/opt/s --cache-ram-n-min 1\n")
    assert engine._installed_prompt_caches == {"chat": 8192, "last": 64}


def test_a_run_changes_no_prompt_cache_that_serves(tmp_path: Path) -> None:
    """Of a server that runs since there was no default but 8 GiB, too."""
    model = str(architectures.write(tmp_path / "m.gguf", "dense 70B", architectures.Q4_K))
    host = Host(sized("9754"))
    found = []
    for installed in (8192, 20000, 65536):
        engine = LlamaEngine()
        engine.remember_installed_unit("chat", f"ExecStart=/opt/s --cache-ram {installed} --slots")
        for context in (8192, 32768):
            plan = engine.plan_instance(host, options(model=model, context=context), NEW, [], [])
            found.append((installed, context, plan.parameters["prompt_cache"]))
    assert found == [
        *((8192, 8192, 8192), (8192, 32768, 20480)),
        *((20000, 8192, 8192), (20000, 32768, 20000)),
        *((65536, 8192, 8192), (65536, 32768, 20480)),
    ]


def test_a_size_that_is_said_stays(host: Host, models: Models) -> None:
    plan = planned(host, models, context=32768, prompt_cache="8GiB")
    assert (plan.parameters["prompt_cache"], plan.need.prompt_cache) == (8192, 8 * GIB)
    (remark,) = (remark for remark in plan.remarks if remark.startswith("prompt_cache"))
    assert remark.startswith("prompt_cache is 8 GiB, and a full slot of 32768 tokens takes 10.0 GiB: a ")
    assert "more than 26213 tokens is not kept" in remark
    assert not [text for text in planned(host, models, prompt_cache="0MiB").remarks if text.startswith("prompt_cache")]
    assert not [text for text in planned(host, models, context=32768).remarks if text.startswith("prompt_cache")]


def test_checkpoints_are_a_part_of_a_slot() -> None:
    """The server holds the state with all of its checkpoints against the size of the cache."""
    need = MemoryNeed(0, 10 * GIB, 0, checkpoints=8 * GIB)
    plan = plan_prompt_cache(options(prompt_cache="11GiB", slots=2), NEW, SLOT, need, 768 * GIB, 700 * GIB)
    assert not plan.holds_full_slot and "takes 14.0 GiB" in plan.remarks[0]


def test_idle_slots_are_kept_where_the_prompt_cache_cannot_hold_them(host: Host, models: Models) -> None:
    """A server clears the idle slots of a shared KV cache at each request, after it tried to copy them."""
    assert "keep_idle_slots" not in planned(host, models, slots=4).parameters
    for more in ({"prompt_cache": "1GiB"}, {"slot_files": "40GiB"}):
        plan = planned(host, models, slots=4, **more)
        assert plan.parameters["keep_idle_slots"] is True
        assert "--no-cache-idle-slots" in build_arguments(plan.parameters, server("b11434"))
    assert "keep_idle_slots" not in planned(host, models, slots=4, prompt_cache="1GiB", kv_unified=False).parameters


def test_a_pool_of_huge_pages_limits_the_prompt_cache(host: Host, models: Models) -> None:
    """All of an instance is in the pool, its prompt cache too."""
    free = FreeMemory(dict.fromkeys(range(4), 200 * GB), {(node, 2048): 6000 for node in range(4)})
    plan = planned(host, models, free=free, hugepages="pool")
    assert 0 < plan.need.prompt_cache < 8 * GIB and plan.need.total <= 4 * 6000 * 2 * MIB
