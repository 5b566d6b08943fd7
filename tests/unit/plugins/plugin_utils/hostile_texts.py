# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documents in which each text that the reader accepts is one that would be markup on a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule

#: An element, the ends of two kinds of attributes, an entity, and the end of a script; it fits into a name.
HOSTILE = "<img src=x onerror=a({})>\"'&lt;</script>"


def spoil_texts(data: Any, is_accepted: Callable[[Any], bool], hostile: str = HOSTILE) -> Any:
    """Return a document with as many of its texts hostile as ``is_accepted`` lets pass, keys among them.

    A text is replaced everywhere at once, also in the name of the arm without it, so that names still fit together.
    ``hostile`` has {} in the place of a number.
    """
    text = json.dumps(data)
    for number, old in enumerate(dict.fromkeys(_texts(data))):
        changed = text
        for begin in ("", schedule.WITHOUT):
            changed = changed.replace(json.dumps(begin + old), json.dumps(begin + hostile.format(number)))
        if is_accepted(json.loads(changed)):
            text = changed
    return json.loads(text)


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(data, list):
        for one in data:
            yield from _texts(one)


class Markup(HTMLParser):
    """What a browser makes of a page: each kind of element with the names of its attributes, and the texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.scripts = 0
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {(tag, name) for name, dummy in attrs}
        self.scripts += tag == "script"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def assert_only_texts_differ(honest: str, hostile: str, at_least: int) -> None:
    """Fail where the hostile page has markup that the honest one has not, or shows fewer hostile texts."""
    one, other = Markup(honest), Markup(hostile)
    assert other.elements <= one.elements
    assert other.attributes <= one.attributes
    assert other.scripts == one.scripts == 1
    shown = sum("<img src=x" in text for text in other.texts)
    assert shown >= at_least, shown
