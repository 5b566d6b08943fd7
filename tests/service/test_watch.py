# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make watch` in a real browser: two hosts, with what they do now."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.pictures.chromium import Page
from vepyc.playbook_runs import clean_environment

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
ROWS = "[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden).map(row => row.innerText.split('\\t'))"


@pytest.fixture(scope="module")
def page() -> Iterator[Path]:
    """The page that it names, as long as it runs."""
    environment = clean_environment(PYTHONPATH="lab")
    process = subprocess.Popen(
        [sys.executable, "tools/watch.py"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        for line in process.stdout:
            if line.startswith("The page:"):
                yield Path(line.split()[-1].partition("file://")[2])
                break
        else:
            pytest.fail(f"it ended with {process.wait()}")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_the_page_is_live(page: Path) -> None:
    with Page() as browser:
        browser.open_file(page)
        end = time.monotonic() + 120
        # Their models and rates, and that something of it moves: the mean of five minutes needs some traffic.
        while True:
            rows = browser.evaluate_javascript(ROWS)
            if len(rows) == 2 and all(row[1] == "small" and float(row[2] or 0) > 0 for row in rows):
                break
            assert time.monotonic() < end, rows
            time.sleep(1)
        assert sorted(row[0] for row in rows) == ["watch-1 chat", "watch-2 chat"]
        assert browser.errors == []
