# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Headers of model files with bytes, numbers and pieces changed by chance: each is read, or refused in one sentence."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import model_checks
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.capabilities import Capabilities
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.memory_need import (
    estimate_memory_need,
)

SERVERS = [Capabilities("/opt/llama-server", engine, {}, None) for engine in ("llama.cpp", "ik_llama.cpp")]
WHOLE = zero_model.build_zero_model_file()
HEADER_BYTES = WHOLE.index(b"blk.0.ffn_down.weight") + 60
#: Numbers at which limits are, of four and of eight bytes.
NUMBERS = [
    struct.pack(form, number)
    for form, bits in (("<I", 32), ("<Q", 64))
    for number in (0, 1, 2, 255, 513, 65536, 2**24, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2**bits - 1)
]
CONTROL = (b"\x1b[31m", b"\n", b"\0", b"\x7f", b"\xff\xfe", "\u202e".encode(), b"\r")


def mutate(chance: random.Random) -> bytes:
    """Change the header in one to four places, and rarely the length of the file."""
    header = bytearray(WHOLE[:HEADER_BYTES])
    for dummy in range(chance.randint(1, 4)):
        at = chance.randrange(len(header))
        kind = chance.randrange(6)
        if kind == 0:
            header[at] = chance.randrange(256)
        elif kind == 1:
            number = chance.choice(NUMBERS)
            header[at : at + len(number)] = number
        elif kind == 2:
            word = chance.choice(CONTROL)
            header[at : at + len(word)] = word
        elif kind == 3:
            del header[at : at + chance.randint(1, 64)]
        elif kind == 4:
            header[at:at] = header[chance.randrange(len(header)) :][: chance.randint(1, 64)]
        else:
            # A number of a value or of a tensor is four or eight bytes behind its name.
            names = [b"block_count", b"head_count", b"embedding_length", b"attn_q.weight", b"tokens", b"alignment"]
            name = chance.choice(names)
            begin = header.find(name)
            place = begin + len(name) + chance.choice((0, 4, 8, 12))
            header[place : place + 4] = chance.choice(NUMBERS)[:4]
    rest = WHOLE[HEADER_BYTES:]
    return bytes(header) + (rest[: chance.randrange(len(rest))] if chance.random() < 0.1 else rest)


def check(path: Path, number: int) -> bool:
    """Go through all that is done with a model before it is served; return whether it is refused, in one sentence."""
    asked = {"name": "chat", "port": 8080, "binary": "/opt/llama-server", "model": str(path)}
    options = Options.parse(asked)
    server = SERVERS[number % 2]
    try:
        files = model_checks.ServedFiles(options)
        files.models[0].to_dict()
        model_checks.require_sound_headers(files, server)
        estimate_memory_need(options, server, files.models[0])
        model_checks.require_loadable_models(files, server)
    except BadRequest as error:
        text = str(error)
        assert text.isprintable() and text.endswith("."), f"{number}: {text!r}"
        return True
    return False


def check_many(folder: Path, begin: int, end: int) -> int:
    """Return how many files of these numbers are refused; the number is the seed of the file."""
    path = folder / "model.gguf"
    refused = 0
    for number in range(begin, end):
        path.write_bytes(mutate(random.Random(number)))
        try:
            refused += check(path, number)
        except Exception as error:
            raise AssertionError(f"file {number} ends in {error!r}") from error
    return refused


def test_some_changed_headers(tmp_path: Path) -> None:
    assert 150 < check_many(tmp_path, 0, 300) < 300


@pytest.mark.slow
def test_many_changed_headers(tmp_path: Path) -> None:
    assert 10_000 < check_many(tmp_path, 300, 20_300) < 20_300
