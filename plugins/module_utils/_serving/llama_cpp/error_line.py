# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the line of an output in which a program of llama.cpp, or a compiler, states its error."""

from __future__ import annotations

import re

#: The time and the level with which a line of a server's log begins.
LOG_PREFIX = re.compile(r"^\d[\d.]* [A-Z] ")


def find_last_error_line(out: str, err: str) -> str:
    """Return the last line of a program's output that states an error, or else the last line before a usage text."""
    texts = (re.split(r"\n\s*usage:", f"\n{text}", maxsplit=1)[0] for text in (out, err))
    lines = [LOG_PREFIX.sub("", line.strip()) for text in texts for line in text.splitlines() if line.strip()]
    for kind in ("^error", "error|invalid|failed|unknown", ""):
        matching = [line for line in lines if re.search(kind, line, re.IGNORECASE)]
        if matching:
            return f"{matching[-1].rstrip('.')}."
    return "it printed nothing."
