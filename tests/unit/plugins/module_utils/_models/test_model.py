# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reader of model files, on files that are written here: whole ones, broken ones, and ones that are no models."""

from __future__ import annotations

import os
import struct
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import draft_compatibility as pairs
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.gguf import read_header
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable
from ansible_collections.sovereign.epyc.tests.unit.fakes.ggufs import (
    TOKENS,
    WHOLE,
    entry,
    gguf,
    model,
    tensor,
    text,
)


def read(path: Path, content: bytes) -> gguf_model.Model:
    path.write_bytes(content)
    return gguf_model.read_model(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


# Whole files


@pytest.mark.parametrize("version", [2, 3])
def test_what_a_model_is(path: Path, version: int) -> None:
    content = WHOLE[:4] + struct.pack("<I", version) + WHOLE[8:]
    found = read(path, content).to_dict()
    digest = found["vocabulary"].pop("digest")
    assert found == {
        "path": str(path),
        "files": [str(path)],
        "size": len(content),
        "architecture": "llama",
        "name": "A Model",
        "layers": 80,
        "context": 8192,
        "embedding": None,
        "experts": 8,
        "experts_used": 2,
        "tensors": 3,
        "tensor_bytes": 4 * 144 + 16 * 34 + 32,
        "expert_bytes": 16 * 34,
        "tensor_types": {"Q4_K": 4 * 144, "Q8_0": 16 * 34, "F32": 32},
        "vocabulary": {"model": "gpt2", "tokens": len(TOKENS)},
    }
    assert len(digest) == 64


def test_the_pooling_of_a_header_is_a_number_or_absent(path: Path) -> None:
    assert read(path, gguf(model(TOKENS, architecture="bert", pooling_type=1))).pooling_type == 1
    assert read(path, gguf(model(TOKENS))).pooling_type is None
    assert read(path, gguf(model(TOKENS, more=[entry("llama.pooling_type", "8", b"mean")]))).pooling_type is None


def test_the_digest_is_of_the_tokens_and_their_order(path: Path) -> None:
    digests = set()
    for tokens in (TOKENS, TOKENS[::-1], TOKENS[:-1], [b"ab", b"c"], [b"a", b"bc"]):
        digests.add(read(path, gguf(model(tokens))).vocabulary_digest)
    assert len(digests) == 5
    assert read(path, gguf(model(TOKENS, architecture="qwen2", block_count=1))).vocabulary_digest in digests
    assert read(path, gguf(model(None))).vocabulary_digest is None


def test_tensors_of_types_that_are_not_known_reach_to_the_next(path: Path) -> None:
    """The last one to the end of the file, in whatever order they are listed."""
    listed = [
        tensor("blk.0.ffn_up_exps.weight", (32, 4), 139, 128),
        tensor("a", (32,), 0, 0),
        tensor("b", (32,), 0, 256),
        tensor("c", (64,), 250, 384),
    ]
    model_read = read(path, gguf(model(), listed, 512))
    found = model_read.to_dict()
    assert (found["tensor_bytes"], found["expert_bytes"]) == (512, 128)
    assert found["tensor_types"] == {"IQ4_K": 128, "F32": 256, "type 250": 128}
    assert model_read.unknown_tensor_types == ["IQ4_K", "type 250"]
    assert [one.elements for one in model_read.tensors] == [128, 32, 32, 64]


def test_an_alignment_of_its_own(path: Path) -> None:
    entries = model(more=[entry("general.alignment", "I", 4096)])
    read(path, gguf(entries, [tensor("a", (32,), 0, 0)], 128, align=4096))
    with pytest.raises(BadRequest, match="its tensors need 128 B after the header, and 127 B are there"):
        read(path, gguf(entries, [tensor("a", (32,), 0, 0)], 127, align=4096))


values = st.one_of(
    *(
        st.tuples(st.just(letter), st.integers(low, high))
        for letter, low, high in [("B", 0, 255), ("b", -128, 127), ("H", 0, 65535), ("h", -32768, 32767)]
    ),
    st.tuples(st.just("I"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("q"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("?"), st.booleans()),
    st.tuples(st.just("d"), st.floats(allow_nan=False)),
    st.tuples(st.just("8"), st.text().map(str.encode)),
    st.tuples(st.just("AI"), st.lists(st.integers(0, 2**32 - 1), max_size=1100)),
    st.tuples(st.just("A8"), st.lists(st.binary(max_size=9), max_size=9)),
)


@given(table=st.dictionaries(st.text(min_size=1, max_size=20).filter(str.isprintable), values, max_size=8))
def test_every_value_is_read_as_it_was_written(table: dict[str, tuple[str, Any]]) -> None:
    """Long arrays of numbers and texts but the tokens are passed over, and what follows them is still right.

    Characters that would control a terminal are escaped in texts.
    """
    table = {f"x.{key}": value for key, value in table.items()}
    with tempfile.TemporaryDirectory() as folder:
        entries = [entry(key, *value) for key, value in table.items()]
        found = read(Path(folder, "model.gguf"), gguf([*entries, *model()]))
    for key, (letter, value) in table.items():
        if letter == "A8" or (letter == "AI" and len(value) > 1024):
            assert found.values[key] is None
        else:
            assert found.values[key] == (escape_unprintable(value.decode()) if letter == "8" else value)
    assert found.tokens == TOKENS


# Broken files


@given(cut=st.integers(0, len(WHOLE) - 1))
def test_a_file_that_was_cut_off_anywhere_is_refused(cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.raises(BadRequest) as caught:
        read(Path(folder, "model.gguf"), WHOLE[:cut])
    assert "is truncated" in str(caught.value) or cut < 4


@pytest.mark.parametrize("cut", range(WHOLE.rindex(TOKENS[-2]), WHOLE.rindex(TOKENS[-1]) + len(TOKENS[-1])))
def test_a_file_that_shrinks_while_it_is_read_is_refused(cut: int) -> None:
    with pytest.raises(BadRequest, match=r"truncated or damaged: its \d+ bytes end within tokenizer"):
        read_header(BytesIO(WHOLE[:cut]), "model", len(WHOLE))


@given(at=st.integers(0, len(WHOLE) - 1), value=st.binary(min_size=1, max_size=8))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(at: int, value: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            read(Path(folder, "model.gguf"), WHOLE[:at] + value + WHOLE[at + len(value) :]).to_dict()
        except BadRequest as error:
            assert str(error).startswith(folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "It is empty: the download did not begin"),
        (bytes(100), "It is zero at its start: the download did not finish"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "It is a pointer of Git LFS"),
        (b"<!DOCTYPE html><html>", "It is an HTML or XML page"),
        (b'{"error":"gone"}', "It is a JSON text"),
        (b"PK\3\4 archive/data.pkl", "It is a zip archive, for example of PyTorch"),
        (struct.pack("<Q", 500) + b'{"model.embed"', "It is a safetensors file: convert"),
        (b"tjgg\1\0\0\0", "in the format GGJT of early 2023"),
        (b"FUGG\3\0\0\0", "bytes swapped"),
        (b"\x7fELF", "not a GGUF file. It is something else"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "for big-endian machines; an EPYC is little-endian"),
        (b"GGUF" + struct.pack("<III", 1, 0, 0), "version 1, which llama.cpp no longer reads"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "version 4, but only 2 and 3 are known"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60), "truncated or damaged: its 24 bytes end within a header of"),
        (gguf([]), "has no general.architecture"),
        (gguf([text(b"a") + struct.pack("<I", 13) + bytes(90)]), "the value a has the unknown type 13"),
        (
            gguf([text(b"a") + struct.pack("<IIQ", 9, 9, 1) + bytes(90)]),
            "the array a has elements of the unknown type 9",
        ),
        (gguf([text(b"a") + struct.pack("<IIQ", 9, 8, 2**20) + bytes(90)]), "end within a. Get it again"),
        (gguf([text(b"a") + struct.pack("<IIQ", 9, 12, 2**20) + bytes(90)]), "end within a. Get it again"),
        (gguf([text(b"a") + struct.pack("<IIQ", 9, 12, 2**61) + bytes(90)]), f"a would have {2**61} elements"),
        (gguf([struct.pack("<Q", 2**63) + bytes(90)]), f"the name of value 0 would be {2**63} bytes long"),
        (gguf([*model(), *model()]), "it names the value general.architecture twice"),
        (gguf(model(), [tensor("a", (8,) * 5, 0, 0)]), "the tensor a has 5 dimensions"),
        (gguf(model(), [tensor("a", (100,), 12, 0)], 999), "tensor a have 100 elements, no multiple of 256 as Q4_K"),
        (gguf(model(more=[entry("general.alignment", "I", 0)])), "its alignment is 0"),
    ],
)
def test_what_is_wrong_is_said(path: Path, content: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(path, content)
    assert str(caught.value).startswith(f"{path} ") and words in str(caught.value)


def test_a_file_that_is_not_there(path: Path) -> None:
    with pytest.raises(BadRequest, match=r"model\.gguf cannot be read: No such file or directory\."):
        gguf_model.read_model(str(path))
    with pytest.raises(BadRequest, match="Is a directory"):
        gguf_model.read_model(str(path.parent))
    # Red for a plain open(), which waits until somebody writes into it.
    os.mkfifo(path)
    with pytest.raises(BadRequest, match=r"model\.gguf cannot be read: It is no regular file\."):
        gguf_model.read_model(str(path))


# Several files


def split(folder: Path, claimed: int = 3) -> list[Path]:
    """A model in two files: the second has tensors and almost no values."""
    paths = [folder / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    first = model(block_count=2, more=[entry("split.tensors.count", "i", claimed)])
    paths[0].write_bytes(gguf(first, [tensor("a", (32,), 0, 0)], 128))
    rest = [tensor("b", (32,), 0, 0), tensor("c", (32,), 0, 128)]
    paths[1].write_bytes(gguf([entry("split.no", "H", 1)], rest, 256))
    return paths


@pytest.mark.parametrize("named", [0, 1])
def test_all_parts_count_whichever_is_named(tmp_path: Path, named: int) -> None:
    paths = split(tmp_path)
    found = gguf_model.read_model(str(paths[named])).to_dict()
    assert found["path"] == str(paths[0]) and found["files"] == [str(path) for path in paths]
    assert (found["layers"], found["tensors"], found["tensor_bytes"]) == (2, 3, 384)


def test_parts_that_do_not_fit_together(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"says that all its parts hold 4 tensors, but the 2 file\(s\) found hold 3"):
        gguf_model.read_model(str(split(tmp_path, claimed=4)[0]))
    paths = split(tmp_path)
    paths[1].write_bytes(gguf(model(architecture="gemma3"), [tensor("b", (32,), 0, 0)], 256))
    with pytest.raises(BadRequest, match=r"m-00002-of-00002\.gguf is not a part of the same model"):
        gguf_model.read_model(str(paths[0]))
    paths[1].unlink()
    with pytest.raises(BadRequest, match=r"m-00002-of-00002\.gguf cannot be read"):
        gguf_model.read_model(str(paths[0]))


# Drafts


def pair(folder: Path, theirs: bytes, ours: bytes) -> tuple[gguf_model.Model, gguf_model.Model]:
    return read(folder / "large.gguf", theirs), read(folder / "small.gguf", ours)


def special(add: bool, number: int, name: str = "bos") -> list[bytes]:
    return [
        entry(f"tokenizer.ggml.add_{name}_token", "?", add),
        entry(f"tokenizer.ggml.{name}_token_id", "I", number),
    ]


@pytest.mark.parametrize(
    ("large", "small"),
    [
        (model(), model(architecture="qwen2")),
        (model(), model([b"<S>", b"</S>", b"?", b"!", b".", *TOKENS[5:]])),
        (model(), model([*TOKENS, *(b"pad %d" % number for number in range(128))])),
        (model(), model(TOKENS[:100])),
        (model(more=special(True, 1)), model(more=special(True, 1))),
        (model(more=special(False, 1)), model(more=special(False, 2))),
        (model(more=special(True, 1)), model()),
    ],
    ids=["the same", "another begin", "padded", "shorter", "the same bos", "a bos that is not added", "bos not told"],
)
def test_drafts_that_a_server_takes(tmp_path: Path, large: list[bytes], small: list[bytes]) -> None:
    assert pairs.draft_model_refusal_reasons(*pair(tmp_path, gguf(large), gguf(small))) == []


@pytest.mark.parametrize(
    ("small", "words"),
    [
        (
            model([b"<S>", *TOKENS[1:7], b"foreign", *TOKENS[8:]]),
            "token 7 is 'token 2' in the model and 'foreign' in the draft.",
        ),
        (
            model([*TOKENS, *(b"pad %d" % n for n in range(129))]),
            "has 206 tokens and the draft 335, more than 128 apart.",
        ),
        (model(more=special(True, 2)), "the bos token is 1 in the model and 2 in the draft."),
        (model(more=special(False, 1)), "only one of the two adds a bos token to a text."),
        (model(None), "the draft holds no vocabulary."),
    ],
)
def test_drafts_that_a_server_would_not_use_are_refused(tmp_path: Path, small: list[bytes], words: str) -> None:
    large = model(more=special(True, 1))
    (reason,) = pairs.draft_model_refusal_reasons(*pair(tmp_path, gguf(large), gguf(small)))
    assert reason.startswith(f"{tmp_path}/small.gguf cannot draft for {tmp_path}/large.gguf: ") and words in reason


def test_another_kind_of_vocabulary_is_refused(tmp_path: Path) -> None:
    small = gguf(model()).replace(b"gpt2", b"bert")
    (reason,) = pairs.draft_model_refusal_reasons(*pair(tmp_path, gguf(model()), small))
    assert "the kind gpt2, the draft one of the kind bert" in reason


def test_remarks_on_a_pair(tmp_path: Path) -> None:
    weights = [tensor("a", (32,), 0, 0)]
    dense, moe, small = (
        gguf(model(), weights, 600),
        gguf(model(expert_count=8), weights, 600),
        gguf(model(), weights, 128),
    )
    assert pairs.useless_draft_model_remarks(*pair(tmp_path, dense, small)) == []
    (remark,) = pairs.useless_draft_model_remarks(*pair(tmp_path, moe, small))
    assert "a mixture of 8 experts" in remark
    (remark,) = pairs.useless_draft_model_remarks(*pair(tmp_path, dense, dense))
    assert "more than a quarter" in remark
