# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that claim a huge header, which costs whoever wrote them nothing: the rest of each is a hole."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import gguf as reader
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.tests.unit.fakes.ggufs import TOKENS, entry, gguf, model, text

MIB = 1 << 20
#: How long each file is. Nothing of it is on a disk.
HOLE = 8 << 30
#: What the reader may take while it refuses one of them.
BAR = 16 * MIB


def begun(*values: bytes, values_claimed: int = 0, tensors_claimed: int = 0) -> bytes:
    """The begin of a file with these values, whose count may be a lie."""
    return b"GGUF" + struct.pack("<IQQ", 3, tensors_claimed, values_claimed or len(values)) + b"".join(values)


def texts(key: str, count: int) -> bytes:
    """The begin of an array of so many texts; in a hole, each of them is empty."""
    return text(key.encode()) + struct.pack("<IIQ", 9, 8, count)


HOSTILE = {
    "a text": (begun(text(b"a.b") + struct.pack("<IQ", 8, 1 << 30)), "a.b would be 1073741824 bytes long"),
    "a token": (
        begun(texts(reader.TOKENS, 3) + struct.pack("<Q", 1 << 30)),
        "tokenizer.ggml.tokens would be 1073741824 bytes long",
    ),
    "a merge": (
        begun(texts("tokenizer.ggml.merges", 3) + struct.pack("<Q", 1 << 30)),
        "tokenizer.ggml.merges would be 1073741824 bytes long",
    ),
    "many tokens": (begun(texts(reader.TOKENS, 1 << 27)), "tokenizer.ggml.tokens would have 134217728 elements"),
    "many merges": (begun(texts("m", 1 << 27)), "m would have 134217728 elements"),
    "many numbers": (begun(text(b"n") + struct.pack("<IIQ", 9, 4, 1 << 30)), "n would have 1073741824 elements"),
    "many values": (begun(values_claimed=1 << 28), "it would have 268435456 values"),
    "many tensors": (begun(tensors_claimed=1 << 27), "it would have 134217728 tensors"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_header_that_no_model_has_is_refused_before_it_takes_memory(tmp_path: Path, name: str) -> None:
    content, words = HOSTILE[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with path.open("r+b") as file:
        file.truncate(HOLE)
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest) as caught:
            gguf_model.read_model(str(path))
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"{path} is damaged: {words}" in str(caught.value)
    assert taken < BAR, f"{taken / MIB:.0f} MiB"


def test_many_long_texts_are_no_header_either(tmp_path: Path) -> None:
    """Each of them is short enough, and all together are not."""
    size = reader.LONGEST_TEXT
    count = reader.LARGEST_HEADER // size + 1
    path = tmp_path / "model.gguf"
    path.write_bytes(begun(values_claimed=count))
    with path.open("r+b") as file:
        file.seek(0, 2)
        for number in range(count):
            file.write(text(b"v%d" % number) + struct.pack("<IQ", 8, size))
            file.seek(size, 1)
        file.truncate(HOLE)
    with pytest.raises(BadRequest, match=r"its header would be larger than 128 MiB\. Get it again\."):
        gguf_model.read_model(str(path))


def test_a_large_vocabulary_is_read(tmp_path: Path) -> None:
    """More tokens than any model has, of which Gemma 3 has 262,144, and a chat template as long as the longest."""
    tokens = [*TOKENS, *(b"token of a large vocabulary %d" % number for number in range(300_000))]
    template = entry("tokenizer.chat_template", "8", b"{" * 200_000)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(model(tokens, more=[template, entry("llama.after", "I", 7)])))
    found = gguf_model.read_model(str(path))
    assert len(found.tokens or ()) == len(tokens) and found.header_number_of_architecture("after") == 7
