# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options import adapters
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs


def written(path: Path, architecture: str = "llama", adapter: bytes | None = b"lora") -> gguf_model.Model:
    more = [ggufs.entry("general.type", "8", b"adapter"), ggufs.entry("adapter.type", "8", adapter)] if adapter else []
    path.write_bytes(ggufs.gguf(ggufs.model(None, architecture, more)))
    return gguf_model.read_model(str(path))


def test_an_adapter_belongs_to_models_of_its_architecture(tmp_path: Path) -> None:
    model = written(tmp_path / "m.gguf", adapter=None)
    adapters.validate_adapters([written(tmp_path / "a.gguf"), written(tmp_path / "b.gguf")], model)
    with pytest.raises(BadRequest, match=r"c.gguf is for models of the architecture qwen3, and .*m.gguf is llama"):
        adapters.validate_adapters([written(tmp_path / "c.gguf", "qwen3")], model)


@pytest.mark.parametrize("kind", [None, b"control_vector"])
def test_what_is_no_adapter(tmp_path: Path, kind: bytes | None) -> None:
    model = written(tmp_path / "m.gguf", adapter=None)
    with pytest.raises(BadRequest, match=r"a.gguf is no LoRA adapter, by its header"):
        adapters.validate_adapters([written(tmp_path / "a.gguf", adapter=kind)], model)


def test_scales_as_the_server_takes_them() -> None:
    scales = adapters.parse_adapter_scales({"/srv/a.gguf": "0.5", "/srv/b.gguf": 1, "/srv/c.gguf": -2})
    assert adapters.format_lora_scaled_value(scales) == "/srv/a.gguf:0.5,/srv/b.gguf:1,/srv/c.gguf:-2"
