#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the picture of docs/ablation.md: the page of a run of `make bench-llama`, docs/runs/two-cores.json.gz.

Run as `make pictures`.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_page
from tools.pictures.chromium import Page
from tools.pictures.drift import FOLDER

RUN = Path(__file__).parents[2] / "docs/runs/two-cores.json.gz"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(run_page.render_run_page(gzip.decompress(RUN.read_bytes()).decode()), encoding="utf-8")
        with Page(width=900, height=900) as browser:
            browser.open_file(file)
            browser.save_screenshot(FOLDER / "run-page.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
