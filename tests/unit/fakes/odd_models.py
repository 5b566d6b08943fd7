# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model files that are odd in one way each, made of a small model that a real server takes.

A kind is a name and its files. Most have one file; a model in three parts has three, of which one may be missing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from . import ggufs, heads

#: The offset of the version in a file, and the sizes of the types that are used here: elements and bytes of a block.
VERSION_AT = 4
F32, Q2_0, Q4_K_R4, Q8_0_R8, MXFP4_R8, I2_S = 0, 42, 212, 208, 353, 36
MIB = 1 << 20
NUMBER, SIGNED = "I", "i"


class Parsed:
    """The small model, taken apart: values by key as whole entries, tensors with their shape and data."""

    def __init__(self, layers: int = 2) -> None:
        content = heads.model(layers)
        tensors, values = struct.unpack_from("<QQ", content, 8)
        self.entries: dict[str, bytes] = {}
        at = 24
        for dummy in range(values):
            begin = at
            key, at = _read_text(content, at)
            at = _skip_value(content, at)
            self.entries[key] = content[begin:at]
        described = []
        for dummy in range(tensors):
            name, at = _read_text(content, at)
            (dimensions,) = struct.unpack_from("<I", content, at)
            shape = struct.unpack_from(f"<{dimensions}Q", content, at + 4)
            at += 4 + 8 * dimensions
            described.append((name, shape, *struct.unpack_from("<IQ", content, at)))
            at += 12
        begin = -(-at // 32) * 32
        self.tensors: list[list[Any]] = [
            [name, shape, kind, content[begin + offset : begin + offset + 4 * prod(shape)]]
            for name, shape, kind, offset in described
        ]

    def put(self, key: str, letter: str, value: object) -> Parsed:
        self.entries[key] = ggufs.entry(key, letter, value)
        return self

    def drop(self, *keys: str) -> Parsed:
        for key in keys:
            del self.entries[key]
        return self

    def tensor(self, name: str) -> list[Any]:
        return next(tensor for tensor in self.tensors if tensor[0] == name)

    def without_tensor(self, name: str) -> Parsed:
        self.tensors = [tensor for tensor in self.tensors if tensor[0] != name]
        return self

    def with_type(self, kind: int, name: str = "blk.0.ffn_up.weight") -> Parsed:
        self.tensor(name)[2] = kind
        return self

    def with_shape(self, shape: tuple[int, ...], name: str) -> Parsed:
        self.tensor(name)[1] = shape
        return self

    def write(self, align: int = 32, version: int = 3, more: Sequence[bytes] = ()) -> bytes:
        """Return the whole file, its tensors one after the other."""
        described, data = [], b""
        for name, shape, kind, content in self.tensors:
            described.append(ggufs.tensor(name, shape, kind, len(data)))
            data += content + bytes(-len(content) % align)
        return ggufs.gguf([*self.entries.values(), *more], described, 0, align, version) + data


def _read_text(content: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", content, at)
    return content[at + 8 : at + 8 + length].decode(), at + 8 + length


def _skip_value(content: bytes, at: int) -> int:
    (kind,) = struct.unpack_from("<I", content, at)
    at += 4
    if kind == 9:
        kind, count = struct.unpack_from("<IQ", content, at)
        at += 12
    else:
        count = 1
    for dummy in range(count):
        at = at + 8 + struct.unpack_from("<Q", content, at)[0] if kind == 8 else at + 4
    return at


def _parts(missing: int | None = None, renamed: int | None = None) -> dict[str, bytes]:
    """Three parts of a model, one of them missing or with another name."""
    whole = Parsed()
    tensors, entries = whole.tensors, whole.entries
    cuts = [tensors[:3], tensors[3:10], tensors[10:]]
    files = {}
    for number, cut in enumerate(cuts):
        whole.tensors = cut
        whole.entries = dict(entries) if number == 0 else {}
        whole.put("split.no", "H", number).put("split.count", "H", 3).put("split.tensors.count", "i", len(tensors))
        name = f"tri-0000{number + 1}-of-00003.gguf"
        if number != missing:
            files[f"moved-{name}" if number == renamed else name] = whole.write()
    return files


def _double(key: str) -> bytes:
    whole = Parsed()
    return whole.write(more=[whole.entries[key]])


def _double_tensor() -> bytes:
    whole = Parsed()
    whole.tensors.append(list(whole.tensor("blk.1.attn_q.weight")))
    return whole.write()


def _moved(content: bytes, version: bytes) -> bytes:
    return content[:VERSION_AT] + version + content[VERSION_AT + 4 :]


def _nested() -> bytes:
    entry = ggufs.text(b"llama.nested") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQI", 4, 1, 7)
    return Parsed().write(more=[entry])


def _alignment(align: int, written: int | None = None) -> bytes:
    return Parsed().put("general.alignment", "I", align).write(written or align)


def _alignment_beside_32() -> bytes:
    """An alignment of 8 with which the weights do not begin at a multiple of 32 bytes."""
    for length in range(0, 32, 8):
        whole = Parsed().put("general.alignment", "I", 8).put("general.name", "8", b"x" * length)
        content = whole.write(8)
        if (len(content) - sum(len(tensor[3]) for tensor in whole.tensors)) % 32 == 8:
            return content
    raise AssertionError("no length of a name does it")


def _parse(key: str, letter: str, value: object) -> Callable[[], bytes]:
    return lambda: Parsed().put(key, letter, value).write()


def _number(key: str, value: int, letter: str = NUMBER) -> Callable[[], bytes]:
    return _parse(f"llama.{key}", letter, value)


def _renamed_architecture(name: str) -> bytes:
    whole = Parsed()
    entries = {key.replace("llama.", f"{name}."): value for key, value in whole.entries.items()}
    whole.entries = {}
    for key, value in entries.items():
        old = key.replace(f"{name}.", "llama.")
        whole.entries[key] = ggufs.text(key.encode()) + value[8 + len(old) :]
    return whole.put("general.architecture", "8", name.encode()).write()


def _without_tensors() -> bytes:
    whole = Parsed()
    whole.tensors = []
    return whole.write()


BAD_TEMPLATE = b"{% for message in messages %}{{ message['content'] }"
WHOLE_TEMPLATE = b"{% for m in messages %}{{ m['content'] + '}}' + {'a': {'b': 'c'}}['a']['b'] }}{% endfor %}"
TEMPLATE = "tokenizer.chat_template"
#: Files that no server can serve, with words of the sentence that refuses each.
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "al1": (lambda: _alignment(1), "its alignment is 1, no power of two from 8"),
    "al64str": (_parse("general.alignment", "8", b"64"), "its alignment is '64', no power of two from 8"),
    "be": (lambda: _moved(Parsed().write(), b"\0\0\0\3"), "for big-endian machines"),
    "dupkey": (lambda: _double("llama.block_count"), "it names the value llama.block_count twice"),
    "huge": (_parse("general.name", "8", b"x" * (20 * MIB)), "general.name would be 20971520 bytes long"),
    "nested": (_nested, "the array llama.nested has elements of the unknown type 9"),
    "noarch": (lambda: Parsed().drop("general.architecture").write(), "has no general.architecture"),
    "trunc": (lambda: Parsed().write()[:-100_000], "is truncated: its tensors need"),
    "v1": (lambda: Parsed().write(version=1), "is a GGUF file of version 1"),
    "v4": (lambda: Parsed().write(version=4), "is a GGUF file of version 4"),
    "al8": (_alignment_beside_32, "and servers need a multiple of 32 (general.alignment is 8)"),
    "al24": (lambda: _alignment(24), "its alignment is 24, no power of two"),
    "al48": (lambda: _alignment(48), "its alignment is 48, no power of two"),
    "archnl": (_parse("general.architecture", "8", b"llama\n"), r"of the architecture llama\n, which"),
    "dup": (_double_tensor, "has the tensor blk.1.attn_q.weight twice"),
    "emb577": (_number("embedding_length", 257), "by embedding_length and vocabulary of its header it has 257 x 259"),
    "heads0": (_number("attention.head_count", 0), "says 0 of llama.attention.head_count"),
    "i2s": (lambda: Parsed().with_type(I2_S).write(), "types that only ik_llama.cpp reads (I2_S)"),
    "layers4e9": (_number("block_count", 4_000_000_000), "servers have at most 512 layers"),
    "layersneg": (_number("block_count", -1, SIGNED), "has llama.block_count as int32, and servers read it as uint32"),
    "layersstr": (_parse("llama.block_count", "8", b"2"), "has llama.block_count as text"),
    "layers0": (_number("block_count", 0), "says llama.block_count 0"),
    "layers3": (_number("block_count", 3), "has no tensor of layer 2, and its header says 3 layers"),
    "layers1": (_number("block_count", 1), "has tensors of layer 1, and its header says 1 layers"),
    "misstensor": (
        lambda: Parsed().without_tensor("blk.1.ffn_norm.weight").write(),
        "lacks the tensor blk.1.ffn_norm.weight, which all other layers have",
    ),
    "nolayers": (lambda: Parsed().drop("llama.block_count").write(), "has no value llama.block_count"),
    "notemplate_bad": (_parse(TEMPLATE, "8", BAD_TEMPLATE), "cannot be parsed: its mark {{ at character 29"),
    "template_open": (
        _parse(TEMPLATE, "8", b"{% for message in messages %}{{ message['content'] }}"),
        "its {% for %} is not ended",
    ),
    "notok": (
        lambda: Parsed().drop(*[key for key in Parsed().entries if key.startswith("tokenizer.")]).write(),
        "has no tokenizer (tokenizer.ggml.model)",
    ),
    "q2_0": (lambda: Parsed().with_type(Q2_0).write(), "by the types and shapes before it, it would be at"),
    "q4k_r4": (lambda: Parsed().with_type(Q4_K_R4).write(), "types that only ik_llama.cpp reads (Q4_K_R4)"),
    "q8_0_r8": (lambda: Parsed().with_type(Q8_0_R8).write(), "types that only ik_llama.cpp reads (Q8_0_R8)"),
    "mxfp4_r8": (lambda: Parsed().with_type(MXFP4_R8).write(), "types that only ik_llama.cpp reads (MXFP4_R8)"),
    "unkarch": (_parse("general.architecture", "8", b"foobar9"), "of the architecture foobar9, which"),
    "unkarch_whole": (lambda: _renamed_architecture("foobar9"), "of the architecture foobar9, which"),
    "unktype": (lambda: Parsed().with_type(99).write(), "types that only ik_llama.cpp reads (Q8_2_X4)"),
    "unktype77": (lambda: Parsed().with_type(77).write(), "of a type that no engine knows (type 77)"),
    "wrongshape": (
        lambda: Parsed().with_shape((128, 512), "blk.0.attn_k.weight").write(),
        "has the tensor blk.0.attn_k.weight of 128 x 512 numbers",
    ),
    "zero": (_without_tensors, "has no tensors"),
    "ctx0": (_number("context_length", 0), "says llama.context_length 0"),
}
#: Files that are unusual, and that a server serves.
SERVED: dict[str, Callable[[], bytes]] = {
    "al64": lambda: _alignment(64),
    "emptyarr": _parse("llama.empty", "AI", []),
    "grown": lambda: Parsed().write() + b"more" * 1000,
    "huge15": _parse("general.description", "8", b"x" * (15 * MIB)),
    "nopre": lambda: Parsed().write(),
    "notemplate": lambda: Parsed().write(),
    "template": _parse(TEMPLATE, "8", WHOLE_TEMPLATE),
    "v2": lambda: Parsed().write(version=2),
}


def list_models_in_parts() -> Iterator[tuple[str, dict[str, bytes], str, bool]]:
    """Yield a name, the files of a model in three parts, the part that is named, and whether a server can serve it."""
    for number in range(3):
        yield f"tri-{number + 1}", _parts(), f"tri-0000{number + 1}-of-00003.gguf", True
        yield f"ren_{number}", _parts(renamed=number), "tri-00001-of-00003.gguf", False
    for number in (0, 2):
        yield f"gap-{number + 1}", _parts(missing=number), "tri-00002-of-00003.gguf", False
