#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the picture of docs/capacity.md: the page of the capacity of a made-up fleet.

Run as `make pictures`.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import parse_capacity_request
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.rendering import (
    compute_fleet_capacity,
    render_capacity,
)
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import capacity_facts
from tools.pictures.chromium import Page
from tools.pictures.drift import FOLDER

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
WANTED = {"interactive": 16, "llama-3.3-70b-instruct-q4_k_m": 8}


def main() -> int:
    hosts = {name: {"facts": facts, "reason": ""} for name, facts in capacity_facts.example_fleet()}
    page = render_capacity(compute_fleet_capacity(hosts, parse_capacity_request(7, None, WANTED)), NOW)["page"]
    with tempfile.TemporaryDirectory() as folder, Page(width=1100, height=1150) as browser:
        file = Path(folder, "page.html")
        file.write_text(page, encoding="utf-8")
        browser.open_file(file)
        browser.save_screenshot(FOLDER / "capacity-page.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
