#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the pictures of plans in the documents: the page of a made-up fleet, and the map in a terminal.

Run as `make pictures`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._host import map_text
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page import plan_html
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import plans
from tools.pictures.chromium import Page
from tools.pictures.drift import FOLDER, terminal_to_html

FLEET = {
    **{f"epyc9754-{number:02d}": plans.result("9754 SMT", 2) for number in range(1, 25)},
    **{f"epyc9654-{number:02d}": plans.result("9654", 1) for number in range(1, 13)},
    **{f"epyc7543-{number:02d}": plans.result("two 7543", 1) for number in range(1, 5)},
}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(plan_html.render_plan_page(plans.gathered(FLEET)), encoding="utf-8")
        with Page(width=900, height=978) as browser:
            for name, dark in (("plan-page", False), ("plan-page-dark", True)):
                browser.emulate_dark_preference(dark)
                browser.open_file(file)
                browser.save_screenshot(FOLDER / f"{name}.png")
        text = map_text.render_map(plans.result("9754 SMT")["map"], coloured=True)
        file.write_text(terminal_to_html(f"# sovereign-epyc show\n{text}"), encoding="utf-8")
        with Page(width=800, height=680) as browser:
            browser.open_file(file)
            browser.save_screenshot(FOLDER / "plan-terminal.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
