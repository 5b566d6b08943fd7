# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every page of every hostile document: a page, or a sentence that says why there is none.

tests/gates/test_every_page.py opens them in a browser.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils._pages.every_page import (
    LIVE,
    PAGES,
    REFUSALS,
)
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.hostile_texts import Markup

PLUGINS = Path(frame.__file__).parents[2]
#: Texts, numbers and nothing, in the place of each value of a document. JSON as Python reads it has NaN and Infinity.
WRONG: tuple[Any, ...] = (
    *(float("nan"), float("inf"), -float("inf"), 1e308, -1, 0, 10**400, 1 << 53, 5e-324),
    *("", "x" * 5000, "9" * 5000, "NaN", None, True, [], {}),
)


def test_each_file_that_writes_a_page_is_known() -> None:
    files = {path for path in PLUGINS.rglob("*.py") if re.search(r"(?<!def )\brender_page\(", path.read_text())}
    assert {"/".join(path.parts[-2:]) for path in files} == {LIVE, *(case.file for case in PAGES.values())}


def list_places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each value in plain data."""
    yield place
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from list_places(value, (*place, key))


def first_places(data: Any) -> list[tuple[Any, ...]]:
    """Return the first place of each kind but the outermost, which Ansible fills; items of a list are of one kind."""
    kinds: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for place in list_places(data):
        kinds.setdefault(tuple("[]" if isinstance(key, int) else key for key in place), place)
    outermost = 2 if isinstance(data, dict) and "hosts" in data else 0
    return [place for place in kinds.values() if len(place) > outermost]


def replace_value(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of data with another value at a place."""
    changed = copy.copy(data)
    changed[place[0]] = replace_value(data[place[0]], place[1:], value) if len(place) > 1 else value
    return changed


#: Pages of documents with so many places that all of them take long.
LARGE = ("ablation", "comparison", "capacity", "drift", "plan")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in PAGES]
)
def test_whatever_a_value_is_there_is_a_page_or_a_sentence(name: str) -> None:
    case = PAGES[name]
    document = case.document()
    honest = Markup(case.render(document))
    pages, faults = 0, []
    for place in first_places(document):
        for value in WRONG:
            try:
                page = case.render(replace_value(document, place, value))
            except REFUSALS as error:
                faults += [(place, value, error)] if not 10 < len(str(error)) < 5000 else []
                continue
            except Exception as error:
                faults.append((place, str(value)[:20], f"{type(error).__name__}: {str(error)[:200]}"))
                continue
            pages += 1
            numbers = re.findall(r' (?:d|x|y|width|height|viewBox|points|transform|r|cx|cy)="([^"]*)"', page)
            if Markup(page).scripts != honest.scripts or any(re.search("nan|inf", number) for number in numbers):
                faults.append((place, str(value)[:20], "the page"))
    assert faults == []
    assert pages
