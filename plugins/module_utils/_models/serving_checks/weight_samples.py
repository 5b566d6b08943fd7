# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files whose weights are not all there: a download that reserved the room of the file and then stopped.

Such a file is as long as it should be, and its missing part reads as zeros, so that a server serves it and answers with
noise. A few KiB of some matrices are read, because reading all would take as long as loading the model.
"""

from __future__ import annotations

import os

from ..._io.safe_open import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..gguf import GgufFile, Tensor
    from ..model import Model

#: The bytes of a sample, and the places of a matrix at which it is read: at its end first, then at shares of its size.
SAMPLE = 4096
SHARES = (1, 0.75, 0.5, 0.25)
#: The most matrices that are looked at, in all files of a model.
MOST_MATRICES = 64
#: Smaller files are models for tests, whose weights may all be zero.
LEAST_FILE = 32 << 20
#: Matrices that no model has without any weight. Others may be zero: rows of tokens that no vocabulary uses, outputs of
#: layers that were added to a model, and experts that were removed.
NEVER_ZERO = ("attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_qkv.weight", "ffn_up.weight", "ffn_gate.weight")


def all_zero_matrix_reasons(model: Model) -> Iterator[str]:
    """Yield the first matrix of a model that is all zeros where it was looked at."""
    if model.file_bytes < LEAST_FILE:
        return
    for part in model.parts:
        matrices = [tensor for tensor in part.tensors if tensor.name.endswith(NEVER_ZERO) and tensor.bytes > SAMPLE]
        for tensor in _find_zero_matrices(
            part, _choose_spread_out(matrices, max(2, MOST_MATRICES // len(model.parts)))
        ):
            yield (
                f"{part.path} has only zeros in the tensor {tensor.name}, where weights should be: its download did "
                "not finish, although the file has its whole length. Get it again."
            )
            return


def _choose_spread_out(matrices: list[Tensor], most: int) -> list[Tensor]:
    """Return matrices at equal distances in the file, the last one included."""
    ordered = sorted(matrices, key=lambda tensor: tensor.offset, reverse=True)
    return ordered[:: -(-len(ordered) // most) or 1]


def _find_zero_matrices(part: GgufFile, matrices: list[Tensor]) -> Iterator[Tensor]:
    if not matrices:
        return
    descriptor = open_file(part.path)
    try:
        for tensor in matrices:
            begin = part.data_begin + tensor.offset
            places = (begin + int(share * (tensor.bytes - SAMPLE)) for share in SHARES)
            if all(_is_zero(os.pread(descriptor, SAMPLE, place)) for place in places):
                yield tensor
    finally:
        os.close(descriptor)


def _is_zero(data: bytes) -> bool:
    return not data.strip(b"\0")
