# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A page of a run as tests read it: what a person sees, its markup, its tables and its charts."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Reader(HTMLParser):
    """What a person sees of a page, and what a browser makes of its markup."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.titles: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.elements.add(tag)
        self.attributes |= {name for name, dummy in attrs}

    def handle_data(self, data: str) -> None:
        if self._inside == "h2" and data.strip():
            self.titles.append(data)
        if self._inside not in ("style", "script") and data.strip():
            self.words.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def rows(page: str, title: str) -> list[list[str]]:
    """Return the words of each row of a table."""
    part = section(page, title).partition("<tbody>")[2]
    return [
        [re.sub("<title>.*?</title>|<[^>]*>", "", cell) for cell in cells(row)]
        for row in re.findall("<tr>(.*?)</tr>", part)
    ]


def section(page: str, title: str) -> str:
    """Return the markup of a section, or of a part that is folded up, after its title."""
    for tag, end in (("h2", "</section>"), ("summary", "</details>")):
        dummy, found, after = page.partition(f"<{tag}>{title}</{tag}>")
        if found:
            return after.partition(end)[0]
    return ""


def cells(row: str) -> list[str]:
    """Return the markup of each cell of a row."""
    return re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)


def groups(page: str, title: str) -> list[str]:
    """Return the groups of a chart."""
    return re.findall("<g .*?</g>", section(page, title))


def marks(markup: str) -> list[float]:
    """Return how far to the right each mark is, in percent of the width."""
    return [float(x) for x in re.findall(r'<svg class="at" x="([\d.]+)%" y="[\d.]+"><path class="mark', markup)]
