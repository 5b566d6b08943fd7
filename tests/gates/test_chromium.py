# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The browser that the tests of pages share."""

from __future__ import annotations

from pathlib import Path

from tools.pictures.chromium import Page

from .conftest import open_page

RESTLESS = """<script>
setInterval(() => fetch('http://127.0.0.1:9/').catch(() => {}), 1)
setInterval(() => { throw Error('of the page before') }, 1)
</script>"""
A_MOMENT = "new Promise(done => setTimeout(done, 30))"


def test_what_a_page_does_until_the_next_one_is_there_is_not_that_ones(browser: Page, tmp_path: Path) -> None:
    for dummy in range(10):
        open_page(browser, tmp_path / "restless.html", RESTLESS).evaluate_javascript(A_MOMENT)
        assert len(browser.requested_addresses()) > 1 and browser.errors
        quiet = tmp_path / "quiet.html"
        open_page(browser, quiet, "<p>Nothing").evaluate_javascript(A_MOMENT)
        assert (browser.requested_addresses(), browser.errors) == ([quiet.as_uri()], [])
