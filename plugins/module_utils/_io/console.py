# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output of commands, with escapes for unprintable characters: a name from a file could contain terminal codes."""

from __future__ import annotations

import sys

from .._notation.printable import escape_unprintable


def print_lines(*lines: str) -> None:
    """Print lines to standard output, escaped."""
    sys.stdout.write("".join(f"{escape_unprintable(text)}\n" for text in lines))


def print_error_lines(*lines: str) -> None:
    """Print lines to standard error, escaped."""
    sys.stderr.write("".join(f"{escape_unprintable(text)}\n" for text in lines))


def print_json(data: object) -> None:
    """Print data as JSON."""
    import json

    # JSON itself escapes all control characters but DEL.
    print_lines(*json.dumps(data, indent=1, sort_keys=True).replace("\x7f", "\\u007f").split("\n"))
