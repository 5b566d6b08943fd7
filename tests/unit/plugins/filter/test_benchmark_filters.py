# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters are their engine parts, and what they refuse is an error of a filter."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.filter import benchmark_csv, benchmark_page, benchmark_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import samples_csv
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_page
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents

CSV = benchmark_csv.FilterModule().filters()["benchmark_csv"]
PAGE = benchmark_page.FilterModule().filters()["benchmark_page"]
REPORT = benchmark_report.FilterModule().filters()["benchmark_report"]


def test_page_and_report_of_a_document_and_of_its_text() -> None:
    data = bench_documents.ablation()
    assert PAGE(data) == PAGE(json.dumps(data)) == run_page.render_run_page(data)
    assert REPORT(data) == REPORT(json.dumps(data)) == run_report.render_run_report(data)


def test_the_samples_of_a_document_and_of_its_text() -> None:
    data = bench_documents.ablation()
    assert CSV(data) == CSV(json.dumps(data)) == samples_csv.render_samples_csv(data)


@pytest.mark.parametrize("made", [CSV, PAGE, REPORT])
def test_what_is_no_document_is_refused(made: Callable[[object], str]) -> None:
    data = bench_documents.begun()
    del data["seed"]
    with pytest.raises(AnsibleFilterError) as caught:
        made(data)
    assert str(caught.value) == (
        "This cannot be used as the document of a run: seed is missing; take the file as the run wrote it."
    )
