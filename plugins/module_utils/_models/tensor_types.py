# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of tensors by their numbers in a GGUF file.

Source: ggml/include/ggml.h and ggml/src/ggml-common.h of llama.cpp, and the former of ik_llama.cpp.
tests/gates/test_architectures.py compares the tables with these sources.
"""

from __future__ import annotations

#: By number of a tensor type: its name, the number of elements in a block, and the bytes of a block.
TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
    42: ("Q2_0", 64, 18),
}
#: The quantization of a file by the number in general.file_type. Source: enum llama_ftype in include/llama.h.
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
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
#: The names of tensor types that only ik_llama.cpp reads, by number; llama.cpp has dropped some of them. Types whose
#: names end in _R and a number have several rows side by side. Some types have extra bytes for each row, so the sizes
#: of all such tensors are computed from their offsets in the file.
IK_TYPES = {
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "I2_S",
    97: "Q8_0_X4",
    98: "Q8_1_X4",
    99: "Q8_2_X4",
    133: "Q6_0",
    134: "IQ1_BN",
    135: "IQ2_BN",
    136: "Q8_K64",
    137: "IQ2_K",
    138: "IQ3_K",
    139: "IQ4_K",
    140: "IQ5_K",
    141: "IQ6_K",
    144: "IQ4_KS",
    145: "IQ2_KS",
    146: "IQ4_KSS",
    147: "Q8_K16",
    148: "Q8_K32",
    149: "Q8_KR8",
    150: "Q8_K128",
    151: "Q8_KV",
    152: "IQ5_KS",
    153: "IQ2_KT",
    154: "IQ3_KT",
    155: "IQ4_KT",
    156: "IQ3_KS",
    157: "IQ2_KL",
    158: "IQ1_KT",
    202: "Q4_0_R8",
    206: "Q5_0_R4",
    208: "Q8_0_R8",
    210: "Q2_K_R4",
    211: "Q3_K_R4",
    212: "Q4_K_R4",
    213: "Q5_K_R4",
    214: "Q6_K_R4",
    216: "IQ2_XXS_R4",
    217: "IQ2_XS_R4",
    218: "IQ3_XXS_R4",
    219: "IQ1_S_R4",
    220: "IQ4_NL_R4",
    221: "IQ3_S_R4",
    222: "IQ2_S_R4",
    223: "IQ4_XS_R8",
    229: "IQ1_M_R4",
    230: "BF16_R16",
    233: "Q6_0_R4",
    335: "IQ2_BN_R4",
    337: "IQ2_K_R4",
    338: "IQ3_K_R4",
    339: "IQ4_K_R4",
    340: "IQ5_K_R4",
    344: "IQ4_KS_R4",
    352: "IQ5_KS_R4",
    353: "MXFP4_R8",
    397: "Q8_K_R16",
    398: "Q8_KV_R8",
    399: "Q8_K_R8",
}
#: Types that ik_llama.cpp of August 2026 does not read. A newer build has the name of each type that it reads.
LLAMA_TYPES = ("TQ1_0", "TQ2_0", "NVFP4", "Q2_0")
#: Types that came to llama.cpp after 2024; an older build lacks their names.
NEW_TYPES = ("TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0", "Q2_0")
#: llama.cpp numbers its types one after the other; build 11434 of October 2026 has the numbers from 0 to 42. A number
#: in a gap is that of a removed type, and a number far above was never given to a type.
LAST_KNOWN_NUMBER, LAST_PLAUSIBLE_NUMBER = 42, 63
UNKNOWN_TYPE_PREFIX = "type "


def format_unknown_type(number: int) -> str:
    """Return the word that stands for a tensor type whose number no table has."""
    return f"{UNKNOWN_TYPE_PREFIX}{number}"


def can_belong_to_newer_engine(name: str) -> bool:
    """Return whether an engine that is newer than the tables may have a type, of which the tables have no name."""
    if not name.startswith(UNKNOWN_TYPE_PREFIX):
        return False
    return LAST_KNOWN_NUMBER < int(name[len(UNKNOWN_TYPE_PREFIX) :]) <= LAST_PLAUSIBLE_NUMBER


def mean_bytes_per_element(name: str) -> float:
    """Return the average bytes of an element of a tensor type, which is given by its name."""
    return next(size / block for text, block, size in TENSOR_TYPES.values() if text == name.upper())
