# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line inside a unified kernel image (UKI), which is a section of a PE file.

Source: the UAPI Group's specification of unified kernel images; the section table of Microsoft's PE format.
"""

from __future__ import annotations

from ..._errors import TuningError

SECTION = b".cmdline"
#: Offsets in a PE file: the offset of its header, and in that the number of sections and the size of what follows it.
HEADER_OFFSET, SECTION_COUNT, OPTIONAL_SIZE = 0x3C, 6, 20
HEADER_SIZE, ROW_SIZE = 24, 40
#: Offsets in a row of the section table.
VIRTUAL_SIZE, RAW_SIZE, RAW_OFFSET = 8, 16, 20


def read_command_line(path: str) -> str:
    """Return the command line that an image was built with, "" for an image without one; of profiles the first one's.

    Raises TuningError for a file that is no PE file or cannot be read.
    """
    try:
        with open(path, "rb") as image:
            start = _read_number(image.read(0x40), HEADER_OFFSET, 4)
            image.seek(start)
            header = image.read(HEADER_SIZE)
            if header[:4] != b"PE\0\0":
                raise TuningError(f"{path} is no unified kernel image.")
            image.seek(_read_number(header, OPTIONAL_SIZE, 2), 1)
            table = image.read(_read_number(header, SECTION_COUNT, 2) * ROW_SIZE)
            for number in range(0, len(table), ROW_SIZE):
                row = table[number : number + ROW_SIZE]
                if row[:8].rstrip(b"\0") == SECTION:
                    image.seek(_read_number(row, RAW_OFFSET, 4))
                    size = min(_read_number(row, VIRTUAL_SIZE, 4), _read_number(row, RAW_SIZE, 4))
                    return image.read(size).rstrip(b"\0").decode("utf-8", "surrogateescape")
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error.strerror}.") from None
    return ""


def _read_number(data: bytes, offset: int, size: int) -> int:
    return int.from_bytes(data[offset : offset + size], "little")
