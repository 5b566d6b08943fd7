# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface as tables of docs/interface.md."""

from __future__ import annotations

from collections.abc import Sequence

from tools.interface.sources import OPTIONAL, ROOT, Interface

PAGE = ROOT / "docs/interface.md"
BEGIN, END = "<!-- `make interface ARGS=--write` writes from here -->", "<!-- to here -->"
#: The kinds of which a name that is not optional is required.
WITH_REQUIRED = ("Variables of roles", "Modules", "Filters", "Lookups", "Callbacks")


def insert_tables(page: str, interface: Interface) -> str:
    """Return a page with the tables of an interface between its two marks."""
    before, dummy, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{render_tables(interface)}\n{END}{rest.partition(END)[2]}"


def render_tables(interface: Interface) -> str:
    """Return a Markdown table for each kind; what belongs to a name stands in its row."""
    lines = []
    for kind, names in interface.items():
        inner: dict[str, list[str]] = {}
        for name, parts in names.items():
            head, dummy, rest = name.partition(".") if not name.startswith("/") else (name, "", "")
            cells = inner.setdefault(head, [])
            text = _format_parts(parts, kind in WITH_REQUIRED)
            if rest or text:
                cells.append(f"`{rest}`{f' {text}' if text else ''}" if rest else text)
        lines += [f"### {kind}", ""]
        if any(inner.values()):
            lines += ["| Name | What belongs to it |", "| --- | --- |"]
            lines += [f"| `{head}` | {'; '.join(cells)} |" for head, cells in inner.items()]
        else:
            lines += ["| Names |", "| --- |", f"| {', '.join(f'`{head}`' for head in inner)} |"]
        lines.append("")
    return "\n".join(lines)


def _format_parts(parts: Sequence[str], may_be_required: bool) -> str:
    """Return the type of a name, whether it is required, its values, and the variables that set it."""
    values = [part[1:] for part in parts if part.startswith("=")]
    words = [part for part in parts if not part.startswith("=") and part != OPTIONAL]
    if may_be_required and parts and OPTIONAL not in parts:
        words.append("required")
    return " ".join(words) + (f" ({', '.join(values)})" if values else "")
