# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies a model with its weights converted to a wider type, each to the nearest number."""

from __future__ import annotations

from pathlib import Path

from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, Keys, LlamaFileType
from gguf.quants import dequantize, quantize

from .gguf_copy import copy_keys, write_file

BF16 = GGMLQuantizationType.BF16
_WRITTEN_ANEW = (Keys.General.ARCHITECTURE, Keys.General.FILE_TYPE)


def write_with_wide_weights(source: Path, target: Path) -> None:
    """Copy a model to ``target``, with quantised weights converted to BF16; weights in F32 stay."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields[Keys.General.ARCHITECTURE].contents())
    copy_keys(reader, writer, lambda name: name not in _WRITTEN_ANEW)
    writer.add_file_type(LlamaFileType.MOSTLY_BF16)
    for tensor in reader.tensors:
        if tensor.tensor_type == GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, tensor.data)
        else:
            numbers = dequantize(tensor.data, tensor.tensor_type)
            writer.add_tensor(tensor.name, quantize(numbers, BF16), raw_dtype=BF16)
    write_file(writer)
