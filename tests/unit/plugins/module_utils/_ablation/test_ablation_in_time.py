# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ablations in simulated time: with what they are given they find what they should, and end in their time.

`make bench-measuring` does this with many seeds; here are a few small ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.timed_worlds import (
    PREFILL,
    SPECULATION,
    Setting,
    TimedServer,
    run_timed_ablation,
    save_only_ended_documents,
    thirty_billion_host,
)


def ablate(
    folder: Path, patch: pytest.MonkeyPatch, settings: list[Setting], minutes: float, seed: int = 1, **world: Any
) -> tuple[TimedServer, dict[str, Any], Judgement]:
    with measured(folder, patch) as host:
        save_only_ended_documents(patch)
        server = TimedServer(settings, seed, **world)
        server.take_over(patch)
        document = run_timed_ablation(host, server, minutes, seed)
    return server, document, Judgement(document)


def words(judgement: Judgement) -> dict[str, str]:
    return {verdict.knob: verdict.word for verdict in judgement.verdicts}


def test_three_large_effects_among_seventeen_settings_in_four_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, document, judgement = ablate(tmp_path, monkeypatch, thirty_billion_host(), 240)
    found = words(judgement)
    assert {found[name] for name in (SPECULATION, "memory policy", "threads")} == {"pays"}
    assert judgement.confirmation.confirmed and server.clock.now <= 240 * 60
    assert document["plan"]["costs"]["restart"] == {"pass_s": 35.0, "start_s": 45.0}
    assert sum(word == "nothing" for word in found.values()) >= 12
    # The confirmation has a start of each arm in each round.
    fresh = [row["round"] for row in document["plan"]["order"] if row["phase"] == schedule.CONFIRMATION]
    starts = {sample["start"] for sample in document["samples"] if sample["round"] in fresh}
    assert len(fresh) == 10 and len(starts) == sum(
        len(row["arms"]) for row in document["plan"]["order"] if row["round"] in fresh
    )


def test_half_the_time_settles_the_dearest_settings_and_says_what_it_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, document, judgement = ablate(tmp_path, monkeypatch, thirty_billion_host(), 90)
    assert words(judgement)[SPECULATION] == "pays" and judgement.confirmation.confirmed
    assert server.clock.now <= 90 * 60
    (shortage,) = document["shortages"]
    assert "restart 0" in shortage and SPECULATION not in shortage


def test_live_settings_alone_share_starts_in_the_screening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [Setting("boost", schedule.LIVE, 0.06), *(Setting(f"live {at}", schedule.LIVE) for at in range(5))]
    dummy, document, judgement = ablate(tmp_path, monkeypatch, settings, 240)
    assert words(judgement)["boost"] == "pays"
    assert {row["class"] for row in document["plan"]["order"] if row["phase"] != schedule.PROBE} == {schedule.LIVE}
    starts: dict[int, set[int]] = {}
    for sample in document["samples"]:
        starts.setdefault(sample["round"], set()).add(sample["start"])
    assert {len(used) for used in starts.values()} == {1}
    assert len({start for used in starts.values() for start in used}) == len(starts)


def test_a_pair_that_pays_only_together_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [Setting(name, schedule.RESTART) for name in ("NUMA mode", "load mode", "a", "b", "c", "d")]
    *dummy, judgement = ablate(tmp_path, monkeypatch, settings, 300, pairs={("NUMA mode", "load mode"): 0.1})
    found = words(judgement)
    assert (found["NUMA mode"], found["load mode"]) == ("pays", "pays")


def test_faster_prompts_pay_without_faster_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [Setting("batch sizes", schedule.RESTART, {PREFILL: 0.4})]
    *dummy, judgement = ablate(tmp_path, monkeypatch, settings, 240)
    (verdict,) = judgement.verdicts
    assert (verdict.word, verdict.comparisons["prompt"].word) == ("pays", "pays")
