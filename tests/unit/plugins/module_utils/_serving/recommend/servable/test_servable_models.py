# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host can serve of the catalogue: places, copies, users, the order, and the answer on 60 tokens per second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.servable.recommend_servable import (
    recommend_servable_models,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.servable.servable_models import (
    WantedService,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import sized

INDEX = {"name": "An index", "source": "https://example.com/index"}


def entry(name: str, parameters: float, active: float | None = None, **more: Any) -> dict[str, Any]:
    """Return a catalogue entry of so many billions of parameters in about 4.9 bits each."""
    shape = {
        "architecture": "qwen3moe" if active else "llama",
        "quantization": "Q4_K_M",
        "parameters": 1e9 * parameters,
        "active_parameters": 1e9 * (active or parameters),
        "file_bytes": 0.61e9 * parameters,
        "layers": 48,
        "kv_bytes_per_token": 98_304,
        "trained_context": 131_072,
    }
    return {"name": name, "shape": shape, **more}


DENSE = entry("dense-70b", 70, quality={**INDEX, "score": 12.0}, drafts=["tiny", "not-there"])
MIXTURE = entry("mixture-30b", 30, 3.3, quality={**INDEX, "score": 15.0})
SLOW_AND_GOOD = entry("dense-400b", 400, quality={**INDEX, "score": 40.0})
HUGE = entry("huge", 2000, 40)
TINY = entry("tiny", 1)
PUBLIC_RATES = [
    {
        "rate": 47.17,
        "gbps": 246.0,
        "cpu": "EPYC 9655, NPS2, 12 modules at 4800 MT/s",
        "model": "qwen3-coder-30b-a3b-q4_k_m",
        "engine": "a fork of llama.cpp of April 2026",
        "source": "epyc-inference-research, pre-nps4-freeze",
    }
]
ENTRIES = [DENSE, MIXTURE, SLOW_AND_GOOD, HUGE, TINY]


def servable(machine: str, root: Path, entries: Any = ENTRIES, rate: float = 6.0, **more: Any) -> dict[str, Any]:
    fs = sized(machine, **more)
    return recommend_servable_models(fs, entries, PUBLIC_RATES, WantedService(rate, 8192), str(root))


def by_name(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {model["name"]: model for model in result["models"]}


def test_the_best_that_is_fast_enough_is_first(tmp_path: Path) -> None:
    result = servable("9754", tmp_path)
    assert [model["name"] for model in result["models"]] == [
        "mixture-30b",
        "dense-70b",
        "tiny",
        "dense-400b",
        "huge",
    ]
    slower = servable("9754", tmp_path, rate=1.0)
    assert slower["models"][0]["name"] == "dense-400b", "a lower rate admits the better model"


def test_why_a_model_does_not_fit(tmp_path: Path) -> None:
    huge = by_name(servable("9754", tmp_path))["huge"]
    assert not huge["fits"] and huge["rate"] is None and huge["users"] == 0
    assert huge["reason"] == "needs 1137.6 GiB of 706.6 GiB with a context of 4096"
    assert huge["reason"] in " ".join(servable("9754", tmp_path)["text"].split())


def test_each_socket_gets_a_copy_and_only_a_large_model_spans(tmp_path: Path) -> None:
    found = by_name(servable("two 7543", tmp_path, [*ENTRIES, entry("spans", 1000, 30)], gib=1024))
    assert found["mixture-30b"]["copies"] == 2 and found["spans"]["copies"] == 1
    alone = by_name(servable("9754", tmp_path))["mixture-30b"]
    assert alone["copies"] == 1
    assert found["mixture-30b"]["users"] % 2 == 0


def test_users_get_their_rate_and_their_memory(tmp_path: Path) -> None:
    fast, slow = (by_name(servable("9754", tmp_path, rate=rate))["mixture-30b"] for rate in (5.0, 20.0))
    assert fast["users"] > slow["users"] > 0
    small = by_name(servable("9754", tmp_path, rate=5.0, gib=24))["mixture-30b"]
    assert 0 < small["users"] < fast["users"] and small["context"] < fast["context"] == 131_072


def test_a_draft_of_the_catalogue_counts_as_a_range(tmp_path: Path) -> None:
    dense = by_name(servable("9754", tmp_path))["dense-70b"]
    assert dense["guesser"] == "tiny"
    low, high = dense["speculation"]
    assert 1 <= low < high < 4
    layers = by_name(servable("9754", tmp_path, [{**MIXTURE, "mtp": "own"}]))["mixture-30b"]
    assert layers["guesser"] == "its MTP layers" and layers["speculation"][0] >= 1
    assert by_name(servable("9754", tmp_path))["mixture-30b"]["speculation"] is None


def test_the_answer_on_60_tokens_per_second(tmp_path: Path) -> None:
    answer = servable("9754", tmp_path)["answer"]
    assert "60 tokens per second at the quality of a dense 70B: no. mixture-30b" in answer or "upper end" in answer
    assert "GB / 378 GB/s (paper)" in answer, "the arithmetic"
    assert "15 in An index (https://example.com/index), against 12 of dense-70b" in answer
    assert "47.17 of qwen3-coder-30b-a3b-q4_k_m on EPYC 9655, NPS2" in answer
    assert "it would need 2562 GB/s" in answer


def test_the_answer_without_a_candidate_or_a_score(tmp_path: Path) -> None:
    assert "dense 70B: no. No mixture of experts" in servable("9754", tmp_path, [DENSE])["answer"]
    unknown = servable("9754", tmp_path, [entry("mixture-30b", 30, 3.3)])["answer"]
    assert "no public score in the catalogue shows that mixture-30b reaches a dense 70B" in unknown


def test_a_measured_bandwidth_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = servable("9754", tmp_path)["text"]
    assert "378 GB/s (by paper, not measured)" in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_an_unknown_architecture_is_said(tmp_path: Path) -> None:
    unknown = entry("new", 8)
    unknown["shape"]["architecture"] = "nobodys-own"
    words = "The architecture nobodys-own is not known here."
    assert words in servable("9754", tmp_path / "a", [TINY, unknown])["text"]
    assert "not known here" not in servable("9754", tmp_path / "b", [TINY])["text"]


def test_without_a_model_that_fits(tmp_path: Path) -> None:
    text = servable("9754", tmp_path, [HUGE])["text"]
    assert "No model of the catalogue fits on this host." in text


@pytest.mark.parametrize(("rate", "context", "message"), [(0.0, 8192, "rate is 0"), (10.0, 0, "context is 0")])
def test_a_request_of_nothing_is_refused(rate: float, context: int, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        WantedService(rate, context)
