# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The name of the quantization of a model, such as Q4_K_M, by the type of its file.

Source: enum llama_ftype in include/llama.h of llama.cpp, build 11434.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Model

FILE_TYPE = "general.file_type"
FILE_TYPE_NAMES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
}


def quantization_name(model: Model) -> str | None:
    """Return the name of a model's quantization; without a known file type, the tensor type with the most bytes."""
    number = model.header_number(FILE_TYPE)
    name = None if number is None else FILE_TYPE_NAMES.get(number)
    sizes: dict[str, int] = {}
    for tensor in model.tensors:
        sizes[tensor.type] = sizes.get(tensor.type, 0) + tensor.bytes
    return name or max(sizes, key=lambda kind: (sizes[kind], kind), default=None)
