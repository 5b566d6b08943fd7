# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the line with which a program of llama.cpp, or a compiler, says why it stops."""

from __future__ import annotations

import re

#: The time and the level before a line of the log.
STAMP = re.compile(r"^\d[\d.]* [A-Z] ")


def sentence(out: str, err: str) -> str:
    """Return the line with which a server says why it stops, without the manual of the argument that follows."""
    texts = (re.split(r"\n\s*usage:", f"\n{text}", maxsplit=1)[0] for text in (out, err))
    lines = [STAMP.sub("", line.strip()) for text in texts for line in text.splitlines() if line.strip()]
    for kind in ("^error", "error|invalid|failed|unknown", ""):
        found = [line for line in lines if re.search(kind, line, re.IGNORECASE)]
        if found:
            return f"{found[-1].rstrip('.')}."
    return "it says nothing."
