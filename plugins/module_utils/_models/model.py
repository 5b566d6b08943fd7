# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model as its GGUF files describe it: architecture, size and vocabulary.

Only the header of each file is read.
"""

from __future__ import annotations

import hashlib
import struct

from .._errors import BadRequest
from .._notation.gguf_parts import list_gguf_parts
from .gguf import read_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .gguf import Part, Tensor


class Model:
    """A model, in one file or several."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.values = parts[0].values
        self.tokens = parts[0].tokens

    @property
    def path(self) -> str:
        """The first file, which is the one to pass to a server."""
        return self.parts[0].path

    def text(self, key: str) -> str:
        """Return the text of this name; empty where there is none that is worth keeping."""
        return str(self.values.get(key) or "")

    def number(self, key: str) -> int | None:
        """Return the whole number of this name; None where there is none."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def of_architecture(self, key: str) -> int | None:
        """Return the whole number ``ARCHITECTURE.key``; None where there is none."""
        return self.number(f"{self.architecture}.{key}")

    def largest(self, key: str) -> int:
        """Return the number ``ARCHITECTURE.key``, of a list for each layer the largest; 0 where there is none."""
        value = self.values.get(f"{self.architecture}.{key}")
        numbers = value if isinstance(value, list) else [value]
        return max([0, *(number for number in numbers if isinstance(number, int))])

    @property
    def architecture(self) -> str:
        """The architecture by its name in llama.cpp, for example llama or qwen3moe."""
        return self.text("general.architecture")

    @property
    def experts(self) -> int:
        """How many experts each layer has; 0 in a dense model."""
        return self.of_architecture("expert_count") or 0

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors of all files."""
        return [tensor for part in self.parts for tensor in part.tensors]

    @property
    def unknown_types(self) -> list[str]:
        """The types of tensors whose size is not known by their type, and was taken from the files."""
        return sorted({tensor.type for tensor in self.tensors if not tensor.known})

    @property
    def vocabulary(self) -> str | None:
        """A digest of all tokens in their order; None where the file holds none."""
        if self.tokens is None:
            return None
        digest = hashlib.sha256()
        for token in self.tokens:
            digest.update(struct.pack("<Q", len(token)) + token)
        return digest.hexdigest()

    def to_dict(self) -> dict[str, object]:
        """Return plain data, sizes in bytes."""
        tensors = self.tensors
        types: dict[str, int] = {}
        for tensor in tensors:
            types[tensor.type] = types.get(tensor.type, 0) + tensor.bytes
        return {
            "path": self.path,
            "files": [part.path for part in self.parts],
            "size": sum(part.size for part in self.parts),
            "architecture": self.architecture,
            "name": self.text("general.name"),
            "layers": self.of_architecture("block_count"),
            "context": self.of_architecture("context_length"),
            "embedding": self.of_architecture("embedding_length"),
            "experts": self.experts,
            "experts_used": self.of_architecture("expert_used_count") or 0,
            "tensors": len(tensors),
            "tensor_bytes": sum(tensor.bytes for tensor in tensors),
            "expert_bytes": sum(tensor.bytes for tensor in tensors if "_exps." in tensor.name),
            "tensor_types": types,
            "vocabulary": {
                "model": self.text("tokenizer.ggml.model"),
                "tokens": len(self.tokens or []),
                "digest": self.vocabulary,
            },
        }


def read(path: str) -> Model:
    """Return the model in a file and in its other parts, if there are any; BadRequest says what is wrong with it."""
    return joined([read_part(part) for part in list_gguf_parts(path)])


def joined(parts: list[Part]) -> Model:
    """Return the model of all its files, the first one first; BadRequest where they are not all of one model."""
    model = Model(parts)
    for part in parts[1:]:
        if part.values.get("general.architecture", model.architecture) != model.architecture:
            raise BadRequest(f"{part.path} is not a part of the same model as {model.path}. Get all parts again.")
    if not model.architecture:
        raise BadRequest(f"{model.path} has no general.architecture: it is a GGUF file, but not a model.")
    wanted = model.number("split.tensors.count")
    found = sum(len(part.tensors) for part in parts)
    if wanted is not None and wanted != found:
        raise BadRequest(
            f"{model.path} says that all its parts hold {wanted} tensors, but the {len(parts)} file(s) found hold "
            f"{found}. Parts must keep names like NAME-00001-of-00003.gguf and be in one folder."
        )
    return model
