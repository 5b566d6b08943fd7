# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bytes of a step of an instance, by the engine and the arguments of its process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory import instance_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model import read_model
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures, ggufs, hosts


def instance(path: Path, architecture: str, engine: str, **arguments: str) -> Any:
    path.write_bytes(ggufs.gguf(ggufs.model(None, architecture, **architectures.HEADS_OF_MLA)))
    return SimpleNamespace(
        cpus=(0,),
        nodes=(0,),
        find_engine=lambda: engine,
        read_gguf_model=lambda: read_model(str(path)),
        process_argument_value=lambda *names: next((arguments[name] for name in names if name in arguments), None),
    )


@pytest.mark.parametrize(
    ("engine", "arguments", "numbers"),
    [
        ("llama.cpp", {}, 128 * (192 + 128)),
        ("ik_llama.cpp", {}, 576),
        ("ik_llama.cpp", {"--mla-use": "0"}, 128 * (192 + 128)),
    ],
)
def test_compressed_keys_by_engine(tmp_path: Path, engine: str, arguments: dict[str, str], numbers: int) -> None:
    target = instance(tmp_path / "m.gguf", "deepseek2", engine, **arguments)
    found = instance_memory.predict_step_bytes_and_bandwidth(hosts.standing("9654").topology(), target)
    assert found is not None and found[0] == 61 * instance_memory.PREDICTED_CONTEXT * numbers * 2 and found[1] > 100


def test_a_model_of_an_unknown_architecture_has_a_remark(tmp_path: Path) -> None:
    (remark,) = instance_memory.list_model_remarks(instance(tmp_path / "m.gguf", "deepseek99", "llama.cpp"))
    assert remark.startswith("The architecture deepseek99 is not known here.")
    assert instance_memory.list_model_remarks(instance(tmp_path / "m.gguf", "deepseek4", "llama.cpp")) == []
    assert instance_memory.list_model_remarks(instance(tmp_path / "m.gguf", "deepseek2", "llama.cpp")) == []
    assert instance_memory.list_model_remarks(SimpleNamespace(read_gguf_model=lambda: None)) == []  # type: ignore[arg-type]
