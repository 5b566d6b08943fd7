# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of compared runs has what the report on a terminal has, and no text of a document is markup."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.filter import comparison_page as comparison_filter
from ansible_collections.sovereign.epyc.plugins.filter import run_comparison as report_filter
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.comparison_page import (
    compare_runs,
    render_comparison_page,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import scale_time
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents as documents
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.bench_pages import Reader, rows

PAGE = comparison_filter.FilterModule().filters()["comparison_page"]
REPORT = report_filter.FilterModule().filters()["run_comparison"]


def test_a_loss_is_marked_and_each_row_of_the_report_is_on_the_page() -> None:
    old, new = documents.benchmark(), documents.benchmark()
    for sample in new["samples"]:
        scale_time(sample, 1.2)
    new["fingerprint"]["kernel"] = "6.18"
    page = PAGE([old, new], ["before", "after"])
    text = REPORT([old, new], ["before", "after"])["text"]
    assert "<h1>Comparison</h1>" in page and Reader(page).titles == ["What differs", "after", "Next"]
    assert rows(page, "What differs")[0][-1] == "6.18"
    table = rows(page, "after")
    assert len(table) > 3 and any(row[-1] == "clear loss" and row[3].startswith("\u25bc 0.8") for row in table)
    for row in table:
        assert all(cell.lstrip("\u25b2\u25bc ") in text for cell in row), row
    assert page == PAGE([old, new], ["before", "after"])


def test_labels_and_documents_are_never_markup() -> None:
    page = render_comparison_page(compare_runs([documents.hostile(), documents.hostile()], [documents.EVIL] * 2))
    seen = Reader(page)
    assert "img" not in seen.elements and not {name for name in seen.attributes if name.startswith("on")}
    assert any(documents.EVIL in words for words in seen.words)


def test_what_is_no_document_is_refused() -> None:
    with pytest.raises(BadRequest):
        compare_runs([documents.benchmark(1), {}])
