# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the line in which a program states its error, in its output or in the journal of its unit."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The time and the level with which a line of a server's log begins.
LOG_PREFIX = re.compile(r"^\d[\d.]* [A-Z] ")
#: The first line of a start in the journal of a unit.
START_OF_UNIT = re.compile(r"^Starting \S+\.service\b")
#: Lines that name no reason: those of systemd, and those of a llama-server that looks for the memory of GPUs.
NO_REASON = re.compile(r"\.service: |^Failed to start |common_fit_params")
#: The forms of lines that state an error, the one that says most about the reason first. The first line of a form is
#: the reason, and later ones are consequences; but a traceback of Python ends with its reason.
FIRST_LINE_FORMS = (
    re.compile(r"^http://\S+ does not serve: .* requested of it"),
    re.compile(r"^\d[\d.]* E "),
    re.compile(r"GGML_ASSERT|GGML_ABORT|^terminate called|^\s*what\(\):"),
)
LAST_LINE_FORM = re.compile(r"^(?:\([^)]*\) )?(?:\w+\.)*\w*(?:Error|Exception)\b: ")
VAGUE_FORMS = (re.compile(r"error|invalid|failed|unknown", re.IGNORECASE), re.compile(r"^http://\S+ "))


def find_last_error_line(out: str, err: str) -> str:
    """Return the last line of a program's output that states an error, or else the last line before a usage text."""
    texts = (re.split(r"\n\s*usage:", f"\n{text}", maxsplit=1)[0] for text in (out, err))
    lines = [LOG_PREFIX.sub("", line.strip()) for text in texts for line in text.splitlines() if line.strip()]
    for kind in ("^error", "error|invalid|failed|unknown", ""):
        matching = [line for line in lines if re.search(kind, line, re.IGNORECASE)]
        if matching:
            return f"{matching[-1].rstrip('.')}."
    return "it printed nothing."


def find_reason_line(journal: Sequence[str]) -> str:
    """Return the line in the journal of a unit that names why its last failed start failed; "" where no line does."""
    starts = [number for number, line in enumerate(journal) if START_OF_UNIT.match(line)]
    # The unit may have been started again meanwhile, so that the last start has no reason yet.
    ends = [*starts[1:], len(journal)]
    for first, end in reversed([*zip(starts, ends)] or [(0, len(journal))]):
        lines = [line for line in journal[first:end] if not NO_REASON.search(line) and not START_OF_UNIT.match(line)]
        for matching in (
            *([line for line in lines if form.search(line)] for form in FIRST_LINE_FORMS),
            [line for line in lines if LAST_LINE_FORM.search(line)][-1:],
            *([line for line in lines if form.search(line)] for form in VAGUE_FORMS),
        ):
            if matching:
                return LOG_PREFIX.sub("", matching[0]).strip()
    return ""
