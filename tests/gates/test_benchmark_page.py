# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a run in a real browser: what a person sees, in the light, in the dark and on paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.copying import COPY_SCRIPT
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_page
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents
from tools.pictures.chromium import Page

from .conftest import open_page
from .contrast import LIGHT, text_contrasts

#: As long as the name of an arm lets the name of a setting be.
LONG = "speculation_draft_length_maximum"
CHARTS = 2
#: A phone, and a window on a desk: pixels of their width.
WIDTHS = {"phone": 390, "desk": 1280}
#: Contrast of what is drawn in a chart with the ground of the page, by what it is: text or mark.
DRAWN = f"""
    (() => {{ {LIGHT}
      const ground = light(getComputedStyle(document.body).backgroundColor);
      const least = (kind, colour) => Math.min(...[...document.querySelectorAll(`.plot ${{kind}}`)]
        .map(one => contrast(light(getComputedStyle(one)[colour]), ground)));
      return {{text: least('text', 'fill'), mark: least('.mark', 'stroke'), range: least('.range', 'stroke')}};
    }})()
"""
#: Pairs of words in a chart that run over each other, and words that leave it.
COLLISIONS = """
    (() => [...document.querySelectorAll('svg.plot')].flatMap(plot => {
      const edge = plot.getBoundingClientRect();
      const boxes = [...plot.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
      const out = boxes.filter(([, box]) => box.left < edge.left - 1 || box.right > edge.right + 1
        || box.top < edge.top - 1 || box.bottom > edge.bottom + 1).map(([words]) => `${words} is outside`);
      const pairs = boxes.flatMap(([words, box], at) => boxes.slice(at + 1).filter(([, other]) =>
        box.left < other.right - 1 && other.left < box.right - 1 && box.top < other.bottom - 3
        && other.top < box.bottom - 3).map(([others]) => `${words} and ${others}`));
      return [...out, ...pairs];
    }))()
"""


#: Opens what is folded up.
OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"


@contextmanager
def resized(page: Page, width: int) -> Iterator[None]:
    """Give the window another width for a while."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.call_method("Emulation.setDeviceMetricsOverride", **size)
    yield
    page.call_method("Emulation.clearDeviceMetricsOverride")


@pytest.fixture
def page(browser: Page, tmp_path: Path) -> Page:
    """The page of an ablation, just opened."""
    text = json.dumps(bench_documents.ablation()).replace("governor", LONG)
    return open_page(browser, tmp_path / "run.html", run_page.render_run_page(text))


def test_it_is_read_without_a_network_and_its_only_script_copies_commands(page: Page) -> None:
    headline = page.evaluate_javascript("document.querySelector('.headline').innerText")
    assert headline.startswith("30 % faster than stock (") and headline.endswith("; 1 of 3 settings pays.")
    assert page.evaluate_javascript("document.querySelectorAll('section svg.scaled').length") == CHARTS
    assert page.evaluate_javascript("[...document.scripts].map(one => one.textContent).join('')") == COPY_SCRIPT
    assert [url for url in page.requested_addresses() if not url.startswith("file:")] == []
    assert page.errors == []


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_the_page_is_as_wide_as_the_window(page: Page, width: int) -> None:
    """Tables that are wider scroll in their box; plots are drawn anew for the width, with letters of one size."""
    page.evaluate_javascript(OPEN)
    with resized(page, width):
        assert page.evaluate_javascript("document.documentElement.scrollWidth") == width
        assert page.evaluate_javascript(COLLISIONS) == []
        assert page.evaluate_javascript("getComputedStyle(document.querySelector('.scaled text')).fontSize") == "12px"
        plot = page.evaluate_javascript("document.querySelector('td.interval svg').getBoundingClientRect().width")
        assert 100 <= plot <= width
        chart = page.evaluate_javascript("document.querySelector('.scaled:not(.curves)').getBoundingClientRect().width")
        assert width - 60 <= chart <= width
        curves = page.evaluate_javascript("document.querySelector('.curves').getBoundingClientRect().width")
        assert min(width - 60, 700) <= curves <= min(width, 710)
    assert page.evaluate_javascript(
        "[...document.querySelectorAll('.wide')].every(one => getComputedStyle(one).overflowX === 'auto')"
    )


def test_a_phone_shows_what_is_first_without_scrolling(page: Page) -> None:
    with resized(page, WIDTHS["phone"]):
        bottoms = page.evaluate_javascript(
            "['.headline', '.tiles', '.facts', '.change'].map(one => document.querySelector(one)"
            ".getBoundingClientRect().bottom)"
        )
    assert bottoms == sorted(bottoms) and bottoms[-1] <= 900


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everything_can_be_read(page: Page, dark: bool) -> None:
    page.emulate_dark_preference(dark)
    ratios = text_contrasts(page)
    assert len(ratios) > 60
    assert [name for ratio, name in ratios if ratio < 4.5] == []
    drawn = page.evaluate_javascript(DRAWN)
    assert drawn["text"] >= 4.5 and min(drawn["mark"], drawn["range"]) >= 3, drawn
    # The charts change with the preference, and not only the page around them.
    hollow = page.evaluate_javascript("getComputedStyle(document.querySelector('.plot .hollow')).fill")
    assert hollow == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")


def test_what_colours_say_is_said_without_them(page: Page) -> None:
    """Arms have shapes of their own, what is void is hollow, and a verdict is a word with a sign."""
    shapes = "[...document.querySelectorAll('.legend')].map(one => new Set([...one.querySelectorAll('path')]"
    shapes += ".map(path => path.getAttribute('d'))).size === one.querySelectorAll('path').length)"
    assert page.evaluate_javascript(shapes) == [True, True]
    said = page.evaluate_javascript("document.querySelector('#settings').textContent")
    for words in ("\u25b2 pays", "\u25bc hurts", "\u25cf nothing", "\u25c7 not tested"):
        assert words in said, words
    titles = page.evaluate_javascript(
        "[...document.querySelectorAll('.plot .hollow title')].map(one => one.textContent)"
    )
    void = [words for words in titles if words != "predicted"]
    assert len(void) > 20 and all("discarded: The hypervisor took 2.0%" in words for words in void)


def test_it_prints_with_all_charts(page: Page) -> None:
    page.emulate_print(True)
    shown = "[...document.querySelectorAll('section > svg, td svg')].every(one => one.checkVisibility())"
    assert page.evaluate_javascript(shown)
    assert page.evaluate_javascript("document.querySelectorAll('tbody tr').length") > 30
    assert len(page.call_method("Page.printToPDF")["data"]) > 10_000


def test_a_tuning_fits_too(browser: Page, tmp_path: Path) -> None:
    open_page(browser, tmp_path / "tuning.html", run_page.render_run_page(bench_documents.tuning()))
    assert browser.evaluate_javascript("document.querySelector('.headline').innerText").startswith(
        "11 % faster than the default ("
    )
    assert browser.evaluate_javascript("document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.errors == []


def test_what_a_document_holds_is_text(browser: Page, tmp_path: Path) -> None:
    open_page(browser, tmp_path / "evil.html", run_page.render_run_page(bench_documents.hostile()))
    browser.evaluate_javascript(OPEN)
    assert browser.evaluate_javascript("document.querySelectorAll('img, a').length") == 0
    assert browser.evaluate_javascript("document.body.innerText").count(bench_documents.EVIL) > 20
    assert browser.errors == []
