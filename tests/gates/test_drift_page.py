# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drift report's HTML page in a real browser: what a person sees, opens and filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import drift_html
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import plans
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.fleets import report
from tools.pictures.chromium import Page

from .conftest import open_page
from .contrast import map_letter_contrasts, text_contrasts

FLEET: dict[str, tuple[str, ...]] = {
    "epyc9754-01": ("mask", "grub"),
    "epyc9754-02": ("mask", "grub"),
    "epyc9654-01": ("msr",),
    "epyc9654-02": (),
    "gone-1": ("unreachable",),
    "dim-1": ("unknown",),
}
SEEN = "[...document.querySelectorAll('tr[data-host]')].filter(row => row.offsetParent).map(row => row.dataset.host)"
CARDS = "[...document.querySelectorAll('article')].filter(one => one.offsetParent).map(one => one.id)"
#: Waits until a map is there.
DRAWN = """new Promise(done => { const look = () => document.querySelector('.drawn svg') ? done(true)
  : requestAnimationFrame(look); look(); })"""
COUNT = "document.querySelector('output').textContent"


@pytest.fixture
def page(browser: Page, tmp_path: Path) -> Page:
    """The page of FLEET, just opened."""
    text = drift_html.render_drift_html_page(report(FLEET, host_map=plans.result("9754 SMT")["map"]))
    return open_page(browser, tmp_path / "report.html", text)


def test_it_shows_the_fleet_and_asks_nobody_for_anything(page: Page) -> None:
    assert page.evaluate_javascript("document.querySelector('.headline').innerText") == (
        "6 hosts: 1 unreachable, 3 with drift, 1 unknown, 1 clean."
    )
    trouble_first = ["gone-1", "epyc9654-01", "epyc9754-01", "epyc9754-02", "dim-1", "epyc9654-02"]
    assert page.evaluate_javascript(SEEN) == trouble_first
    assert page.evaluate_javascript("document.querySelectorAll('thead th').length") == 7
    # The first thing below the headline is who could not be looked at.
    assert "gone-1" in page.evaluate_javascript("document.querySelector('article').innerText")
    assert [url for url in page.requested_addresses() if not url.startswith("file:")] == []
    assert page.errors == []


def test_a_host_opens_and_leads_to_what_is_wrong_with_it(page: Page) -> None:
    closed = "document.querySelector('tr[data-host=\"epyc9754-01\"] .findings')"
    assert page.evaluate_javascript(f"{closed}.checkVisibility()") is False
    page.click_element('tr[data-host="epyc9754-01"] summary')
    page.evaluate_javascript(DRAWN)
    opened = "document.querySelector('.drawn .findings')"
    assert page.evaluate_javascript(f"{opened}.checkVisibility()") is True, "the list is beside the map"
    assert "found ffff, wanted 00ff" in page.evaluate_javascript(f"{opened}.innerText")
    link = page.evaluate_javascript(f"{opened}.querySelector('a').getAttribute('href')")
    assert "L3 share of group draft" in page.evaluate_javascript(f"document.querySelector('{link}').innerText")
    assert page.evaluate_javascript("document.querySelector('tr[data-host=\"epyc9654-02\"] details')") is None, (
        "it has nothing to open"
    )


def marked_cells(page: Page) -> Any:
    """What is marked, and the last line of its title."""
    return page.evaluate_javascript(
        "Object.fromEntries([...document.querySelectorAll('.drawn .wrong')].map(one => [one.dataset.at,"
        "one.querySelector(':scope > title').textContent.split('\\n').at(-1)]))"
    )


