# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stamp of stored files: the number of their format, and the version of the collection that wrote them.

The number of a file grows when its content, or the meaning of its absence, changes so that an older version would
misunderstand it. Each version reads all older formats, and refuses newer ones by name, so that nobody moves away a
file that only a newer version can read.
"""

from __future__ import annotations

from ._errors import Damaged, NewerFormat
from ._version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FORMAT, COLLECTION = "format", "collection"
#: The format of files without a number, because the first files had no number.
FIRST = 1


def add_stamp(data: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the data of a file with the number of its format and this version of the collection."""
    return {FORMAT: number, COLLECTION: VERSION, **data}


def take_stamp(path: str, data: dict[str, Any], newest: int) -> int:
    """Remove the stamp from the data of a file, and return the number of its format, which is at most ``newest``.

    Raises NewerFormat for a higher number, and Damaged for what is no number of a format.
    """
    number, version = data.pop(FORMAT, FIRST), data.pop(COLLECTION, None)
    if not isinstance(number, int) or isinstance(number, bool) or number < FIRST:
        raise Damaged(path, f"its format is {number!r}, which is no number of a format")
    if number > newest:
        raise NewerFormat(f"{path} {newer_format_message(number, newest, version)}", file=path)
    return number


def newer_format_message(number: object, newest: int, version: object) -> str:
    """Return the end of a sentence about a file of a newer format, and what to do; ``version`` wrote the file."""
    known = version if isinstance(version, str) and version.isascii() and version.isprintable() else ""
    wrote = f"a newer version of the collection ({known})" if known else "a newer version of the collection"
    reader = f"version {known} or a newer one" if known else "the newer version"
    return (
        f"was written by {wrote}: its format is {number}, and this version ({VERSION}) reads formats up to {newest}. "
        f"Nothing was changed. Leave the file where it is, and use {reader}."
    )
