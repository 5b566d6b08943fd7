# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The largest models of the example inventory, planned for the 9754 from files that have their headers and holes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.planner import plan_instance
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.start_limits import compute_start_timeout
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import NEW, machine

EXAMPLE = Path(__file__).parents[2] / "inventories/example/group_vars"
GIB = 1 << 30
Q4_K, Q6_K = 12, 14
BLOCKS = {Q4_K: (256, 144), Q6_K: (256, 210)}

Tensors = list[tuple[str, tuple[int, ...], int]]


def llama_405b() -> tuple[str, dict[str, int], Tensors]:
    """Half of the matrices that Q4_K_M makes Q6_K are those of values and the downward ones."""
    wide, inner, keys = 16384, 53248, 1024
    tensors: Tensors = [("token_embd.weight", (wide, 128256), Q4_K), ("output.weight", (wide, 128256), Q6_K)]
    for layer in range(126):
        better = Q6_K if layer % 2 else Q4_K
        tensors += [
            (f"blk.{layer}.attn_q.weight", (wide, wide), Q4_K),
            (f"blk.{layer}.attn_k.weight", (wide, keys), Q4_K),
            (f"blk.{layer}.attn_v.weight", (wide, keys), better),
            (f"blk.{layer}.attn_output.weight", (wide, wide), Q4_K),
            (f"blk.{layer}.ffn_gate.weight", (wide, inner), Q4_K),
            (f"blk.{layer}.ffn_up.weight", (wide, inner), Q4_K),
            (f"blk.{layer}.ffn_down.weight", (inner, wide), better),
        ]
    numbers = {
        "block_count": 126,
        "context_length": 131072,
        "embedding_length": wide,
        "feed_forward_length": inner,
        "attention.head_count": 128,
        "attention.head_count_kv": 8,
    }
    return "llama", numbers, tensors


def deepseek_671b() -> tuple[str, dict[str, int], Tensors]:
    wide, expert, experts, heads = 7168, 2048, 256, 128
    tensors: Tensors = [("token_embd.weight", (wide, 129280), Q4_K), ("output.weight", (wide, 129280), Q6_K)]
    for layer in range(61):
        better = Q6_K if layer % 2 else Q4_K
        tensors += [
            (f"blk.{layer}.attn_q_a.weight", (wide, 1536), Q4_K),
            (f"blk.{layer}.attn_q_b.weight", (1536, heads * 192), Q4_K),
            (f"blk.{layer}.attn_kv_a_mqa.weight", (wide, 576), Q4_K),
            (f"blk.{layer}.attn_kv_b.weight", (512, heads * 256), Q4_K),
            (f"blk.{layer}.attn_output.weight", (heads * 128, wide), Q4_K),
        ]
        if layer < 3:
            tensors += [
                (f"blk.{layer}.ffn_gate.weight", (wide, 18432), Q4_K),
                (f"blk.{layer}.ffn_up.weight", (wide, 18432), Q4_K),
                (f"blk.{layer}.ffn_down.weight", (18432, wide), better),
            ]
            continue
        for kind, shape in (("gate", (wide, expert)), ("up", (wide, expert)), ("down", (expert, wide))):
            of_kind = better if kind == "down" else Q4_K
            tensors += [
                (f"blk.{layer}.ffn_{kind}_exps.weight", (*shape, experts), of_kind),
                (f"blk.{layer}.ffn_{kind}_shexp.weight", shape, of_kind),
            ]
    numbers = {
        "block_count": 61,
        "context_length": 163840,
        "embedding_length": wide,
        "feed_forward_length": 18432,
        "expert_feed_forward_length": expert,
        "expert_count": experts,
        "expert_used_count": 8,
        "expert_shared_count": 1,
        "attention.head_count": heads,
        "attention.head_count_kv": 1,
        "attention.kv_lora_rank": 512,
        "attention.q_lora_rank": 1536,
        "attention.key_length": 576,
        "attention.value_length": 512,
        "attention.key_length_mla": 192,
        "attention.value_length_mla": 128,
        "rope.dimension_count": 64,
    }
    return "deepseek2", numbers, tensors


def write_and_read_model(path: Path, architecture: str, numbers: dict[str, int], tensors: Tensors) -> gguf_model.Model:
    described, end = [], 0
    for name, shape, kind in tensors:
        described.append(ggufs.tensor(name, shape, kind, end))
        block, size = BLOCKS[kind]
        elements = 1
        for length in shape:
            elements *= length
        end += elements // block * size
    more: dict[str, Any] = dict(numbers)
    content = ggufs.gguf(ggufs.model(architecture=architecture, **more), described)
    with path.open("wb") as file:
        file.write(content)
        file.truncate(len(content) + end)
    return gguf_model.read_model(str(path))


def plan_group_instance(group: str, folder: Path, model: gguf_model.Model, gib_of_node: int) -> InstancePlan:
    """Plan the instance of a group on four nodes that have so much memory each."""
    (raw,) = yaml.safe_load((EXAMPLE / f"{group}.yml").read_text())["epyc_llama_instances"]
    options = Options.parse({"binary": "/opt/llama-server", **raw})
    draft = ggufs.written(folder / "draft.gguf", 8 * GIB // 10) if options.uses_draft else None
    host = machine("9754")
    free = FreeMemory({node.id: gib_of_node * GIB for node in host.topology.nodes})
    return plan_instance(options, host, NEW, model, draft, free)


CASES: list[Any] = [
    pytest.param("dense_405b", llama_405b, (220, 235), 512, id="405b"),
    pytest.param("experts_671b", deepseek_671b, (370, 385), 768, id="671b"),
]


@pytest.mark.parametrize(("group", "shape", "gib", "memory"), CASES)
def test_it_fits_on_the_host_that_has_it(
    tmp_path: Path, group: str, shape: Any, gib: tuple[int, int], memory: int
) -> None:
    model = write_and_read_model(tmp_path / "model.gguf", *shape())
    found = plan_group_instance(group, tmp_path, model, memory // 4 - 8)
    weights = sum(part.data_bytes for part in model.parts) / GIB
    assert gib[0] < weights < gib[1]
    assert found.placement.policy == "interleave" and found.placement.nodes == (0, 1, 2, 3)
    assert found.parameters["load"] == "dio" and found.expect["hugepages"] == {
        "thp": f"{found.need.weights * 80 // 100 >> 20}MiB"
    }
    # A disk that reads 1 GB a second is a slow one.
    assert compute_start_timeout(found) > weights * 1.074
    with pytest.raises(BadRequest, match=r"The instance needs .* evenly available"):
        plan_group_instance(group, tmp_path, model, int(weights) // 4)
