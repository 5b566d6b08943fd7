# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gguf_info says of the bytes of a token; what it says of files is tested with the reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._models import known_architectures
from ansible_collections.sovereign.epyc.plugins.modules import gguf_info
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs

OPTIONS: dict[str, Any] = {
    name: option.get("default") for name, option in yaml.safe_load(gguf_info.DOCUMENTATION)["options"].items()
}


def asked(path: Path, **options: Any) -> dict[str, Any]:
    return gguf_info.read_model_facts({**OPTIONS, "model": str(path), **options}, KernelFS(read_only=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model in the shape of Llama 3 70B with few weights."""
    ggufs.written(tmp_path / "m.gguf", 144_000)
    return tmp_path / "m.gguf"


def test_the_bytes_of_a_token(path: Path) -> None:
    """80 layers keep 8 heads of 128 numbers, keys and values."""
    found = asked(path)["traffic"]
    assert found["parts"] == {
        "layers": 144_000,
        "experts": 0,
        "output": 0,
        "kv": 80 * 4096 * 8 * 256 * 2,
        "state": 0,
    }
    assert (found["bytes"], found["tokens"]) == (sum(found["parts"].values()), 1)


def test_what_is_asked_for_counts(path: Path) -> None:
    options = {"context": 100, "streams": 3, "cache_type_k": "q8_0", "cache_type_v": "q4_0"}
    found = asked(path, draft=str(path), draft_max=5, **options)["traffic"]
    assert found["parts"]["kv"] == 3 * 80 * 100 * 8 * 128 * (34 + 18) // 32
    assert (found["parts"]["draft"], found["tokens"]) == (5 * 144_000, 18)
    assert found["parts"]["draft_context"] == 5 * 3 * 80 * 100 * 8 * 256 * 2
    assert "draft" not in asked(path, **options)["traffic"]["parts"]


def test_a_header_that_says_too_little(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(ggufs.gguf(ggufs.model()))
    assert asked(path)["traffic"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"context": -1}, "context is -1; say 0 or more."),
        ({"streams": 0}, "streams is 0; say 1 or more."),
        ({"draft_max": 3}, "draft_max needs a draft;"),
    ],
)
def test_what_makes_no_sense_is_refused(path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        asked(path, **options)


def test_an_unknown_architecture_is_said_to_be_so(path: Path, tmp_path: Path) -> None:
    assert (asked(path)["traffic"]["known"], asked(path)["remarks"]) == (True, [])
    shape = {"block_count": 4, "embedding_length": 512, "attention.head_count": 8, "attention.head_count_kv": 2}
    (tmp_path / "new.gguf").write_bytes(ggufs.gguf(ggufs.model(None, "nanbeige", **shape)))
    found = asked(tmp_path / "new.gguf")
    assert found["traffic"]["known"] is False and found["traffic"]["parts"]["kv"] > 0
    assert found["remarks"] == [
        "The architecture nanbeige is not known here. Its KV cache counts as if each layer stored and read every "
        "token, and may be far smaller."
    ]


def test_each_architecture_is_in_one_kind_of_table() -> None:
    plain, special = known_architectures.PLAIN_ARCHITECTURES, set(known_architectures.SPECIAL_ARCHITECTURES)
    assert list(plain) == sorted(set(plain)) and not special & set(plain)
    assert {"llama", "qwen3moe", "deepseek2", "gpt-oss", "mamba", "bert"} <= special | set(plain)
    assert not (special | set(plain)) & set(known_architectures.UNREAD_ARCHITECTURES)
