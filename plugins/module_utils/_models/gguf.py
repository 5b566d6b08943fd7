# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the header of one GGUF file: its values, its vocabulary, and the offsets of its tensors.

Only the header is read, once from start to end. Every length in the header is first compared with the size of the file
and with the limits of a header; the size alone is no limit, because a sparse file of any size takes no disk. So a
damaged or hostile file is refused, and exhausts neither the memory nor the processor. Names and texts are shown in
messages, so texts come out with their control characters escaped, and names with such characters are refused.
Source: docs/gguf.md of ggml.
"""

from __future__ import annotations

import os
import struct
from math import prod

from .._errors import BadRequest
from .._io.safe_open import open_file
from .._notation.printable import escape_unprintable
from .._notation.sizes import format_bytes_short
from .tensor_types import IK_TYPES, TENSOR_TYPES, format_unknown_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, BinaryIO

VERSIONS = (2, 3)
#: The types of values that are numbers, with their format characters for struct, and the names of all types.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
TYPE_WORDS = "uint8 int8 uint16 int16 uint32 int32 float32 bool text array uint64 int64 float64"
TYPE_NAMES = dict(enumerate(TYPE_WORDS.split()))
#: Compiled formats, because a vocabulary has a number before each of its many texts.
STRUCTS = {code: struct.Struct(f"<{code}") for code in NUMBERS.values()}
LENGTH = STRUCTS["Q"]
#: Longer texts, and longer arrays of numbers, are skipped, because nothing in this collection needs such values. Only a
#: chat template is longer.
LONGEST_KEPT = 1024
CHAT_TEMPLATE, LONGEST_TEMPLATE = "tokenizer.chat_template", 1 << 20
#: The limits of a header. The largest vocabularies have less than a million tokens, and headers of at most 60 MiB. A
#: model whose experts are separate tensors has 50 thousand tensors. A model has some hundred values at most.
LARGEST_HEADER = 128 << 20
LONGEST_TEXT = 16 << 20
MOST_ELEMENTS = 1 << 22
MOST_TEXTS = 1 << 21
MOST_TENSORS = 1 << 16
MOST_VALUES = 1 << 11
MOST_KEPT_NUMBERS = 1 << 16
#: The key of the vocabulary. Its tokens are bytes, because a token need not be UTF-8.
TOKENS = "tokenizer.ggml.tokens"
MOST_TOKENS, MOST_TOKEN_BYTES = 1 << 20, 32 << 20
LONGEST_TOKEN = 65535
LONGEST_NAME = 256
#: The bytes of one read from the file.
CHUNK = 1 << 15
DIMENSIONS = 4
#: By number of dimensions: the shape of a tensor, the number of its type, and its offset.
TENSOR_FORMS = [struct.Struct(f"<{dimensions}QIQ") for dimensions in range(DIMENSIONS + 1)]
ALIGNMENT, LARGEST_ALIGNMENT = 32, 1 << 20
#: The first bytes of files in other formats, and a description for people. Most such files are failed downloads.
OTHER_FORMATS = (
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself: fetch it with 'git lfs pull'"),
    (b"<", "an HTML or XML page: the server answered the download with a message, so look into the file"),
    (b"{", "a JSON text: the server answered the download with a message, so look into the file"),
    (b"PK\3\4", "a zip archive, for example of PyTorch: convert the model to GGUF"),
    (b"\x1f\x8b", "compressed with gzip: unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it"),
    (b"tjgg", "in the format GGJT of early 2023, which llama.cpp no longer reads: get or convert the model as GGUF"),
    (b"fmgg", "in the format GGMF of early 2023, which llama.cpp no longer reads: get or convert the model as GGUF"),
    (b"lmgg", "in the format GGML of early 2023, which llama.cpp no longer reads: get or convert the model as GGUF"),
    (b"FUGG", "a GGUF with its bytes swapped: it is damaged, so get it again"),
    (b"\0\0\0\0", "zero at its start: the download did not finish, so get it again"),
)


class Tensor:
    """A tensor: its type, its size, and its place in the data of its file.

    ``has_known_type`` is False for a type that TENSOR_TYPES lacks; then ``bytes`` is the distance to the next tensor.
    ``rows`` is the number of rows in each of the ``matrices``; a vector is one row.
    """

    __slots__ = ("bytes", "elements", "has_known_type", "matrices", "name", "offset", "rows", "type")

    def __init__(self, name: str, kind: str, offset: int, shape: Sequence[int], size: int | None) -> None:
        self.name = name
        self.type = kind
        self.offset = offset
        self.elements = prod(shape)
        self.rows = prod(shape[1:2])
        self.matrices = prod(shape[2:])
        self.has_known_type = size is not None
        self.bytes = size or 0

    @property
    def row_length(self) -> int:
        """The number of elements in a row."""
        return self.elements // (self.rows * self.matrices or 1)


class GgufFile:
    """A GGUF file: its values by key, its tensors, the bytes of its data, and its modification time in nanoseconds.

    ``value_types`` has the names of the values' types by key, ``data_begin`` the offset at which the tensors begin.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self.changed = 0
        self.values: dict[str, Any] = {}
        self.value_types: dict[str, str] = {}
        self.chat_templates: dict[str, str] = {}
        self.alignment = ALIGNMENT
        self.data_begin = 0
        self.tokens: list[bytes] | None = None
        self.tensors: list[Tensor] = []
        self.data_bytes = 0


