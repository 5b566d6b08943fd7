# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a GGUF file that every copy of a model has: keys of its header, and the order in which it is written."""

from __future__ import annotations

from collections.abc import Callable

from gguf import GGUFReader, GGUFValueType, GGUFWriter


def copy_keys(reader: GGUFReader, writer: GGUFWriter, is_copied: Callable[[str], bool]) -> None:
    """Add to ``writer`` the keys of a header whose names ``is_copied`` accepts."""
    for name, field in reader.fields.items():
        # GGUFReader lists fields of the header too, which GGUFWriter writes by itself.
        if not name.startswith("GGUF.") and is_copied(name):
            kind, *inner = field.types
            writer.add_key_value(name, field.contents(), kind, inner[-1] if kind == GGUFValueType.ARRAY else None)


def write_file(writer: GGUFWriter) -> None:
    """Write the header, the keys and the tensors of a file, and close it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
