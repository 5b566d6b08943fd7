# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What axe-core finds on a page that people with a screen reader, a keyboard or weak eyes could not use."""

from __future__ import annotations

import json
from hashlib import sha256

from tools.pictures.chromium import Page
from vepyc import venvs

PACKAGE = "axe-core@4.14.1"
DIGEST = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
IMPACTS = ("serious", "critical")


def read_axe_script() -> str:
    """Return the script of axe-core, downloaded once; another content than the known one fails."""
    dummy, folder = venvs.ensure_node_modules(PACKAGE)
    content = (folder / "node_modules/axe-core/axe.min.js").read_bytes()
    assert sha256(content).hexdigest() == DIGEST, f"{PACKAGE} is not the file that its digest is of"
    return content.decode()


def find_violations(page: Page, script: str) -> list[str]:
    """Return the serious and critical findings on the page, each with its rule and the first elements."""
    page.evaluate_javascript(f"{script}; 0")
    found: list[str] = page.evaluate_javascript(f"""
        axe.run(document, {{ resultTypes: ['violations'] }}).then(result => result.violations
          .filter(rule => {json.dumps(IMPACTS)}.includes(rule.impact))
          .map(rule => `${{rule.id}}: ${{rule.nodes.slice(0, 4).map(node => node.html.slice(0, 160)).join(' | ')}}`))
    """)
    return found
