# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The numbers of a model that decide its speed, from a file and from an entry of the catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import (
    shape_of_catalogue_entry,
    shape_of_model,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs

DENSE = {
    "architecture": "llama",
    "quantization": "Q4_K_M",
    "parameters": 70.6e9,
    "active_parameters": 70.6e9,
    "file_bytes": 42.5e9,
    "layers": 80,
    "kv_bytes_per_token": 327_680,
    "trained_context": 131_072,
}
MIXTURE = {**DENSE, "architecture": "qwen3moe", "parameters": 30.5e9, "active_parameters": 3.3e9, "file_bytes": 18.6e9}


def test_the_shape_of_a_file(tmp_path: Path) -> None:
    shape = shape_of_model(ggufs.written(tmp_path / "m.gguf", 144_000))
    assert (shape.name, shape.architecture, shape.layers, shape.trained_context) == ("A Model", "llama", 80, 131_072)
    assert (shape.bytes_per_token, shape.active_parameters, shape.parameters) == (144_000, 256_000, 256_000)
    assert shape.kv_bytes_per_token == 80 * 2 * 8 * 128 * 2
    assert not shape.is_mixture


def test_the_shape_of_a_mixture_of_experts(tmp_path: Path) -> None:
    model = ggufs.written(tmp_path / "m.gguf", 144_000, experts=8, used=2, expert_weights=14_400)
    shape = shape_of_model(model)
    assert shape.is_mixture and shape.expert_share == 0.25
    assert shape.bytes_per_token == 144_000 + 14_400 / 4
    assert shape.file_bytes == 144_000 + 14_400
    assert shape_of_model(model, experts_per_token=1).expert_share == 0.125


def test_the_shape_of_a_catalogue_entry() -> None:
    dense = shape_of_catalogue_entry("llama-70b", {"shape": DENSE})
    assert dense.bytes_per_token == 42.5e9 and not dense.is_mixture
    mixture = shape_of_catalogue_entry("30b-a3b", {"shape": MIXTURE})
    assert mixture.is_mixture and mixture.bytes_per_token == pytest.approx(18.6e9 * 3.3 / 30.5)
    again = shape_of_catalogue_entry("30b-a3b", {"shape": mixture.to_dict()})
    assert again.to_dict() == mixture.to_dict()


def test_more_streams_of_a_mixture_read_more_experts() -> None:
    dense = shape_of_catalogue_entry("llama-70b", {"shape": DENSE})
    assert dense.bytes_read_by_streams(8) == dense.bytes_per_token
    mixture = shape_of_catalogue_entry("30b-a3b", {"shape": MIXTURE})
    read = [mixture.bytes_read_by_streams(streams) for streams in (1, 2, 8, 1000)]
    assert read == sorted(read) and read[0] == mixture.bytes_per_token
    assert read[-1] == pytest.approx(mixture.file_bytes)


def test_an_entry_without_its_numbers_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"^odd: its shape lacks file_bytes and layers, so its speed cannot"):
        shape_of_catalogue_entry("odd", {"shape": {"parameters": 1e9, "active_parameters": 1e9}})
