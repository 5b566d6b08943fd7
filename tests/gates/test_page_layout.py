# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every page of the product on a phone, a laptop and a wide screen, light and dark, and a sample of the documents.

Nothing makes a page slide sideways, every text is large enough to be read, the headings are in order, the Tab key
reaches everything that can be used, in the order of the page, and axe-core has no serious finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._serving_page import serving_html
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils._pages.every_page import PAGES
from tools.pictures.chromium import Page

from .axe import find_violations, read_axe_script
from .conftest import ROOT, Run, open_page
from .prometheus import Prometheus, make_fleet_metrics
from .test_serving_page import DRAWN

WIDTHS = (390, 1280, 1920)
#: CSS pixels, as shown: a label of a drawing is as large as its drawing makes it.
SMALLEST_TEXT = 9
SERVING = "serving"
#: Pages of the documents with tables, pictures, commands and the search.
DOCUMENTS = ("index.html", "quickstart.html", "drift.html", "monitoring.html", "interface.html", "search.html")
#: Opens all that can be opened, and waits until the maps in it are drawn.
OPEN = """
new Promise(done => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  setTimeout(done, 100);
})
"""
#: How many pixels the page is wider than its window, and the elements that no box with a scroll bar contains.
OVERFLOW = """
(() => {
  const edge = document.documentElement.clientWidth;
  const scrolls = node => node && (['auto', 'scroll'].includes(getComputedStyle(node).overflowX)
    && node !== document.body && node !== document.documentElement || scrolls(node.parentElement));
  const wide = [...document.querySelectorAll('body *')].filter(node => node.checkVisibility()
    && getComputedStyle(node).position !== 'fixed'
    && node.getBoundingClientRect().right > edge + 1 && !scrolls(node.parentElement) && !scrolls(node));
  return [document.documentElement.scrollWidth - edge,
    wide.slice(0, 4).map(node => node.outerHTML.slice(0, 120))];
})()
"""
SMALL_TEXTS = f"""
[...document.querySelectorAll('body *')].filter(node => node.checkVisibility() && node.getBoundingClientRect().width
  && !node.matches('title, script, style')
  && [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()))
  .map(node => [parseFloat(getComputedStyle(node).fontSize) * (node.ownerSVGElement ? node.getScreenCTM().a : 1),
    node.textContent.trim().slice(0, 40)])
  .filter(([size]) => size < {SMALLEST_TEXT}).slice(0, 4)
"""
HEADINGS = "[...document.querySelectorAll('h1, h2, h3, h4')].map(node => Number(node.localName[1]))"
#: Everything that can be used and is to be seen, in the order of the page.
USABLE = """
window.usable = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
  .filter(node => node.checkVisibility() && node.getBoundingClientRect().width);
window.usable.length
"""
FOCUSED = "window.usable.indexOf(document.activeElement)"

Open = Callable[[str], Page]


@pytest.fixture(scope="module")
def axe_script() -> str:
    return read_axe_script()


@pytest.fixture
def open_product_page(browser: Page, tmp_path: Path) -> Iterator[Open]:
    """Open a page of the product with everything on it opened; the browser has its own window size again afterwards."""
    server = Prometheus()

    def open_named(name: str) -> Page:
        if name == SERVING:
            server.samples = make_fleet_metrics(3)
            text = serving_html.render_serving_page(server.url)
        else:
            text = PAGES[name].render(PAGES[name].document())
        page = open_page(browser, tmp_path / f"{name}.html", text)
        if name == SERVING:
            page.evaluate_javascript(DRAWN)
        page.evaluate_javascript(OPEN)
        return page

    yield open_named
    server.shutdown()
    server.server_close()
    browser.call_method("Emulation.clearDeviceMetricsOverride")


@pytest.fixture(scope="module")
def documents(run: Run) -> Path:
    """The folder of the documents as a site."""
    run("tools/run.sh", "python", "-m", "tools.docs", env={"PYTHONPATH": ".collections:lab:."})
    return ROOT / "build/docs/html"


