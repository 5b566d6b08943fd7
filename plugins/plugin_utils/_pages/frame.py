# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frame of every HTML page: it asks nobody but whom it is made to ask, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element, join_html

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def page(title: str, style: str, script: str, body: Iterable[Html], connect: str = "") -> str:
    """Return a page. Its script may ask ``connect``, a URL, and nobody else; style and script are our own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    # Neither of the two follows from default-src.
    policy += "; base-uri 'none'; form-action 'none'"
    policy += f"; connect-src {connect}" if connect else ""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", title),
        element("style", Html(style)),
    )
    lines = join_html([*body, element("script", Html(script))])
    return f"<!DOCTYPE html>\n{element('html', head, element('body', lines), lang='en')}\n"


def join_host_names(group: Mapping[str, Any]) -> str:
    """Return the names of a group's hosts for an attribute, in which the filter of a page looks for a name."""
    return " ".join(group["hosts"]).lower()
