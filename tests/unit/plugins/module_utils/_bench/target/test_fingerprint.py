# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the fingerprint of a measurement says of host, memory, engine and model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target import (
    fingerprint,
    measured_instance,
    vllm_instance,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._host import smbios
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model import read_model
from ansible_collections.sovereign.epyc.tests.unit.fakes import firmware, ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        yield host


def read(here: Measured) -> dict[str, Any]:
    host = here.host()
    return fingerprint.read_fingerprint(host, measured_instance.find_llama_instance(host, "chat"), ())


def test_host_memory_and_model(here: Measured) -> None:
    here.service.tree.put("/proc/sys/kernel/hostname", "epyc-3")
    table = here.service.tree.root / "sys/firmware/dmi/tables/DMI"
    table.parent.mkdir(parents=True)
    table.write_bytes(firmware.table(firmware.array(3), *(firmware.module(f"A{at}") for at in range(3))))
    found = read(here)
    assert (found["host"], found["dimms"], found["nps"]) == ("epyc-3", "3x 64 GiB DDR5-4800", "NPS4")
    assert (found["model"], found["quantization"]) == ("A Model", "Q4_K")


def test_what_is_not_known(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_instance.MeasuredInstance, "gguf_model_path", lambda self: "/nowhere.gguf")
    found = read(here)
    unknown = ("host", "dimms", "engine", "model", "quantization")
    assert {name: found[name] for name in unknown} == dict.fromkeys(unknown)


@pytest.mark.parametrize(
    ("texts", "engine"),
    [
        ([b"\x7fELF --ctx-size\0", b"\x7fELF"], "llama.cpp"),
        ([b"\x7fELF --ctx-size\0", b"\x7fELF --smart-expert-reduction\0"], "ik_llama.cpp"),
        ([b"\x7fELF packed"], None),
    ],
)
def test_the_engine_by_the_files_of_its_program(
    here: Measured, tmp_path: Path, texts: list[bytes], engine: str | None
) -> None:
    files = [tmp_path / f"program-{at}" for at in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_bytes(text)
    here.planned(files={here.model: [1, 1]}, mapped=[here.model], programs={str(file): [1, 1] for file in files})
    assert read(here)["engine"] == engine


def test_modules_of_several_kinds() -> None:
    modules = [firmware.module("A1"), firmware.module("B1", mib=32768, configured=0, rated=5600), firmware.empty("C1")]
    modules.append(firmware.module("D1", rated=12800, configured=12800, kind=0x25))
    slots = smbios.parse_memory_slots(firmware.table(firmware.array(4), *modules))
    assert smbios.MemorySlots(slots).format_modules() == (
        "1x 32 GiB DDR5-5600, 1x 64 GiB DDR5-4800, 1x 64 GiB MRDIMM-12800"
    )
    assert smbios.MemorySlots([]).format_modules() == ""
    assert smbios.MemorySlots([smbios.Slot("A", "", None, 0, 0)]).format_modules() == "1x memory"


@pytest.mark.parametrize(("number", "name"), [(15, "Q4_K_M"), (0, "F32"), (999, "Q4_K")])
def test_the_name_of_a_quantization(tmp_path: Path, number: int, name: str) -> None:
    """The type with the most bytes stands for a file type that no table has."""
    tensors = [ggufs.tensor("a", (256, 64), 12, 0), ggufs.tensor("b", (32,), 0, 144 * 64)]
    entries = ggufs.model(more=[ggufs.entry("general.file_type", "I", number)])
    (tmp_path / "m.gguf").write_bytes(ggufs.gguf(entries, tensors, 144 * 64 + 128))
    assert read_model(str(tmp_path / "m.gguf")).quantization == name


@pytest.mark.parametrize(
    ("config", "quantization"),
    [
        ({"quantization_config": {"quant_method": "compressed-tensors"}, "dtype": "bfloat16"}, "compressed-tensors"),
        ({"torch_dtype": "bfloat16"}, "bfloat16"),
        (None, None),
    ],
)
def test_a_model_of_vllm(tmp_path: Path, config: dict[str, Any] | None, quantization: str | None) -> None:
    folder = tmp_path / "Qwen3-8B-W8A8"
    folder.mkdir()
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    target: Any = SimpleNamespace(plan={"details": {"model": str(folder)}})
    names = vllm_instance.MeasuredVllm.read_model_name_and_quantization(target)
    assert names == ("Qwen3-8B-W8A8", quantization)