def read_file_header(path: str) -> GgufFile:
    """Return the header of a GGUF file, which may be one of a model's files; BadRequest for a damaged file."""
    return _open_file_and_run_step(path, _Reader.read_header)


def read_header(file: BinaryIO, name: str, size: int, read_at_least: Callable[[int], bytes] | None = None) -> GgufFile:
    """Return the header of an open file, which may be on a server. ``name`` stands for the file in messages.

    ``read_at_least`` reads the next bytes where it is better than the file not to read far ahead.
    """
    part = GgufFile(name)
    part.size = size
    _Reader(file, part, read_at_least).read_header()
    return part


def validate_magic(path: str) -> None:
    """Raise BadRequest for a file, complete or not, that does not begin as a GGUF file does."""
    _open_file_and_run_step(path, _Reader.validate_magic)


def _open_file_and_run_step(path: str, step: Callable[[_Reader], None]) -> GgufFile:
    part = GgufFile(path)
    try:
        with open(open_file(path), "rb") as file:
            status = os.fstat(file.fileno())
            part.size, part.changed = status.st_size, status.st_mtime_ns
            step(_Reader(file, part))
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}. Give the full path of a GGUF file.") from None
    return part


class _Reader:
    """Reads the header of one file; ``at`` is the offset of the next byte in the file."""

    def __init__(self, file: BinaryIO, part: GgufFile, read_at_least: Callable[[int], bytes] | None = None) -> None:
        self.file = file
        self._read_at_least = read_at_least or self._read_piece
        self.part = part
        self.at = 0
        #: A piece of the file, and the offset of the next byte in the piece.
        self._piece = b""
        self._in_piece = 0
        self._texts = self._kept_numbers = 0

    def read_header(self) -> None:
        """Read values, vocabulary and tensors of the header into ``part``."""
        self.validate_magic()
        tensors, values = self._read_number("Q"), self._read_number("Q")
        # A value takes at least 13 bytes and a tensor at least 24, so the size of the file limits their numbers.
        if values * 13 + tensors * 24 > self.part.size - self.at:
            raise self._truncated_error(f"a header of {values} values and {tensors} tensors")
        self._validate_count("it", values, "values", MOST_VALUES)
        self._validate_count("it", tensors, "tensors", MOST_TENSORS)
        for number in range(values):
            key = self._read_name(f"the name of value {number}")
            kind = self._read_number("I")
            self.part.value_types[key] = TYPE_NAMES.get(kind, "")
            value = self._read_value(kind, key)
            if key in self.part.values:
                raise self._damaged_error(f"it names the value {key} twice")
            self.part.values[key] = value
        self.part.tensors = [self._read_tensor(number) for number in range(tensors)]
        self._validate_tensor_data(self.part.tensors)

    def validate_magic(self) -> None:
        """Raise BadRequest for a file that is not GGUF, is for big-endian machines, or is of an unknown version."""
        begin = self._read_bytes(min(64, self.part.size), "its start")
        if begin[:4] != b"GGUF":
            reason = next((text for magic, text in OTHER_FORMATS if begin.startswith(magic)), "something else")
            if not begin:
                reason = "empty: the download did not begin, so get it again"
            elif begin[8:9] == b"{" and begin[4:8] == b"\0\0\0\0":
                reason = "a safetensors file: convert the model to GGUF"
            raise BadRequest(f"{self.part.path} is not a GGUF file. It is {reason}.")
        self._in_piece = self.at = 4
        version = self._read_number("I")
        if version and version & 0xFFFF == 0:
            raise BadRequest(
                f"{self.part.path} is a GGUF file for big-endian machines; an EPYC is little-endian. Get the "
                "little-endian file, or convert it with gguf_convert_endian.py of llama.cpp."
            )
        if version not in VERSIONS:
            way = "which llama.cpp no longer reads: convert it again" if version == 1 else "but only 2 and 3 are known"
            raise BadRequest(f"{self.part.path} is a GGUF file of version {version}, {way}.")

    def _add_to_bytes_read(self, count: int, subject: str) -> None:
        """Add to the number of read bytes; BadRequest beyond the end of the file or beyond the limit of a header."""
        if count > self.part.size - self.at:
            raise self._truncated_error(subject)
        self.at += count
        if self.at > LARGEST_HEADER:
            raise self._damaged_error(f"its header would be larger than {format_bytes_short(LARGEST_HEADER)}")

    def _read_bytes(self, count: int, subject: str) -> bytes:
        self._add_to_bytes_read(count, subject)
        end = self._in_piece + count
        if end > len(self._piece):
            self._piece = self._piece[self._in_piece :] + self._read_at_least(end - len(self._piece))
            self._in_piece, end = 0, count
            if count > len(self._piece):
                raise self._truncated_error(subject)
        data = self._piece[self._in_piece : end]
        self._in_piece = end
        return data

    def _read_piece(self, count: int) -> bytes:
        return self.file.read(max(CHUNK, count))

    def _skip_bytes(self, count: int, subject: str) -> None:
        self._add_to_bytes_read(count, subject)
        beyond = self._in_piece + count - len(self._piece)
        if beyond > 0:
            self.file.seek(beyond, os.SEEK_CUR)
            self._piece, self._in_piece = b"", 0
        else:
            self._in_piece += count

    def _read_number(self, code: str, subject: str = "its header") -> Any:
        form = STRUCTS[code]
        return form.unpack(self._read_bytes(form.size, subject))[0]

    def _read_length(self, longest: int, subject: str) -> int:
        length: int = self._read_number("Q", subject)
        if length > longest:
            raise self._damaged_error(f"{subject} would be {length} bytes long")
        return length

    def _read_text(self, longest: int, subject: str) -> bytes:
        return self._read_bytes(self._read_length(longest, subject), subject)

    def _read_name(self, subject: str) -> str:
        name = self._read_text(LONGEST_NAME, subject).decode("utf-8", "replace")
        if not name.isprintable():
            raise self._damaged_error(f"{subject} has characters that cannot be shown")
        return name

    def _validate_count(self, subject: str, count: int, of: str, most: int) -> None:
        if count > most:
            raise self._damaged_error(f"{subject} would have {count} {of}")

    def _read_value(self, kind: int, key: str) -> Any:
        if kind in NUMBERS:
            return self._read_number(NUMBERS[kind], key)
        if kind == TEXT:
            return self._read_text_value(key)
        if kind == ARRAY:
            return self._read_array(key)
        raise self._damaged_error(f"the value {key} has the unknown type {kind}")

    def _read_text_value(self, key: str) -> str | None:
        length = self._read_length(LONGEST_TEXT, key)
        is_template = key.startswith(CHAT_TEMPLATE) and length <= LONGEST_TEMPLATE
        if length > LONGEST_KEPT and not (is_template and len(self.part.chat_templates) < 4):
            self._skip_bytes(length, key)
            return None
        data = self._read_bytes(length, key)
        if is_template:
            self.part.chat_templates[key] = data.decode("utf-8", "replace")
        return escape_unprintable(data.decode("utf-8", "replace")) if length <= LONGEST_KEPT else None

    def _read_array(self, key: str) -> Any:
        kind, count = self._read_number("I", key), self._read_number("Q", key)
        self._validate_count(key, count, "elements", MOST_ELEMENTS)
        self.part.value_types[key] = f"array of {TYPE_NAMES.get(kind, kind)}"
        if kind == TEXT:
            self._texts += count
            self._validate_count("it", self._texts, "texts", MOST_TEXTS)
            if key == TOKENS:
                self._validate_count(key, count, "elements", MOST_TOKENS)
                self.part.tokens = self._read_tokens(count)
            else:
                self._skip_texts(count, key)
            return None
        if kind not in NUMBERS:
            raise self._damaged_error(f"the array {key} has elements of the unknown type {kind}")
        size = STRUCTS[NUMBERS[kind]].size * count
        if count > LONGEST_KEPT:
            return self._skip_bytes(size, key)
        self._kept_numbers += count
        self._validate_count("it", self._kept_numbers, "numbers in lists", MOST_KEPT_NUMBERS)
        return list(struct.unpack(f"<{count}{NUMBERS[kind]}", self._read_bytes(size, key)))

    def _read_tokens(self, count: int) -> list[bytes]:
        tokens: list[bytes] = []
        begin = self.at
        while len(tokens) < count:
            # All tokens that are whole in this piece of the file come first, then the token that goes beyond it.
            piece, at = self._piece, self._in_piece
            try:
                while len(tokens) < count:
                    end = at + 8 + LENGTH.unpack_from(piece, at)[0]
                    if end > len(piece):
                        break
                    tokens.append(piece[at + 8 : end])
                    at = end
            except struct.error:
                pass
            self._skip_bytes(at - self._in_piece, TOKENS)
            if self.at - begin > MOST_TOKEN_BYTES:
                raise self._damaged_error(f"its vocabulary would be larger than {format_bytes_short(MOST_TOKEN_BYTES)}")
            if len(tokens) < count:
                tokens.append(self._read_text(LONGEST_TOKEN, TOKENS))
        return tokens

    def _skip_texts(self, count: int, key: str) -> None:
        while count:
            piece, at = self._piece, self._in_piece
            try:
                while count:
                    end = at + 8 + LENGTH.unpack_from(piece, at)[0]
                    if end > len(piece):
                        break
                    at = end
                    count -= 1
            except struct.error:
                pass
            self._skip_bytes(at - self._in_piece, key)
            if count:
                self._skip_bytes(self._read_length(LONGEST_TEXT, key), key)
                count -= 1

    def _read_tensor(self, number: int) -> Tensor:
        name = self._read_name(f"the name of tensor {number}")
        dimensions = self._read_number("I", name)
        if dimensions > DIMENSIONS:
            raise self._damaged_error(f"the tensor {name} has {dimensions} dimensions")
        form = TENSOR_FORMS[dimensions]
        *shape, kind, offset = form.unpack(self._read_bytes(form.size, name))
        if kind not in TENSOR_TYPES:
            return Tensor(name, IK_TYPES.get(kind) or format_unknown_type(kind), offset, shape, None)
        text, block, size = TENSOR_TYPES[kind]
        row = prod(shape[:1])
        if row % block:
            raise self._damaged_error(
                f"the rows of tensor {name} have {row} elements, no multiple of {block} as {text} needs"
            )
        return Tensor(name, text, offset, shape, prod(shape) // block * size)

    def _validate_tensor_data(self, tensors: list[Tensor]) -> None:
        """Raise BadRequest where the file is too short for its tensors, and set the sizes of unknown tensors."""
        alignment = self.part.values.get("general.alignment", ALIGNMENT)
        # The format asks for a multiple of 8, and llama.cpp for a power of two.
        if not isinstance(alignment, int) or not 8 <= alignment <= LARGEST_ALIGNMENT or alignment & (alignment - 1):
            raise self._damaged_error(f"its alignment is {alignment!r}, no power of two from 8")
        self.part.alignment = alignment
        begin = self.part.data_begin = -(-self.at // alignment) * alignment
        self.part.data_bytes = max(0, self.part.size - begin)
        need = max((tensor.offset + tensor.bytes for tensor in tensors), default=0)
        if need > self.part.data_bytes:
            raise BadRequest(
                f"{self.part.path} is truncated: its tensors need {format_bytes_short(need)} after the header, and "
                f"{format_bytes_short(self.part.data_bytes)} are there. Get it again, or resume the download."
            )
        end = self.part.data_bytes
        for tensor in sorted(tensors, key=lambda tensor: tensor.offset, reverse=True):
            if not tensor.has_known_type:
                tensor.bytes = end - tensor.offset
            end = tensor.offset

    def _truncated_error(self, subject: str) -> BadRequest:
        return BadRequest(
            f"{self.part.path} is truncated or damaged: its {self.part.size} bytes end within {subject}. Get it again."
        )

    def _damaged_error(self, damage: str) -> BadRequest:
        return BadRequest(f"{self.part.path} is damaged: {damage}. Get it again.")
