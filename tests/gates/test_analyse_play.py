# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/analyse.yml on the controller: what it prints, writes and refuses, and what is told of its filters."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents.samples_csv import render_samples_csv
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_metrics, run_page
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.capacity_facts import prediction

pytestmark = pytest.mark.slow

ROOT, PLAYBOOK = Path(__file__).parents[2], "playbooks/analyse.yml"


def run_analysis(run: Callable[..., str], *words: str, check: bool = False) -> str:
    extra = [word for one in words for word in ("-e", one)]
    # Outside of the clone, with its ansible.cfg, Ansible prints results as JSON.
    json_output = {"ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    return run(
        "ansible-playbook", "-i", "localhost,", PLAYBOOK, *extra, *(["--check"] if check else []), env=json_output
    )


def test_report_and_page(run: Callable[..., str], tmp_path: Path) -> None:
    """A text of the document that Ansible would take for a template is neither run nor changed."""
    data = bench_documents.ablation()
    data["fingerprint"]["sku"] = "{{ 6 * 7 }} {% if %}"
    source, page, metrics = tmp_path / "run.json", tmp_path / "run.html", tmp_path / "run.prom"
    samples = tmp_path / "run.csv"
    source.write_text(json.dumps(data))
    words = (
        f"epyc_analyse_file={source}",
        f"epyc_analyse_page={page}",
        f"epyc_analyse_metrics={metrics}",
        "epyc_analyse_host=there",
        f"epyc_analyse_csv={samples}",
    )
    said = run_analysis(run, *words, check=True)
    assert not page.exists() and not metrics.exists() and not samples.exists()
    lines = run_report.render_run_report(data).splitlines()
    assert [line for line in lines if json.dumps(line, ensure_ascii=False) not in said] == []
    run_analysis(run, *words)
    assert page.read_text() == run_page.render_run_page(data)
    assert metrics.read_text() == run_metrics.render_run_metrics(data, "there")
    assert samples.read_text() == render_samples_csv(data)


def test_relative_paths_begin_where_it_is_run_and_a_compressed_file_is_read(
    run: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "run.json.gz").write_bytes(gzip.compress(json.dumps(bench_documents.ablation()).encode()))
    words = ["-e", "epyc_analyse_file=run.json.gz", "-e", "epyc_analyse_page=run.html"]
    run("ansible-playbook", "-i", "localhost,", str(ROOT / PLAYBOOK), *words, cwd=tmp_path)
    assert (tmp_path / "run.html").read_text() == run_page.render_run_page(bench_documents.ablation())


def test_predictions_of_a_folder_of_runs(run: Callable[..., str], tmp_path: Path) -> None:
    document = bench_documents.benchmark()
    document["predictions"] = [prediction(20.0)]
    (tmp_path / "run.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    output = " ".join(run_analysis(run, f"epyc_analyse_folder={tmp_path}").split())
    assert "Predicted against measured:" in output and "371 GB/s, measured" in output
    assert "Benchmark of" not in output
    (tmp_path / "run.json.gz").unlink()
    with pytest.raises(pytest.fail.Exception, match="no JSON file of a run is there"):
        run_analysis(run, f"epyc_analyse_folder={tmp_path}")


def test_what_it_refuses(run: Callable[..., str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    cases = {
        (): "Say with epyc_analyse_file which run",
        (f"epyc_analyse_file={bad}",): f"{bad} cannot be used as the document of a run: schema is missing",
        (
            f"epyc_analyse_file={bad}",
            "epyc_analyse_page=",
        ): "epyc_analyse_page, epyc_analyse_metrics and epyc_analyse_csv must be paths of files on the controller.",
    }
    for words, why in cases.items():
        with pytest.raises(pytest.fail.Exception) as caught:
            run_analysis(run, *words)
        assert why in " ".join(str(caught.value).split()), words
    assert [one.name for one in tmp_path.iterdir()] == ["bad.json"]
