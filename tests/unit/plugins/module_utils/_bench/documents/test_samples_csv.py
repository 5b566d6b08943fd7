# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import csv

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents.samples_csv import render_samples_csv
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents


def test_each_sample_is_a_line_with_all_its_numbers() -> None:
    data = bench_documents.ablation()
    data["samples"][0].update(text_sha256="=1+1", ttft_ms=None)
    heading, *rows = csv.reader(render_samples_csv(data).splitlines())
    assert len(rows) == len(data["samples"]) and {len(row) for row in rows} == {len(heading)}
    found = [dict(zip(heading, row)) for row in rows]
    for sample, row in zip(data["samples"], found):
        for name in ("round", "predicted_n", "predicted_ms", "output_ms", "streams"):
            assert float(row[name]) == sample[name], name
        assert (row["arm"], row["discarded"] != "") == (sample["arm"], sample["round"] == bench_documents.STEAL_ROUND)
    assert (found[0]["text_sha256"], found[0]["ttft_ms"], found[0]["phase"]) == ("'=1+1", "", "ablation")
