# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model as the headers of its GGUF files describe it: architecture, size and vocabulary."""

from __future__ import annotations

import hashlib
import struct

from .._errors import BadRequest
from .._notation.gguf_parts import list_gguf_parts
from .gguf import read_file_header
from .tensor_types import FILE_TYPE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .gguf import GgufFile, Tensor


class Model:
    """A model, in one or several files."""

    def __init__(self, parts: list[GgufFile]) -> None:
        self.parts = parts
        self.values = parts[0].values
        self.tokens = parts[0].tokens

    @property
    def path(self) -> str:
        """The path of the first file, which is the path that a server gets."""
        return self.parts[0].path

    def header_text(self, key: str) -> str:
        """Return the text of a key in the header; empty where the header has no text, or a very long text."""
        return str(self.values.get(key) or "")

    def header_number(self, key: str) -> int | None:
        """Return the whole number of a key in the header; None where the header has no such number."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def header_number_of_architecture(self, key: str) -> int | None:
        """Return the whole number of the header's key ``ARCHITECTURE.key``; None where there is no such number."""
        return self.header_number(f"{self.architecture}.{key}")

    def largest_header_number_of_layers(self, key: str) -> int:
        """Return the number of the key ``ARCHITECTURE.key``, or the largest number of a list by layer, else 0."""
        value = self.values.get(f"{self.architecture}.{key}")
        numbers = value if isinstance(value, list) else [value]
        return max([0, *(number for number in numbers if isinstance(number, int))])

    @property
    def architecture(self) -> str:
        return self.header_text("general.architecture")

    @property
    def expert_count(self) -> int:
        return self.header_number_of_architecture("expert_count") or 0

    @property
    def pooling_type(self) -> int | None:
        """The number of the kind of pooling in llama.cpp's enum: 0 none, 1 mean, 2 cls, 3 last, 4 rank; else None."""
        return self.header_number_of_architecture("pooling_type")

    @property
    def tensors(self) -> list[Tensor]:
        return [tensor for part in self.parts for tensor in part.tensors]

    @property
    def file_bytes(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def weight_bytes(self) -> int:
        """The size of the weights in all files. A server loads all weights."""
        return sum(part.data_bytes for part in self.parts)

    @property
    def unknown_tensor_types(self) -> list[str]:
        """The types of tensors that are not in TENSOR_TYPES; the sizes of such tensors come from their offsets."""
        return sorted({tensor.type for tensor in self.tensors if not tensor.has_known_type})

    @property
    def quantization(self) -> str | None:
        """The name of the quantization, such as Q4_K_M; without a known one, the tensor type with the most bytes."""
        number = self.header_number("general.file_type")
        name = None if number is None else FILE_TYPE_NAMES.get(number)
        sizes = self.tensor_type_bytes
        return name or max(sizes, key=lambda kind: (sizes[kind], kind), default=None)

    @property
    def tensor_type_bytes(self) -> dict[str, int]:
        """The bytes of all tensors of each type."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            sizes[tensor.type] = sizes.get(tensor.type, 0) + tensor.bytes
        return sizes

    @property
    def vocabulary_digest(self) -> str | None:
        """The SHA-256 of all tokens of the vocabulary in their order; None for a model without a vocabulary."""
        if self.tokens is None:
            return None
        digest = hashlib.sha256()
        for token in self.tokens:
            digest.update(struct.pack("<Q", len(token)) + token)
        return digest.hexdigest()

    def to_dict(self) -> dict[str, object]:
        """Return the facts of the model as plain data, with sizes in bytes."""
        tensors = self.tensors
        return {
            "path": self.path,
            "files": [part.path for part in self.parts],
            "size": self.file_bytes,
            "architecture": self.architecture,
            "name": self.header_text("general.name"),
            "layers": self.header_number_of_architecture("block_count"),
            "context": self.header_number_of_architecture("context_length"),
            "embedding": self.header_number_of_architecture("embedding_length"),
            "experts": self.expert_count,
            "experts_used": self.header_number_of_architecture("expert_used_count") or 0,
            "tensors": len(tensors),
            "tensor_bytes": sum(tensor.bytes for tensor in tensors),
            "expert_bytes": sum(tensor.bytes for tensor in tensors if "_exps." in tensor.name),
            "tensor_types": self.tensor_type_bytes,
            "vocabulary": {
                "model": self.header_text("tokenizer.ggml.model"),
                "tokens": len(self.tokens or []),
                "digest": self.vocabulary_digest,
            },
        }


def read_model(path: str) -> Model:
    """Return the model in a GGUF file, with all other files of the same model; BadRequest for a damaged file."""
    return join_model_files([read_file_header(part) for part in list_gguf_parts(path)])


def join_model_files(parts: list[GgufFile]) -> Model:
    """Return the model that consists of these files; BadRequest where the files do not belong to one model."""
    model = Model(parts)
    for part in parts[1:]:
        if part.values.get("general.architecture", model.architecture) != model.architecture:
            raise BadRequest(f"{part.path} is not a part of the same model as {model.path}. Get all parts again.")
    if not model.architecture:
        raise BadRequest(f"{model.path} has no general.architecture: it is a GGUF file, but not a model.")
    wanted = model.header_number("split.tensors.count")
    tensor_count = sum(len(part.tensors) for part in parts)
    if wanted is not None and wanted != tensor_count:
        raise BadRequest(
            f"{model.path} says that all its parts hold {wanted} tensors, but the {len(parts)} file(s) found hold "
            f"{tensor_count}. Parts must keep names like NAME-00001-of-00003.gguf and be in one folder."
        )
    return model