def resize_window(page: Page, width: int) -> None:
    page.call_method("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=False)
    page.evaluate_javascript("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def require_fits_window(page: Page, width: int) -> None:
    resize_window(page, width)
    assert page.evaluate_javascript(OVERFLOW) == [0, []], width
    assert page.evaluate_javascript(SMALL_TEXTS) == [], width


def require_headings_in_order(page: Page) -> None:
    levels = page.evaluate_javascript(HEADINGS)
    assert levels[0] == 1 and levels.count(1) == 1, levels
    assert all(following - level <= 1 for level, following in pairwise(levels)), levels


def require_tab_order(page: Page) -> None:
    count = page.evaluate_javascript(USABLE)
    page.evaluate_javascript("document.activeElement.blur()")
    reached = []
    for dummy in range(min(count, 40)):
        page.press_key("Tab")
        reached.append(page.evaluate_javascript(FOCUSED))
    assert reached == list(range(len(reached)))


@pytest.mark.parametrize("name", [*PAGES, SERVING])
def test_a_page_of_the_product_fits_each_window(open_product_page: Open, name: str) -> None:
    page = open_product_page(name)
    for width in WIDTHS:
        require_fits_window(page, width)
    require_headings_in_order(page)
    require_tab_order(page)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAGES, SERVING])
def test_axe_finds_nothing_serious_on_a_page_of_the_product(
    open_product_page: Open, axe_script: str, name: str
) -> None:
    page = open_product_page(name)
    for dark in (False, True):
        page.emulate_dark_preference(dark)
        for width in (390, 1280):
            resize_window(page, width)
            assert find_violations(page, axe_script) == [], (width, dark)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_page_of_the_documents_fits_each_window_and_axe_finds_nothing_serious(
    browser: Page, documents: Path, axe_script: str, name: str
) -> None:
    try:
        for dark in (False, True):
            browser.emulate_print(False)
            browser.emulate_dark_preference(dark)
            browser.open_file(documents / name)
            for width in (390, 1280):
                resize_window(browser, width)
                assert browser.evaluate_javascript(OVERFLOW) == [0, []], (width, dark)
                assert find_violations(browser, axe_script) == [], (width, dark)
    finally:
        browser.call_method("Emulation.clearDeviceMetricsOverride")


@pytest.mark.slow
def test_a_command_is_copied_by_its_button(browser: Page, documents: Path) -> None:
    browser.open_file(documents / "quickstart.html")
    browser.evaluate_javascript(
        "document.addEventListener('copy', () => { window.copied = document.activeElement.value; });"
        "document.querySelector('button.copybtn').focus()"
    )
    browser.press_key("Enter")
    assert browser.evaluate_javascript("window.copied").splitlines()[0] == "make site SKU=epyc9754"


def test_what_does_not_fit_is_found(browser: Page, tmp_path: Path) -> None:
    """Each check refuses a page with the fault that it looks for."""
    faults: dict[str, Callable[[Page], None]] = {
        "<div style='width: 500px'>wide</div>": lambda page: require_fits_window(page, 390),
        "<p style='font-size: 8px'>small</p>": lambda page: require_fits_window(page, 390),
        "<svg width=90 viewBox='0 0 900 90'><text y=20>small</text></svg>": lambda page: require_fits_window(page, 390),
        "<h1>One</h1><h3>Three</h3>": require_headings_in_order,
        "<a href='#' tabindex=2>two</a><a href='#' tabindex=1>one</a>": require_tab_order,
    }
    try:
        for fault, require in faults.items():
            page = open_page(browser, tmp_path / "fault.html", f"<!DOCTYPE html><title>x</title>{fault}")
            with pytest.raises(AssertionError):
                require(page)
    finally:
        browser.call_method("Emulation.clearDeviceMetricsOverride")
