# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/compare.yml on the controller: what it prints, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents

pytestmark = pytest.mark.slow

PLAYBOOK = Path(__file__).parents[2] / "playbooks/compare.yml"


@pytest.fixture
def compare(run: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """Compare runs of which the second decodes 10 % slower with one stream, in the folder of their files."""
    slower = bench_documents.benchmark()
    for sample in slower["samples"]:
        sample["predicted_ms"] *= 1.1 if sample["streams"] == 1 else 1
    for name, document in (("old", bench_documents.benchmark()), ("new", slower)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))

    def compare(*words: str) -> str:
        said = run("ansible-playbook", "-i", "localhost,", str(PLAYBOOK), *words, cwd=tmp_path)
        return " ".join(said.split())

    return compare


def test_runs_without_a_loss_end_well(compare: Callable[..., str], tmp_path: Path) -> None:
    said = compare("-e", "epyc_compare_files=new.json,old.json", "-e", "epyc_compare_page=page.html")
    assert "<h1>Comparison</h1>" in (tmp_path / "page.html").read_text()
    assert "No loss is proven or clear." in said and "not paired" in said and "clear gain" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-e", '{"epyc_compare_files": ["old.json", "new.json"]}'), "Worse: new: decode 0.91 (clear loss)."),
        (("-e", "epyc_compare_files=old.json"), "Nothing could be compared."),
        (("-e", "epyc_compare_files=old.json,missing.json"), "missing.json; name the JSON file of a run."),
        ((), "Say with epyc_compare_files which runs"),
    ],
)
def test_a_loss_and_what_cannot_be_compared_fail(
    compare: Callable[..., str], words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(pytest.fail.Exception) as caught:
        compare(*words)
    said = " ".join(str(caught.value).split())
    assert message in said and said.endswith("exit code 2")
