# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frame of every HTML page: it asks nobody but whom it is made to ask, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def page(title: str, style: str, script: str, body: Iterable[str], connect: str = "") -> str:
    """Return a page; ``body`` is HTML, the others are texts. Its script may ask ``connect``, a URL, and nobody else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    policy += f"; connect-src {escape(connect)}" if connect else ""
    head = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<title>{escape(title)}</title><style>{style}</style></head><body>",
    )
    return "\n".join([*head, *body, f"<script>{script}</script></body></html>"]) + "\n"


def hosts(group: Mapping[str, Any]) -> str:
    """Return the names of a group's hosts for an attribute, in which the filter of a page looks for a name."""
    return escape(" ".join(group["hosts"]).lower())
