# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies a model with more layers that change nothing, so that it says the same and takes longer to load."""

from __future__ import annotations

import re
from pathlib import Path

import numpy
from gguf import GGUFReader, GGUFWriter, Keys

from .gguf_copy import copy_keys, write_file

#: The last matrices of the two halves of a layer. Where they are zero, the layer adds nothing to its input.
LAST_MATRICES = ("attn_output.weight", "ffn_down.weight")


def write_with_more_layers(source: Path, target: Path, layers: int) -> None:
    """Copy a model to ``target``, with copies of its first layer behind its own, until it has ``layers`` layers."""
    reader = GGUFReader(source)
    architecture = reader.fields[Keys.General.ARCHITECTURE].contents()
    writer = GGUFWriter(target, architecture)
    layers_key = Keys.LLM.BLOCK_COUNT.format(arch=architecture)
    copy_keys(reader, writer, lambda name: name not in (Keys.General.ARCHITECTURE, layers_key))
    writer.add_block_count(layers)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        part = re.fullmatch(r"blk\.0\.(.+)", tensor.name)
        if part:
            data = numpy.zeros_like(tensor.data) if part[1] in LAST_MATRICES else tensor.data
            for layer in range(reader.fields[layers_key].contents(), layers):
                writer.add_tensor(f"blk.{layer}.{part[1]}", data, raw_dtype=tensor.tensor_type)
    write_file(writer)
