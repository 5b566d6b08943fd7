# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTML elements with escaped contents: only markup that ``element`` made reaches a page as markup.

An f-string of markup is plain text again, and is escaped. So a forgotten conversion can look ugly, but is never markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: Elements that have no content and no end tag.
VOID = ("input", "meta", "br")


class Html(Markup):
    """Markup, made by element() and the frame of pages only. Texts that are added or joined to it are escaped."""

    __slots__ = ()

    @classmethod
    def escape(cls, s: Any, /) -> Html:
        """Return markup unchanged, and any other value as markup that shows its text."""
        return s if isinstance(s, cls) else cls(escape(escape_unprintable(str(s))))


def element(tag: str, /, *content: object, **attributes: object) -> Html:
    """Return an HTML element with its content; content that is not markup is escaped.

    ``class_`` is the attribute class, and ``data_hosts`` is data-hosts. An attribute that is True has no value, and an
    attribute that is None or False is left out. Names of elements and attributes are not escaped: never take them from
    a document.
    """
    tokens = [tag]
    for key, value in attributes.items():
        if value is not None and value is not False:
            attribute = key.rstrip("_").replace("_", "-")
            tokens.append(attribute if value is True else f'{attribute}="{Html.escape(value)}"')
    start = f"<{' '.join(tokens)}>"
    return Html(start if tag in VOID else f"{start}{''.join(map(Html.escape, content))}</{tag}>")


def join_html_lines(parts: Iterable[object]) -> Html:
    """Return parts as markup, each on its own line; parts that are not markup are escaped."""
    return Html("\n".join(map(Html.escape, parts)))
