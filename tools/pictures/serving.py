#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the picture of the page of what is served in docs/monitoring.md, of a made-up fleet.

Run as `make pictures`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.plugin_utils._serving_page import serving_html
from tests.gates.prometheus import Prometheus, make_fleet_metrics
from tools.pictures.chromium import Page
from tools.pictures.drift import FOLDER

DRAWN = """
new Promise(done => {
  const ask = () => document.querySelector('tbody tr') ? done() : setTimeout(ask, 20);
  ask();
})
"""


def main() -> int:
    prometheus = Prometheus()
    prometheus.samples = make_fleet_metrics(12, "qwen3-32b")
    with tempfile.TemporaryDirectory() as folder, Page(width=1180, height=700) as browser:
        file = Path(folder, "serving.html")
        text = serving_html.render_serving_page(prometheus.url)
        file.write_text(text, encoding="utf-8")
        browser.open_file(file)
        browser.evaluate_javascript(DRAWN)
        browser.evaluate_javascript(
            "document.querySelector('.faint').firstChild.data = 'http://prometheus-01.example.com:9090, '"
        )
        browser.save_screenshot(FOLDER / "serving-page.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
