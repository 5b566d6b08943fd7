# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of the capacity of a fleet in a real browser: on a desk, on a phone, and in the dark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import parse_capacity_request
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.rendering import (
    compute_fleet_capacity,
    render_capacity,
)
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import capacity_facts
from tools.pictures.chromium import Page

from .conftest import open_page
from .contrast import text_contrasts
from .test_benchmark_page import WIDTHS, resized

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


@pytest.fixture
def page(browser: Page, tmp_path: Path) -> Page:
    """The page of a fleet, just opened."""
    hosts: dict[str, dict[str, Any]] = {
        name: {"facts": facts, "reason": ""} for name, facts in capacity_facts.example_fleet()
    }
    hosts["gone-1"] = {"facts": None, "reason": "no facts are kept"}
    request = parse_capacity_request(7, None, {"interactive": 99})
    return open_page(
        browser, tmp_path / "capacity.html", render_capacity(compute_fleet_capacity(hosts, request), NOW)["page"]
    )


def test_faults_come_first_and_nothing_is_asked_of_a_network(page: Page) -> None:
    first = page.evaluate_javascript("document.body.firstElementChild.innerText")
    assert first.startswith("epyc9754-02.example.com: This host reads 153 of 461 GB/s")
    headlines = page.evaluate_javascript("[...document.querySelectorAll('.headline')].map(one => one.innerText)")
    assert headlines[0].startswith("11 hosts serve ") and headlines[1].startswith("Under what is wanted: ")
    titles = page.evaluate_javascript("[...document.querySelectorAll('section h2')].map(one => one.innerText)")
    assert titles[:3] == ["What is wanted", "What is served", "Hosts"] and titles[-1] == "Next"
    assert page.evaluate_javascript("document.querySelectorAll('#more tbody tr').length") >= 9
    assert [url for url in page.requested_addresses() if not url.startswith("file:")] == []
    assert page.errors == []


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_the_page_is_as_wide_as_the_window(page: Page, width: int) -> None:
    """Tables that are wider scroll in their box."""
    with resized(page, width):
        assert page.evaluate_javascript("document.documentElement.scrollWidth") == width
        wide = "[...document.querySelectorAll('.wide')].every(box => box.getBoundingClientRect().right <= innerWidth)"
        assert page.evaluate_javascript(wide)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everything_can_be_read(page: Page, dark: bool) -> None:
    page.emulate_dark_preference(dark)
    ratios = text_contrasts(page)
    assert len(ratios) > 60
    assert [name for ratio, name in ratios if ratio < 4.5] == []
