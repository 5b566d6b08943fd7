#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the pictures of docs/drift.md: the report of a made-up fleet, as a page and in a terminal.

    drift_pictures.py [REPORT.json]

With REPORT.json, the report of a run is shown instead. Run as `make pictures`.
"""

from __future__ import annotations

import html
import json
import sys
import tempfile
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import drift_html, terminal_page
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import fleets, plans
from tools.pictures.chromium import Page

FOLDER = Path(__file__).parents[2] / "docs/images"
FLEET: dict[str, tuple[str, ...]] = {
    **{f"epyc9754-{number:02d}": () for number in range(1, 25)},
    **{f"epyc9654-{number:02d}": () for number in range(1, 13)},
    "epyc9754-07": ("mask", "msr"),
    "epyc9754-08": ("mask", "msr"),
    "epyc9654-03": ("pages",),
    "epyc9654-04": ("grub", "service"),
    "epyc7543-01": ("unknown",),
    "epyc7543-02": ("unreachable",),
}
#: The fleet of the earlier report. It has some of the same findings, and a finding that is resolved in FLEET.
BEFORE = {**FLEET, "epyc9754-08": (), "epyc9654-12": ("pages",), "epyc7543-02": ()}
#: Terminal code -> CSS: bold text, and background colours of a map.
STYLES = {"1": "font-weight: bold"}
STYLES.update(
    (f"30;{ground}", f"color: #000; background: {colour}")
    for ground, colour in (("47", "#c5c8c6"), ("43", "#e0b44a"), ("46", "#6fb7e8"))
)
COLOURS = {"31": "#ff8a4c", "32": "#3fc9a2", "33": "#e0b44a", "35": "#c3a0f0"}
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><body style="margin: 0; background: #16181b; color: #e8e8e8">
<pre style="margin: 1.2rem; font: 14px/1.4 ui-monospace, 'DejaVu Sans Mono', monospace; white-space: pre-wrap">"""


def terminal_to_html(page: str) -> str:
    """Return a terminal page with its colour codes as HTML."""
    first, *rest = page.split("\033[")
    pieces = [html.escape(first)]
    for piece in rest:
        code, dummy, text = piece.partition("m")
        if code == "0":
            pieces.append(f"</span>{html.escape(text)}")
        else:
            style = f"color: {COLOURS[code]}" if code in COLOURS else STYLES[code]
            pieces.append(f'<span style="{style}">{html.escape(text)}')
    return f"{TERMINAL}{''.join(pieces)}</pre>"


def build_sample_report() -> Document:
    """Return the report of the made-up fleet, compared with an earlier one."""
    before = fleets.report(BEFORE, generated=fleets.BEFORE)
    return fleets.report(FLEET, before, host_map=plans.result("9754 SMT")["map"])


def main(arguments: list[str]) -> int:
    document = json.loads(Path(arguments[0]).read_text()) if arguments else build_sample_report()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(drift_html.render_drift_html_page(document), encoding="utf-8")
        with Page(width=1100, height=1400) as browser:
            for name, dark in (("drift-page", False), ("drift-page-dark", True)):
                browser.emulate_dark_preference(dark)
                browser.open_file(file)
                browser.save_screenshot(FOLDER / f"{name}.png")
            browser.emulate_dark_preference(False)
            browser.click_element("tr[data-host=epyc9754-07] summary")
            browser.evaluate_javascript("document.querySelector('.legend').scrollIntoView()")
            browser.save_screenshot(FOLDER / "drift-matrix.png")
        file.write_text(terminal_to_html(terminal_page.render_terminal_page(document, colour=True)), encoding="utf-8")
        with Page(width=1100, height=980) as browser:
            browser.open_file(file)
            browser.save_screenshot(FOLDER / "drift-terminal.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
