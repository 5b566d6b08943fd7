# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only door from texts to HTML: whatever goes into a page and was not made here is shown as a text.

An f-string of markup is a plain text again, so a text that nobody escaped can be ugly on a page, but never markup.
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
    """Markup. Only element() and the frame of the pages make it; texts that are added or joined to it are escaped."""

    __slots__ = ()

    @classmethod
    def escape(cls, s: Any, /) -> Html:
        """Return markup as it is, and the markup that shows anything else as a text."""
        return s if isinstance(s, cls) else cls(escape(escape_unprintable(str(s))))


def element(tag: str, /, *content: object, **attributes: object) -> Html:
    """Return an element. In its content, all that is no markup is a text.

    ``class_`` is the attribute class, and ``data_hosts`` is data-hosts. An attribute of True has no value, and one of
    None or False is left out. The names of elements and attributes are ours, never of a document.
    """
    words = [tag]
    for key, value in attributes.items():
        if value is not None and value is not False:
            attribute = key.rstrip("_").replace("_", "-")
            words.append(attribute if value is True else f'{attribute}="{Html.escape(value)}"')
    start = f"<{' '.join(words)}>"
    return Html(start if tag in VOID else f"{start}{''.join(map(Html.escape, content))}</{tag}>")


def join_html(parts: Iterable[object]) -> Html:
    """Return parts below one another, each from a line of its own. What is no markup is a text."""
    return Html("\n".join(map(Html.escape, parts)))
