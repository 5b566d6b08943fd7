# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every page of a hostile document in a real browser: no script of the document runs, and no request leaves the page.

tests/unit/plugins/plugin_utils/_pages/test_every_page.py has a document for each file that writes a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._serving_page import serving_html
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils._pages.every_page import (
    LIVE,
    PAGES,
    is_valid,
)
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.hostile_texts import spoil_texts
from tools.pictures.chromium import ChromiumError, Page

from .conftest import open_page
from .prometheus import Prometheus, make_fleet_metrics
from .test_serving_page import DRAWN

#: What a browser would run, load or follow. Each fits into a name of a document, with the number in place of {}.
HOSTILE = (
    "<img src=x onerror=ran({})>\"'&lt;</script>",
    '"><script>ran({})</script><a href="javascript:ran()">',
    "x{}' autofocus onfocus=ran() style='a:url(//127.1/)",
    'x{}" onmouseover=ran() style="background:url(//127.1/)',
    "javascript:ran({})",
    "</title></style></template><svg/onload=ran({})>",
    "]]>--><base href=//127.1/{}><iframe srcdoc=x>",
    "<meta http-equiv=refresh content=0;//127.1/{}>",
    "${{ran({})}}`{{{{ran()}}}}<form action=//127.1/>",
)
#: Opens all that can be opened, touches all that can be touched, and draws the maps in it.
TOUCH = """
new Promise(done => {
  for (const one of document.querySelectorAll('details')) one.open = true;
  requestAnimationFrame(() => requestAnimationFrame(() => {
    for (const one of document.querySelectorAll('body *'))
      for (const kind of ['mouseover', 'focus', 'input', 'click'])
        if (!one.matches('summary')) one.dispatchEvent(new Event(kind, { bubbles: true, cancelable: true }));
    setTimeout(done, 100);
  }));
})
"""
#: Kinds of elements, attributes by element, and schemes of links, also in templates.
MARKUP = """
(() => {
  const found = new Set();
  const look = root => { for (const one of root.querySelectorAll('*')) {
    found.add(one.localName);
    for (const { name, value } of one.attributes)
      found.add(`${one.localName} ${name}${['href', 'src', 'style', 'action'].includes(name) ? value[0] : ''}`);
    if (one instanceof HTMLTemplateElement) look(one.content);
  } };
  look(document);
  return [...found].sort();
})()
"""
SCRIPTS = "document.scripts.length"


@pytest.fixture
def watched(browser: Page) -> Iterator[Page]:
    """The browser, in which a script of a document would be seen to run."""
    source = "window.runs = []; window.ran = number => window.runs.push(number ?? 'a call');"
    script = browser.call_method("Page.addScriptToEvaluateOnNewDocument", source=source)
    yield browser
    browser.call_method("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])


#: Pages with hundreds of texts, which are made by the same functions as those of a benchmark and of a tuning.
SLOW_PAGES = ("ablation", "comparison")


def look_at(page: Page, file: Path, text: str) -> tuple[list[str], int]:
    """Open a page, touch all of it, and return its markup and the number of its scripts."""
    open_page(page, file, text).evaluate_javascript(TOUCH)
    assert page.evaluate_javascript("window.runs") == []
    assert page.evaluate_javascript("location.href").partition("#")[0] == file.as_uri()
    assert [url for url in page.requested_addresses() if url.partition("#")[0] != file.as_uri()] == []
    assert page.errors == []
    return page.evaluate_javascript(MARKUP), page.evaluate_javascript(SCRIPTS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW_PAGES else name for name in PAGES]
)
def test_no_text_of_a_document_is_more_than_a_text(watched: Page, tmp_path: Path, name: str) -> None:
    case, file = PAGES[name], tmp_path / "page.html"
    honest, scripts = look_at(watched, file, case.render(case.document()))
    assert scripts == 1
    for text in HOSTILE:
        document = spoil_texts(case.document(), lambda data: is_valid(case, data), text)
        markup, scripts = look_at(watched, file, case.render(document))
        assert set(markup) <= set(honest) and scripts == 1, text
        shown = watched.evaluate_javascript("document.body.textContent")
        assert shown.count(max(text.format("\n").split("\n"), key=len)) >= case.shown_texts, text


@pytest.mark.parametrize("text", HOSTILE)
def test_no_label_of_prometheus_is_more_than_a_text(watched: Page, tmp_path: Path, text: str) -> None:
    assert LIVE.endswith("serving_html.py")
    server = Prometheus()
    labels = {name: text.format(name) for name in ("host", "service", "model", text)}
    try:
        server.samples = {
            name: [(labels, number) for dummy, number in rows] for name, rows in make_fleet_metrics(2).items()
        }
        file = tmp_path / "serving.html"
        open_page(watched, file, serving_html.render_serving_page(server.url)).evaluate_javascript(DRAWN)
        watched.evaluate_javascript(TOUCH)
    finally:
        server.shutdown()
        server.server_close()
    assert watched.evaluate_javascript("window.runs") == [] and watched.errors == []
    asked = {url.partition("/api/v1/query")[0] for url in watched.requested_addresses()}
    assert asked == {file.as_uri(), server.url}
    assert watched.evaluate_javascript("document.querySelectorAll('a, img, base, iframe, [style]').length") == 0
    shown = watched.evaluate_javascript("document.querySelector('tbody').textContent")
    assert all(labels[name] in shown for name in ("host", "service", "model")), shown


def test_what_is_looked_for_is_found(watched: Page, tmp_path: Path) -> None:
    """A page without any escape shows that each kind of hostile text would be seen."""
    plain = "<!DOCTYPE html><title>x</title><p>A text</p><input value='%s'>"
    honest = {*look_at(watched, tmp_path / "honest.html", plain % "x")[0]}
    for text in HOSTILE:
        file = tmp_path / "evil.html"
        if text.startswith("javascript"):
            continue  # This is a link only where a page makes one of it.
        try:
            markup = look_at(
                watched, file, plain.replace("A text", f"<b title='{text}'></b><b title=\"{text}\">{text}")
            )
        except (AssertionError, ChromiumError):
            continue
        assert not set(markup[0]) <= honest | {"b", "b title"}, text
