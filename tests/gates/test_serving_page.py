# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of what a fleet serves in a real browser: nothing known, one host, 200 hosts, and a dead Prometheus.

Prometheus is a stand-in here, with answers in its form; tests/service/test_monitoring.py asks a real one the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._serving_page import serving_html
from tools.pictures.chromium import Page

from .conftest import open_page
from .contrast import text_contrasts
from .prometheus import Prometheus, make_fleet_metrics

HEADLINE = "document.querySelector('.headline').innerText"
ROWS = "[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden).map(row => row.innerText.split('\\t'))"
TILES = (
    "Object.fromEntries([...document.querySelectorAll('.tiles div')].map(one => one.innerText.split('\\n').reverse()))"
)
#: Resolves when the first look is drawn, or has failed.
DRAWN = """
new Promise(done => {
  const asked = () => document.querySelector('.headline').innerText !== 'Waiting for Prometheus.'
    ? done() : setTimeout(asked, 20);
  asked();
})
"""


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    server = Prometheus()
    yield server
    server.shutdown()
    server.server_close()


def show_page(browser: Page, tmp_path: Path, url: str) -> Page:
    page = open_page(browser, tmp_path / "serving.html", serving_html.render_serving_page(url))
    page.evaluate_javascript(DRAWN)
    return page


def test_one_host(browser: Page, tmp_path: Path, prometheus: Prometheus) -> None:
    prometheus.samples = make_fleet_metrics(1)
    page = show_page(browser, tmp_path, prometheus.url)
    assert page.evaluate_javascript(HEADLINE) == "1 instance on 1 host: all is well."
    (row,) = page.evaluate_javascript(ROWS)
    assert row == ["epyc-001 chat", "<b>m</b>", "12.5", "", "2", "80 ms", "75 %", "60 %", "55 %", "250.0 GB/s", ""]
    assert page.evaluate_javascript("document.querySelector('tbody svg').getAttribute('aria-label')") == "up to 13.2"
    assert page.evaluate_javascript(TILES)["requests that wait"] == "3"
    asked = {url.partition("?")[0] for url in page.requested_addresses() if not url.startswith("file:")}
    assert asked == {f"{prometheus.url}/api/v1/query", f"{prometheus.url}/api/v1/query_range"}
    assert page.errors == []
    for dark in (False, True):
        page.emulate_dark_preference(dark)
        assert min(ratio for ratio, dummy in text_contrasts(page)) >= 4.5
    page.emulate_dark_preference(False)


def test_two_hundred_hosts(browser: Page, tmp_path: Path, prometheus: Prometheus) -> None:
    prometheus.samples = make_fleet_metrics(200)
    page = show_page(browser, tmp_path, prometheus.url)
    assert page.evaluate_javascript(HEADLINE) == "200 instances on 200 hosts: 20 instances down, 28 hosts not as tuned."
    rows = page.evaluate_javascript(ROWS)
    assert [row[2] for row in rows[:20]] == ["down"] * 20 and rows[20][10] == "2"
    assert [row[0] for row in rows[-2:]] == ["epyc-198 chat", "epyc-199 chat"]
    assert page.evaluate_javascript(TILES)["tokens per second"] == "2250.0"
    page.evaluate_javascript("document.querySelector('input').focus()")
    page.type_text("epyc-19")
    assert len(page.evaluate_javascript(ROWS)) == 10
    assert page.evaluate_javascript("document.querySelector('form output').innerText") == "10 of 200 instances"


def test_nothing_is_known(browser: Page, tmp_path: Path, prometheus: Prometheus) -> None:
    page = show_page(browser, tmp_path, prometheus.url)
    assert page.evaluate_javascript(HEADLINE).startswith("Prometheus knows no instance: run monitoring.yml")
    assert page.evaluate_javascript(ROWS) == [] and page.errors == []


def test_a_dead_prometheus(browser: Page, tmp_path: Path, prometheus: Prometheus) -> None:
    """What was known stays, and is said to be old."""
    prometheus.samples = make_fleet_metrics(1)
    page = show_page(browser, tmp_path, prometheus.url)
    prometheus.shutdown()
    prometheus.server_close()
    page.evaluate_javascript("poll()")
    said = page.evaluate_javascript(HEADLINE)
    assert said.startswith(f"Prometheus at {prometheus.url} does not answer: ") and "The page shows values of " in said
    assert (
        page.evaluate_javascript("document.querySelector('.live').className") == "live stale"
        and len(page.evaluate_javascript(ROWS)) == 1
    )


@pytest.mark.parametrize(
    "body",
    [
        '{"data": null}',
        "null",
        "<html>",
        '{"data": {"result": {}}}',
        '{"data": {"result": [null]}}',
        '{"data": {"result": [{"value": [0, "1"], "values": []}]}}',
        '{"data": {"result": [{"metric": {}, "value": 5, "values": [5]}]}}',
        '{"data": {"result": [{"metric": {"host": 5}, "value": [0, "1"], "values": []}]}}',
    ],
)
def test_what_is_no_result_is_called_that(browser: Page, tmp_path: Path, prometheus: Prometheus, body: str) -> None:
    prometheus.body = body.encode()
    page = show_page(browser, tmp_path, prometheus.url)
    assert (
        page.evaluate_javascript(HEADLINE)
        == f"Prometheus at {prometheus.url} answered something that is no result of a query."
    )
    assert page.evaluate_javascript(ROWS) == [] and page.errors == []


def test_what_is_no_number_is_not_drawn(browser: Page, tmp_path: Path, prometheus: Prometheus) -> None:
    """Prometheus itself answers NaN where nothing was served; labels may lack, too."""
    prometheus.samples = {
        name: [(labels, float("nan")) for labels, dummy in of] for name, of in make_fleet_metrics(1).items()
    }
    prometheus.samples["up"] = [*make_fleet_metrics(1)["up"], ({}, 1)]
    prometheus.hour = ["NaN", "x", "2", "+Inf", "4"]
    page = show_page(browser, tmp_path, prometheus.url)
    assert page.evaluate_javascript(HEADLINE) == "2 instances on 2 hosts: all is well."
    assert page.evaluate_javascript(ROWS)[1] == ["epyc-001 chat", "<b>m</b>", "", "", "", "", "", "", "", "", ""]
    assert (
        page.evaluate_javascript("document.querySelector('polyline').getAttribute('points')") == "50.0,10.0 100.0,1.0"
    )
    prometheus.hour = ["NaN", "x"]
    page.evaluate_javascript("poll()")
    assert page.evaluate_javascript("document.querySelectorAll('polyline').length") == 0 and page.errors == []


@pytest.mark.parametrize(
    "url", ["", "prometheus:9090", "ftp://one", 'http://one/"onload=', "http://one two", "http://o;x"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(BadRequest, match="is no URL of a Prometheus"):
        serving_html.render_serving_page(url)
