# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reader finds from the first page: how many clicks an answer takes, how long a page is, and how it begins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
#: Questions, each with the page of its answer and words of that page.
ANSWERS = {
    "undo one layer": ("undo.md", "## One layer"),
    "replace a model without downtime": ("day-two.md", "## A model replaced without downtime"),
    "what a word of the drift report means": ("words.md", "| `drift`"),
    "which BIOS settings to change": ("bios-settings.md", "|"),
    "what one more server would bring": ("capacity.md", "what one more server of each kind would add"),
    "why a run was discarded": ("discarded-runs.md", "## When a round counts"),
    "how to bill a team": ("tenants.md", "bill"),
}
#: The most clicks from a first page to an answer, and to any page.
MOST_CLICKS = 3
#: The most words of a page that is read from its begin to its end; outputs of commands and the licence do not count.
MOST_WORDS = 1500
#: Pages in which one looks something up.
REFERENCE = {
    "exit-codes.md",
    "faults.md",
    "gateway-reference.md",
    "interface.md",
    "model-catalogue.md",
    "plans-by-machine.md",
    "security.md",
    "words.md",
}
#: Is written by a command, as a list of names.
GENERATED = {"interface.md"}


def read_page(path: Path) -> str:
    """Return the text of a page below its licence."""
    return path.read_text(encoding="utf-8").partition("-->\n")[2]


def count_clicks(first: Path) -> dict[str, int]:
    """Return for each page of docs how many links lead to it from a first page."""
    clicks: dict[str, int] = {}
    pages = [first]
    for number in range(1, len(PAGES)):
        targets = {
            target
            for page in pages
            for target in re.findall(r"\]\((?:docs/)?([\w-]+\.md)[)#]", read_page(page))
            if (DOCS / target).is_file() and target not in clicks
        }
        clicks.update(dict.fromkeys(targets, number))
        pages = [DOCS / target for target in sorted(targets)]
    return clicks


@pytest.mark.parametrize("first", ["docs/index.md", "README.md"])
def test_each_page_is_three_clicks_from_a_first_page(first: str) -> None:
    clicks = count_clicks(ROOT / first)
    assert [page for page in PAGES if clicks.get(page, MOST_CLICKS + 1) > MOST_CLICKS and page != "index.md"] == []


@pytest.mark.parametrize("question", ANSWERS)
def test_an_answer_is_on_its_page(question: str) -> None:
    page, words = ANSWERS[question]
    assert words in " ".join(read_page(DOCS / page).split(" ")), question


@pytest.mark.parametrize("page", ["../README.md", *PAGES])
def test_a_page_is_read_in_one_sitting_and_says_for_whom_it_is(page: str) -> None:
    text = read_page(DOCS / page)
    words = re.sub(r"(?ms)^```text\n.*?^```$", "", text).split()
    assert page in REFERENCE or len(words) <= MOST_WORDS
    first = re.split(r"(?m)^# .*\n+", text, maxsplit=1)[1].split("\n\n")
    assert page in GENERATED or any(paragraph.startswith("For ") for paragraph in first[:2]), first[0]