def test_a_host_that_is_opened_has_a_map_with_marks_where_it_is_wrong(page: Page) -> None:
    assert page.evaluate_javascript("document.querySelectorAll('svg').length") == 0, (
        "maps are drawn when they are asked for"
    )
    # By keyboard alone.
    page.evaluate_javascript("document.querySelector('tr[data-host=\"epyc9754-01\"] summary').focus()")
    page.press_key("Enter")
    page.evaluate_javascript(DRAWN)
    assert marked_cells(page) == {"l3:3": "\u25b2 L3 partition: L3 share of group draft, L3 domain 3"}
    assert page.evaluate_javascript("document.querySelector('.wrong > text').textContent") == "\u25b2 L3 3"
    assert page.evaluate_javascript("document.querySelectorAll('.drawn [data-at^=\"cpu:\"]').length") == 256
    page.press_key("Enter")
    page.evaluate_javascript("new Promise(done => setTimeout(done, 100))")
    assert page.evaluate_javascript("document.querySelector('.drawn')") is None, "it closes with its host"
    page.click_element('tr[data-host="epyc9654-01"] summary')
    page.evaluate_javascript(DRAWN)
    assert marked_cells(page) == {"cpu:5": "\u25b2 prefetchers: prefetcher l1_stride, CPU 5"}
    assert page.evaluate_javascript("getComputedStyle(document.querySelector('rect.wrong')).strokeWidth") == "3px"
    page.click_element("input[name=host]")
    page.type_text("9754")
    assert page.evaluate_javascript("document.querySelector('.drawn').checkVisibility()") is False, (
        "its host is not shown"
    )
    assert page.errors == []


def test_filter_by_host(page: Page) -> None:
    page.click_element("input[name=host]")
    page.type_text("EPYC9654")
    assert page.evaluate_javascript(SEEN) == ["epyc9654-01", "epyc9654-02"]
    assert page.evaluate_javascript(COUNT) == "2 of 6 hosts"
    assert "prefetcher" in page.evaluate_javascript(f"document.getElementById({CARDS}[0]).innerText")
    assert len(page.evaluate_javascript(CARDS)) == 1


def test_filter_by_layer_and_by_state(page: Page) -> None:
    def choose(layer: str) -> Any:
        return page.evaluate_javascript(
            f"(() => {{ const list = document.querySelector('select'); list.value = '{layer}';"
            "list.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )

    choose("resctrl")
    assert page.evaluate_javascript(SEEN) == ["epyc9754-01", "epyc9754-02", "dim-1"]
    choose("msr")
    assert page.evaluate_javascript(SEEN) == ["epyc9654-01"]
    choose("")
    page.click_element("input[name=wrong]")
    assert set(page.evaluate_javascript(SEEN)) == set(FLEET) - {"epyc9654-02"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(page: Page, dark: bool) -> None:
    """The contrast of WCAG 2, level AA: at least 4.5 of the text against what is behind it."""
    page.emulate_dark_preference(dark)
    page.click_element('tr[data-host="epyc9754-01"] summary')
    page.evaluate_javascript(DRAWN)
    assert min(map_letter_contrasts(page).values()) >= 4.5
    ratios = text_contrasts(page)
    assert len(ratios) > 50
    assert [name for ratio, name in ratios if ratio < 4.5] == []
    # The background must change, not only the preference.
    ground = page.evaluate_javascript("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")


def test_it_prints_all_and_no_controls(page: Page) -> None:
    page.click_element('tr[data-host="epyc9754-01"] summary')
    page.evaluate_javascript(DRAWN)
    page.emulate_print(True)
    assert page.evaluate_javascript("document.querySelector('.drawn svg').checkVisibility()") is True
    assert page.evaluate_javascript("document.querySelector('form').checkVisibility()") is False
    assert set(page.evaluate_javascript(SEEN)) == set(FLEET)
    pages = page.call_method("Page.printToPDF")["data"]
    assert len(pages) > 10_000


def test_a_script_in_a_name_does_not_run(browser: Page, tmp_path: Path) -> None:
    evil = "<img src=x onerror=document.title='run'><script>document.title='run'</script>"
    file = tmp_path / "evil.html"
    file.write_text(drift_html.render_drift_html_page(report({evil: ("mask",), "b": ("failed",)})), encoding="utf-8")
    browser.open_file(file)
    assert browser.evaluate_javascript("document.title").startswith("Drift: ")
    assert evil in browser.evaluate_javascript("document.body.innerText")
