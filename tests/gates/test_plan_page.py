# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of plans in a real browser: what a person sees, finds and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page import plan_html
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import plans
from tools.pictures.chromium import Page

from .conftest import open_page
from .contrast import map_letter_contrasts, text_contrasts

FLEET: dict[str, Any] = {
    "dense-1": plans.result("9754 SMT", 2),
    "dense-2": plans.result("9754 SMT", 2),
    "dense-3": plans.result("9754 SMT"),
    "pair-1": plans.result("two 7543"),
    "gone-1": None,
    "strange-1": {"map": {"model": "x"}, "text": ""},
}
CARDS = "[...document.querySelectorAll('main > [data-hosts]')]"
SEEN = f"{CARDS}.filter(one => one.offsetParent).map(one => one.dataset.hosts)"


@pytest.fixture
def page(browser: Page, tmp_path: Path) -> Page:
    """The page of FLEET, just opened."""
    return open_page(browser, tmp_path / "plan.html", plan_html.render_plan_page(plans.gathered(FLEET)))


def test_it_shows_each_plan_once_and_first_who_has_none(page: Page) -> None:
    assert (
        page.evaluate_javascript("document.querySelector('.headline').innerText")
        == "6 hosts: 2 different plans, 2 without a plan."
    )
    assert page.evaluate_javascript(SEEN) == ["gone-1", "strange-1", "dense-1 dense-2 dense-3", "pair-1"]
    headings = page.evaluate_javascript("[...document.querySelectorAll('section h2')].map(one => one.innerText)")
    assert headings == ["dense-[1-3] (3 hosts)", "pair-1"]
    assert page.evaluate_javascript("document.querySelectorAll('section svg').length") == 2
    said = page.evaluate_javascript("document.querySelector('section').innerText")
    for words in ("AMD EPYC 9754", "CPUs 16-31,144-159", "model-1", "http://127.0.0.1:8081"):
        assert words in said, words
    cells = "document.querySelectorAll('section svg')[0].querySelectorAll('[data-at^=\"cpu:\"]')"
    assert page.evaluate_javascript(f"{cells}.length") == 256
    assert page.evaluate_javascript(f"{cells}[20].getBoundingClientRect().width") > 12, "a letter has room in a cell"
    assert (
        page.evaluate_javascript(f"{cells}[0].querySelector('title').textContent")
        == "CPU 0 with 128: housekeeping, L3 0, node 0"
    )
    assert [url for url in page.requested_addresses() if not url.startswith("file:")] == []
    assert page.errors == []


def test_no_word_of_a_map_runs_over_another(page: Page) -> None:
    """Words stand in the box that they belong to, and the words of a line do not touch."""
    assert (
        page.evaluate_javascript("""
        (() => [...document.querySelectorAll('.map .l3')].filter(box => {
          const edge = box.querySelector('rect').getBoundingClientRect();
          const [name, cpus] = [...box.querySelectorAll(':scope > text')].map(one => one.getBoundingClientRect());
          return name.right > cpus.left || name.left < edge.left || cpus.right > edge.right;
        }).length + [...document.querySelectorAll('.map .way')].filter(word => {
          const bar = word.previousElementSibling.getBoundingClientRect(), one = word.getBoundingClientRect();
          return one.left < bar.left || one.right > bar.right;
        }).length)()
    """)
        == 0
    )


def test_a_host_is_found_by_keyboard(page: Page) -> None:
    page.press_key("Tab")
    page.type_text("PAIR")
    assert page.evaluate_javascript(SEEN) == ["pair-1"]
    assert page.evaluate_javascript("document.querySelector('output').textContent") == "1 of 6 hosts"
    page.press_key("Tab")
    assert page.evaluate_javascript("document.activeElement.getAttribute('aria-label')").startswith("Map of ")
    page.press_key("Tab")
    page.press_key("Enter")
    assert page.evaluate_javascript("document.activeElement.parentElement.open") is True, (
        "what follows is its plan as text"
    )
    assert "housekeeping    2 CPUs   0,32" in page.evaluate_javascript("document.activeElement.parentElement.innerText")


def test_of_hosts_with_one_map_those_that_are_looked_for_are_shown(page: Page) -> None:
    page.click_element("input[name=host]")
    page.type_text("dense-3")
    assert page.evaluate_javascript(SEEN) == ["dense-1 dense-2 dense-3"]
    shown = (
        "[...document.querySelectorAll('section h3')].filter(one => one.checkVisibility()).map(one => one.innerText)"
    )
    assert page.evaluate_javascript(shown) == ["dense-3"]
    assert page.evaluate_javascript("document.querySelector('output').textContent") == "1 of 6 hosts"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(page: Page, dark: bool) -> None:
    page.emulate_dark_preference(dark)
    ratios = text_contrasts(page)
    assert len(ratios) > 30
    assert [name for ratio, name in ratios if ratio < 4.5] == []
    on_map = map_letter_contrasts(page)
    assert set(on_map) == {"h", "d", "v", "rest"} and min(on_map.values()) >= 4.5
    # The cells change with the preference, and not only the page around them.
    cell = page.evaluate_javascript("getComputedStyle(document.querySelector('.map rect.v')).fill")
    assert cell == ("rgb(23, 86, 143)" if dark else "rgb(165, 211, 247)")


def test_it_prints_all_maps_and_no_controls(page: Page) -> None:
    page.emulate_print(True)
    assert page.evaluate_javascript("document.querySelector('form').checkVisibility()") is False
    assert (
        page.evaluate_javascript("[...document.querySelectorAll('svg')].filter(one => one.checkVisibility()).length")
        == 2
    )
    assert page.evaluate_javascript(
        "[...document.querySelectorAll('svg')].every(one => one.getBoundingClientRect().height > 100)"
    )
    assert len(page.call_method("Page.printToPDF")["data"]) > 10_000


def test_what_a_host_answers_is_text(browser: Page, tmp_path: Path) -> None:
    evil = "<img src=x onerror=document.title='run'><script>document.title='run'</script>\u202e\x1b[31m"
    answer = plans.result("9354", 1)
    answer["map"].update(model=evil, parts=evil, notes=[evil])
    answer["map"]["nodes"][0]["memory"] = evil
    answer["map"]["instances"][0].update(name=evil, url="javascript:alert(1)")
    answer["text"] = evil
    open_page(browser, tmp_path / "evil.html", plan_html.render_plan_page(plans.gathered({evil: answer})))
    assert browser.evaluate_javascript("document.title").startswith("Plans: ")
    assert browser.evaluate_javascript("document.querySelectorAll('img, a').length") == 0
    shown = evil.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert browser.evaluate_javascript("document.body.innerText").count(shown) >= 4
    assert browser.errors == []
