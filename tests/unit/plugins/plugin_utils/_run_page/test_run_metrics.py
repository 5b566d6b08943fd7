# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of a run: samples under their headings, none of which is another series in each run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_metrics
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents as documents

SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+)\} ([0-9.e+-]+)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Return the value of each sample by name and labels; each is under a heading, and there once."""
    found: dict[tuple[str, str], float] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
        elif not line.startswith("# TYPE "):
            parts = SAMPLE.fullmatch(line)
            assert parts and parts[1] == name and (name, parts[2]) not in found, line
            found[name, parts[2]] = float(parts[3])
    return found


def test_an_ablation() -> None:
    found = samples(run_metrics.render_run_metrics(documents.ablation(), "epyc-01"))
    common = 'host="epyc-01",service="chat"'
    assert found["sovereign_epyc_benchmark_setting_ratio", f'{common},setting="threads",verdict="pays"'] == (
        pytest.approx(1.3, abs=0.01)
    )
    assert found["sovereign_epyc_benchmark_started_seconds", common] == 1795564800
    assert found["sovereign_epyc_benchmark_rounds", f'{common},counts="no"'] == 1
    speed = "sovereign_epyc_benchmark_decode_tokens_per_second"
    kept = found[speed, f'{common},kind="prose",streams="1",arm="kept"']
    assert kept > found[speed, f'{common},kind="prose",streams="1",arm="stock"'] > 0
    assert 0 < found["sovereign_epyc_benchmark_first_text_seconds", f'{common},kind="prose",streams="1",arm="kept"'] < 9


def test_a_tuning_and_a_benchmark() -> None:
    found = samples(run_metrics.render_run_metrics(documents.tuning()))
    ratio = "sovereign_epyc_benchmark_setting_ratio"
    assert found[ratio, 'service="chat",setting="options",verdict="pays"'] == pytest.approx(1.11, abs=0.01)
    assert not any("candidate" in labels for dummy, labels in found)
    assert not any(name == ratio for name, dummy in samples(run_metrics.render_run_metrics(documents.benchmark())))


def test_the_energy_of_each_arm() -> None:
    """Each arm takes 400 W for ten seconds in a round, and generates 500 tokens."""
    data = documents.benchmark()
    for sample in data["samples"]:
        sample["witness"].update(joules=4000.0, seconds=10.0, tokens=500, power_source="rapl")
    found = samples(run_metrics.render_run_metrics(data))
    assert found["sovereign_epyc_benchmark_watts", 'service="chat",arm="running"'] == 400
    assert found["sovereign_epyc_benchmark_tokens_per_joule", 'service="chat",arm="running"'] == 0.125
    for sample in data["samples"]:
        sample["witness"].update(joules=None)
    assert not any("watts" in name for name, dummy in samples(run_metrics.render_run_metrics(data)))


@pytest.mark.parametrize("make", [documents.begun, documents.unconfirmed])
def test_a_run_that_proves_nothing_says_so(make: Callable[[], dict[str, Any]]) -> None:
    data = make()
    data["restored"] = False
    assert samples(run_metrics.render_run_metrics(data))["sovereign_epyc_benchmark_sound", 'service="chat"'] == 0


def test_what_a_document_holds_cannot_break_out() -> None:
    data = documents.hostile()
    with pytest.raises(BadRequest, match="should be a time"):
        run_metrics.render_run_metrics(data)
    data["started"] = "2026-11-25T00:00:00Z"
    assert samples(run_metrics.render_run_metrics(data, documents.EVIL))
