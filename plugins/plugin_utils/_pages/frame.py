# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frame of every HTML page: head, style, script and a policy that forbids network and foreign scripts."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.copying import COPY_SCRIPT, COPY_STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element, join_html_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def render_page(title: str, style: str, script: str, body: Iterable[Html], connect_url: str = "") -> str:
    """Return an HTML page whose script may send requests to ``connect_url`` only, to no server if that is "".

    ``style`` and ``script`` are not escaped: they are constants of this collection.
    """
    script += COPY_SCRIPT
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    # The directives base-uri and form-action do not inherit from default-src.
    policy += "; base-uri 'none'; form-action 'none'"
    policy += f"; connect-src {connect_url}" if connect_url else ""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", title),
        element("style", Html(style + COPY_STYLE)),
    )
    lines = join_html_lines([element("main", join_html_lines(body)), element("script", Html(script))])
    return f"<!DOCTYPE html>\n{element('html', head, element('body', lines), lang='en')}\n"


def scrolling_box(content: Html, label: str, kind: str = "") -> Html:
    """Return a box in which wide content scrolls, also by the keys of a keyboard; ``label`` names it for readers.

    ``kind`` is "narrow" for a box that scrolls in narrow windows only, so that the heads of its table stay in view.
    """
    return element("div", content, class_=f"wide {kind}".rstrip(), tabindex="0", role="region", aria_label=label)


def searchable_host_names(group: Mapping[str, Any]) -> str:
    """Return the names of the hosts of a group in one text, which the filter of a page searches."""
    return " ".join(group["hosts"]).lower()
