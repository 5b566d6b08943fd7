# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which models need ik_llama.cpp, and for which it is proposed, with a source and without choosing it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend import engine_choice
from ansible_collections.sovereign.epyc.tests.unit.fakes.ggufs import written
from ansible_collections.sovereign.epyc.tests.unit.fakes.recommendations import free_all_ports, instances, recommended
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import sized

#: Numbers of tensor types in a file.
Q4_K, IQ4_XS, IQ4_K = 12, 23, 139
GB = 10**9


def model(architecture: str, **bytes_by_type: int) -> Any:
    tensors = [SimpleNamespace(type=name, bytes=size) for name, size in bytes_by_type.items()]
    return SimpleNamespace(
        path="/srv/m.gguf", architecture=architecture, tensors=tensors, weight_bytes=sum(bytes_by_type.values())
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (model("llama", Q4_K=9, IQ4_XS=8), ""),
        (model("llama", Q4_K=8, IQ4_XS=8), "discussion #164"),
        (model("qwen3moe", Q4_K=9, Q6_K=3), ""),
        (model("deepseek2", Q4_K=9), "ik_llama.cpp #1752"),
        (model("glm-dsa", IQ2_XXS=9), "ik_llama.cpp #1752"),
        (model("glm4moe", Q4_K=9), "ik_llama.cpp #899"),
    ],
)
def test_it_is_proposed_where_somebody_measured_that_it_wins(asked: Any, words: str) -> None:
    remarks = engine_choice.list_engine_remarks([asked, asked], None)
    assert len(remarks) == bool(words)
    for remark in remarks:
        assert words in remark and remark.startswith("/srv/m.gguf: ik_llama.cpp may serve it faster than llama.cpp")
        assert "epyc_llama_engine: ik_llama.cpp" in remark and "epyc_ablation_arms" in remark and remark.endswith(".")
    assert engine_choice.engine_for_model(asked) == "llama.cpp"


def test_it_is_not_proposed_where_it_is_the_server(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    for flag, number in ((b"--smart-expert-reduction", 0), (b"--ctx-size", 1)):
        program.write_bytes(b"\x7fELF\0" + flag + b"\0")
        assert len(engine_choice.list_engine_remarks([model("deepseek2", Q4_K=9)], str(program))) == number


def test_a_file_that_only_it_reads_is_planned_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free_all_ports(monkeypatch)
    fs = sized("9354")
    for name, kind in (("plain", Q4_K), ("tables", IQ4_XS), ("own", IQ4_K)):
        path = written(tmp_path / f"{name}.gguf", 2 * GB, kind=kind).path
        result = recommended(fs, [{"model": path}], tmp_path)
        (one,) = instances(result)
        assert one.get("engine") == ("ik_llama.cpp" if name == "own" else None)
        assert ("Only ik_llama.cpp reads its types of weights (IQ4_K)" in result["text"]) == (name == "own")
        assert any("discussion #164" in remark for remark in result["remarks"]) == (name == "tables")
