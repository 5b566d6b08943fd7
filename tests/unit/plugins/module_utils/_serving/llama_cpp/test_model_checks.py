# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files of a model are refused for a server, each odd in one way, and which are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.serving_checks.weight_samples import (
    all_zero_matrix_reasons,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import model_checks
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.capabilities import Capabilities
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, heads, odd_models

LLAMA, IK = "llama.cpp", "ik_llama.cpp"
BINARY = "/opt/llama-server"
#: Names as a program holds them; one is the end of a longer text.
NAMES = b"\0llama\0qwen2\0starcoder\0iq4_nl\0a-q2_0\0mxfp4\0clip\0dflash\0"
HOLES = 64 << 20


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "libllama.so"
    path.write_bytes(NAMES)
    return path


def server(program: Path, engine: str = LLAMA) -> Capabilities:
    made = Capabilities(BINARY, engine, {}, None)
    made.files = {str(program): [1, 1]}
    return made


def check(made: Capabilities | None, model: Path | str, **more: Any) -> None:
    asked = {"name": "chat", "port": 8080, "binary": BINARY, "model": str(model), **more}
    files = model_checks.ServedFiles(Options.parse(asked))
    model_checks.require_sound_headers(files, made)
    model_checks.require_loadable_models(files, made)


def refusal(made: Capabilities | None, model: Path | str, **more: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        check(made, model, **more)
    text = str(caught.value)
    assert text.isprintable() and text.endswith("."), text
    return text


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", odd_models.REFUSED)
def test_a_file_that_no_server_serves_is_refused(name: str, tmp_path: Path, program: Path) -> None:
    make, words = odd_models.REFUSED[name]
    assert words in refusal(server(program), written(tmp_path / "m.gguf", make()))


@pytest.mark.parametrize("engine", [LLAMA, IK, None])
@pytest.mark.parametrize("name", odd_models.SERVED)
def test_an_unusual_file_is_not(name: str, engine: str | None, tmp_path: Path, program: Path) -> None:
    path = written(tmp_path / "m.gguf", odd_models.SERVED[name]())
    check(server(program, engine) if engine else None, path)


@pytest.mark.parametrize("files", list(odd_models.list_models_in_parts()), ids=lambda files: files[0])
def test_a_model_in_parts(files: tuple[str, dict[str, bytes], str, bool], tmp_path: Path, program: Path) -> None:
    dummy, parts, named, is_whole = files
    for name, content in parts.items():
        written(tmp_path / name, content)
    if is_whole:
        check(server(program), tmp_path / named)
    else:
        assert "cannot be read: No such file or directory" in refusal(server(program), tmp_path / named)


@pytest.mark.parametrize("make", [heads.model, heads.experts, lambda: heads.model(5)])
def test_models_that_real_servers_take(make: Any, tmp_path: Path, program: Path) -> None:
    check(server(program), written(tmp_path / "m.gguf", make()))


# What the program is asked


def test_what_a_program_holds(program: Path, tmp_path: Path) -> None:
    assert [server(program).holds_name(name) for name in ("llama", "q2_0", "foobar9")] == [True, True, False]
    assert server(written(tmp_path / "packed", b"\0llama\0")).holds_name("foobar9") is None
    assert server(written(tmp_path / "empty", b"")).holds_name("llama") is None
    assert Capabilities(BINARY, LLAMA, {}, None).holds_name("llama") is None


def test_nothing_is_refused_for_what_a_program_does_not_say(tmp_path: Path) -> None:
    path = written(tmp_path / "m.gguf", odd_models.REFUSED["unkarch_whole"][0]())
    check(server(written(tmp_path / "packed", b"\0llama\0")), path)


@pytest.mark.parametrize(
    ("engine", "kind", "words"),
    [
        (IK, odd_models.Q4_K_R4, None),
        (IK, odd_models.I2_S, None),
        (IK, 34, "types that only llama.cpp reads (TQ1_0), and /opt/llama-server is ik_llama.cpp"),
        (IK, 42, None),
        (LLAMA, 40, "that this build of llama.cpp does not know (NVFP4): /opt/llama-server does not hold"),
        (LLAMA, 39, None),
        (LLAMA, 43, None),
        (IK, 77, "of a type that no engine knows (type 77)"),
        (LLAMA, 4, "of a type that no engine knows (type 4)"),
    ],
)
def test_types_of_tensors(engine: str, kind: int, words: str | None, tmp_path: Path, program: Path) -> None:
    """A number that the next build of llama.cpp may have, and a name that the program holds, refuse nothing."""
    whole = odd_models.Parsed().with_type(kind)
    *dummy, content = whole.tensor("blk.0.ffn_up.weight")
    assert isinstance(content, bytes)
    block, size = {34: (256, 54), 39: (32, 17), 40: (64, 36), 42: (64, 18)}.get(kind, (1, 4))
    whole.tensor("blk.0.ffn_up.weight")[3] = content[: 256 * 256 // block * size]
    path = written(tmp_path / "m.gguf", whole.write())
    if words:
        assert words in refusal(server(program, engine), path)
    else:
        check(server(program, engine), path)


# What an instance says beside its model


def test_an_override_is_believed(tmp_path: Path, program: Path) -> None:
    path = written(tmp_path / "m.gguf", odd_models.REFUSED["ctx0"][0]())
    check(server(program), path, extra_arguments=["--override-kv", "llama.context_length=int:512"])


def test_another_template_is_taken(tmp_path: Path, program: Path) -> None:
    path = written(tmp_path / "m.gguf", odd_models.REFUSED["notemplate_bad"][0]())
    template = written(tmp_path / "t.jinja", odd_models.WHOLE_TEMPLATE)
    check(server(program), path, chat_template=str(template))
    check(server(program), path, extra_arguments=["--chat-template", "chatml"])
    check(server(program, IK), path)
    template.write_bytes(odd_models.BAD_TEMPLATE)
    assert f"chat_template: {template} cannot be parsed: its mark" in refusal(
        server(program), path, chat_template=str(template)
    )


def projector(path: Path, width: int, rows: int, architecture: str = "clip") -> str:
    entries = [ggufs.entry("general.architecture", "8", architecture.encode())]
    entries += [ggufs.entry("clip.vision.projection_dim", "I", width)]
    return str(written(path, ggufs.gguf(entries, [ggufs.tensor("mm.2.weight", (64, rows), 0, 0)], 4 * 64 * rows)))


def test_projectors(tmp_path: Path, program: Path) -> None:
    """A width that only the header or only a shape has is enough, since converters differed."""
    model = written(tmp_path / "m.gguf", heads.model())
    path = tmp_path / "p.gguf"
    for width, rows in ((256, 512), (768, 256)):
        check(server(program), model, projector=projector(path, width, rows))
    assert f"{path} makes vectors of 768 numbers, and {model} reads vectors of 256" in refusal(
        server(program), model, projector=projector(path, 768, 512)
    )
    assert f"projector: {path} is a model of the architecture qwen2, not a projector" in refusal(
        server(program), model, projector=projector(path, 256, 256, "qwen2")
    )
    assert f"projector: {model} is a model of the architecture llama" in refusal(
        server(program), model, projector=str(model)
    )


# Files that are not whole


def large(path: Path, zero: tuple[str, ...] = (), name: str = "ffn_up") -> Path:
    """A model of four layers and 64 MiB, of which some tensors are holes."""
    whole = odd_models.Parsed(4)
    for number in range(4):
        tensor = whole.tensor(f"blk.{number}.ffn_up.weight")
        tensor[0], tensor[1] = f"blk.{number}.{name}.weight", (256, HOLES // 4 // 1024)
        tensor[3] = bytes(HOLES // 4) if tensor[0] in zero else b"\1" * (HOLES // 4)
    for tensor in whole.tensors:
        tensor[3] = tensor[3] if any(tensor[3][:1000]) or "ffn_up" in str(tensor[0]) else b"\1" * len(tensor[3])
    return written(path, whole.put("general.architecture", "8", b"dflash").write())


def test_weights_that_are_all_zero_are_refused(tmp_path: Path) -> None:
    assert list(all_zero_matrix_reasons(model_of(large(tmp_path / "whole.gguf")))) == []
    (reason,) = all_zero_matrix_reasons(model_of(large(tmp_path / "half.gguf", ("blk.2.ffn_up.weight",))))
    assert "has only zeros in the tensor blk.2.ffn_up.weight, where weights should be" in reason


def test_weights_that_may_be_zero_are_not(tmp_path: Path) -> None:
    """Layers that were added to a model give out nothing at first, and small files are test models."""
    path = large(tmp_path / "added.gguf", ("blk.2.ffn_down.weight",), "ffn_down")
    assert list(all_zero_matrix_reasons(model_of(path))) == []
    assert list(all_zero_matrix_reasons(model_of(written(tmp_path / "s.gguf", heads.model())))) == []


def model_of(path: Path) -> gguf_model.Model:
    return gguf_model.read_model(str(path))
