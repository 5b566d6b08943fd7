# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of the parts of a GGUF file that is split into several files, and of copies that are not finished."""

from __future__ import annotations

import os

from .numbers import parse_whole_number


def list_gguf_parts(path: str) -> list[str]:
    """Return the paths of all parts of a model, as NAME-00001-of-00003.gguf; only the path for a model in one file."""
    stem, dot, last = path.rpartition(".")
    tail = stem[-len("-00001-of-00003") :]
    digits = tail[1:6] + tail[-5:]
    if (
        dot
        and last == "gguf"
        and tail[:1] + tail[6:10] == "--of-"
        and parse_whole_number(digits) is not None
        and len(digits) == 10
    ):
        count = int(tail[-5:])
        return [f"{stem[: -len(tail)]}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    return [path]


def unfinished_copy_path(path: str) -> str:
    """Return where the copy of a file on a hugetlbfs is while it is made; then it gets its own name."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.part")
