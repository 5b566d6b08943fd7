# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small model whose weights are drawn by chance, the same ones each time, so that its texts depend on all of them."""

from __future__ import annotations

import random
import struct
from io import BytesIO

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.gguf import read_header

UNUSED = 5
#: By type: the bytes of a block, and where in it are which numbers of 16 bits, which say how large all weights are.
BLOCKS = {
    "Q8_0": (34, {0: 1e-3}),
    "Q4_K": (144, {0: 1e-4, 2: 8e-4}),
    "Q6_K": (210, {208: 1e-5}),
}


def blank_model(words: int) -> bytes:
    """The model of one layer whose weights are all zero, with so many words more than it needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zero_model, "TOKENS", [*zero_model.TOKENS, *(b"%d" % word for word in range(words))])
        patch.setattr(zero_model, "TOKEN_KINDS", [*zero_model.TOKEN_KINDS, *[UNUSED] * words])
        return zero_model.build_zero_model_file()


def random_model(words: int) -> bytes:
    """The same with weights."""
    content = bytearray(blank_model(words))
    part = read_header(BytesIO(content), "model", len(content))
    drawn = random.Random(1)
    for tensor in part.tensors:
        at = len(content) - part.data_bytes + tensor.offset
        if tensor.type == "F32":
            content[at : at + tensor.bytes] = struct.pack("<f", 1.0) * tensor.elements
            continue
        size, scales = BLOCKS[tensor.type]
        weights = bytearray(drawn.randbytes(tensor.bytes))
        for place, scale in scales.items():
            for number, byte in enumerate(struct.pack("<e", scale)):
                weights[place + number :: size] = bytes([byte]) * (tensor.bytes // size)
        content[at : at + tensor.bytes] = weights
    return bytes(content)
