# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of an ablation on a host with hidden effects: which rounds it runs, what it rejects, and how it ends."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import ablation, variants
from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.arm_switch import InstanceVariant
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.run_report import render_run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.simulated import Simulated
from ansible_collections.sovereign.epyc.tests.unit.fakes.timed_worlds import save_only_ended_documents

KNOBS = [
    {"name": "boost", "class": schedule.LIVE, "settings": {"cpufreq:policy0/boost": "0"}, "arguments": []},
    {"name": "prefetchers", "class": schedule.LIVE, "settings": {"msr:0xc0000108/0/cpu4": "0"}, "arguments": []},
    {"name": "NUMA balancing", "class": schedule.RESTART, "settings": {"sysfs:numa_balancing": "1"}, "arguments": []},
    {"name": "threads", "class": schedule.RESTART, "settings": {}, "arguments": ["--threads"]},
]
#: What a knob makes of the speed; the others do nothing.
EFFECTS = {"boost": 0.08, "threads": -0.06}


def level(arm: Mapping[str, Any]) -> float:
    """Return what the knobs make of the speed that an arm has."""
    gone = [*arm["settings"], *arm["arguments"]]
    on = [one["name"] for one in KNOBS if not any(word in gone for word in (*one["settings"], *one["arguments"]))]
    return math.fsum(math.log1p(EFFECTS.get(name, 0.0)) for name in on)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        yield host


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Simulated:
    one = Simulated(level)
    one.take_over(monkeypatch)
    save_only_ended_documents(monkeypatch)
    monkeypatch.setattr(
        ablation.removable_settings,
        "list_removable_settings",
        lambda host, store, reboots: (KNOBS[:3], {"boot parameters": "it needs a reboot"}),
    )
    monkeypatch.setattr(ablation.removable_options, "list_removable_options", lambda target, host: KNOBS[3:])
    return one


def run(here: Measured, **options: Any) -> tuple[dict[str, Any], Judgement]:
    told: list[str] = []
    path, document = ablation.run_ablation(
        here.host(), MeasuringRequest({"streams": []}), ablation.AblationRequest({"seed": 1, **options}), told.append
    )
    assert json.loads(Path(path).read_text()) == document
    assert told[-1] == "it puts all back"
    return document, Judgement(document)


def words(judgement: Judgement) -> dict[str, str]:
    return {one.knob: one.word for one in judgement.verdicts}


def test_it_finds_what_pays_and_what_hurts_and_confirms_that_on_fresh_rounds(
    here: Measured, simulated: Simulated
) -> None:
    document, judgement = run(here)
    found = words(judgement)
    assert (found["boost"], found["threads"], found["boot parameters"]) == ("pays", "hurts", "not tested")
    assert found["prefetchers"] in ("nothing", "undecided") and found["NUMA balancing"] in ("nothing", "undecided")
    assert document["restored"] is True and simulated.begun == ["llama-chat.service"] and simulated.put_back == 1
    # What hurts goes, and so does what taints the kernel for nothing.
    (kept,) = (arm for arm in document["plan"]["arms"] if arm["name"] == schedule.KEPT)
    assert kept["settings"] == KNOBS[1]["settings"] and kept["arguments"] == ["--threads"]
    together = judgement.confirmation.kept_over_stock
    assert judgement.confirmation.confirmed and together is not None and together.interval is not None
    # Stock lacks the boost, and what is kept lacks the threads that hurt; stock lacks them too.
    assert together.interval.low < math.log(1.08) < together.interval.high


def test_live_arms_share_a_start_and_others_have_a_start_each(here: Measured, simulated: Simulated) -> None:
    document, dummy = run(here, knobs=["boost", "threads"])
    order = document["plan"]["order"]
    live = [one for one in order if one["class"] == schedule.LIVE]
    assert live and all(one["restart"] for one in live)
    starts = {one["round"]: set() for one in order}
    for one in document["samples"]:
        starts[one["round"]].add(one["start"])
    for one in order:
        assert len(starts[one["round"]]) == (1 if one["class"] == schedule.LIVE else len(one["arms"]))
    # Each setting of the host was tried before; the probe starts the anchor alone.
    assert simulated.steps[:2] == [("live", "boost"), ("start", "tuned")]
    assert (order[0]["phase"], order[0]["arms"]) == (schedule.PROBE, ["tuned"])
    assert schedule.STOCK not in {name for one in order if one["phase"] == schedule.ABLATION for name in one["arms"]}


def test_many_settings_are_screened_before_some_are_raced(here: Measured, simulated: Simulated) -> None:
    document, judgement = run(here)
    order = document["plan"]["order"]
    phases = [one["phase"] for one in order]
    assert phases[:5] == [schedule.PROBE, *[schedule.SCREENING] * 4] and phases[-1] == schedule.CONFIRMATION
    arms = {arm["name"]: arm["removed"] for arm in document["plan"]["arms"]}
    screened = [name for one in order[1:5] for name in one["arms"] if name != schedule.TUNED]
    assert len(screened) == 16
    for knob in KNOBS:
        assert sum(knob["name"] in arms[name] for name in screened) == 8
    assert math.isclose(judgement.screened["boost"].mean, math.log(1.08), abs_tol=0.02)
    raced = {name for one in order if one["phase"] == schedule.ABLATION for name in one["arms"]}
    assert {"without boost", "without threads"} <= raced


def test_a_setting_without_which_the_server_does_not_start_stays_in_all_later_arms(
    here: Measured, simulated: Simulated
) -> None:
    start = simulated.start_instance

    def start_instance(arm: Mapping[str, Any]) -> None:
        if "--threads" in arm["arguments"] and arm["name"] != schedule.STOCK:
            raise TuningError("llama-chat.service did not start.")
        start(arm)

    simulated.start_instance = start_instance  # type: ignore[method-assign]
    document, judgement = run(here)
    assert document["plan"]["rejected"]["threads"] == "llama-chat.service did not start."
    assert words(judgement)["threads"] == "rejected" and words(judgement)["boost"] == "pays"
    failed = {name for name in document["plan"]["rejected"] if name.startswith(schedule.SCREEN)}
    measured_arms = {one["arm"] for one in document["samples"]}
    removed = {arm["name"]: arm["removed"] for arm in document["plan"]["arms"] if arm["name"] in measured_arms}
    assert failed and not any("threads" in names for name, names in removed.items() if name != schedule.STOCK)


def test_settings_that_only_fail_together_are_raced(here: Measured, simulated: Simulated) -> None:
    start = simulated.start_instance

    def start_instance(arm: Mapping[str, Any]) -> None:
        if {"NUMA balancing", "threads"} <= set(arm["removed"]) and arm["name"] not in (schedule.STOCK, schedule.KEPT):
            raise TuningError("llama-chat.service did not start.")
        start(arm)

    simulated.start_instance = start_instance  # type: ignore[method-assign]
    document, judgement = run(here)
    assert all(name.startswith(schedule.SCREEN) for name in document["plan"]["rejected"])
    found = words(judgement)
    assert (found["boost"], found["threads"]) == ("pays", "hurts")


def test_a_knob_that_cannot_be_left_out_is_in_stock_too(here: Measured, simulated: Simulated) -> None:
    simulated.broken["boost"] = TuningError("cpufreq:policy0/boost: the write succeeded\nwithout effect.")
    document, judgement = run(here, rounds=6, knobs=["boost", "prefetchers"])
    assert document["plan"]["rejected"] == {"boost": "cpufreq:policy0/boost: the write succeeded without effect."}
    assert words(judgement)["boost"] == "rejected"
    (stock,) = (arm for arm in document["plan"]["arms"] if arm["name"] == schedule.STOCK)
    assert stock["settings"] == KNOBS[1]["settings"]
    assert not any("without boost" in one["arms"] for one in document["plan"]["order"])


def test_a_knob_that_does_not_take_later_is_rejected(here: Measured, simulated: Simulated) -> None:
    simulated.broken["without boost"] = TuningError("cpufreq:policy0/boost: the write succeeded\nwithout effect.")
    document, judgement = run(here, rounds=6, knobs=["boost", "prefetchers"])
    assert document["plan"]["rejected"] == {"boost": "cpufreq:policy0/boost: the write succeeded without effect."}
    assert words(judgement)["boost"] == "rejected"
    tried = [one for one in document["plan"]["order"] if "without boost" in one["arms"]]
    assert [one["round"] for one in tried] == [2]


@pytest.mark.parametrize(("without", "tuned", "said"), [(5, 9, "5 tokens were guessed"), (0, 0, "nothing is guessed")])
def test_speculation_has_to_show(
    here: Measured, simulated: Simulated, monkeypatch: pytest.MonkeyPatch, without: int, tuned: int, said: str
) -> None:
    one = {"name": "speculation", "class": schedule.RESTART, "settings": {}, "arguments": ["--spec-type"]}
    monkeypatch.setattr(ablation.removable_options, "list_removable_options", lambda target, host: [one])
    simulated.guessing = {"without speculation": without, "tuned": tuned}
    document, dummy = run(here, rounds=4, knobs=["speculation"])
    assert document["plan"]["rejected"]["speculation"].startswith(said)


def test_where_stock_cannot_be_had_it_ends_and_all_is_put_back(here: Measured, simulated: Simulated) -> None:
    simulated.broken["stock"] = TuningError("llama-chat.service did not start.")
    with pytest.raises(
        TuningError, match=r"stock cannot be measured: .* All was put back. What was measured until then"
    ):
        run(here)
    assert simulated.put_back == 1


def test_a_bug_puts_all_back_too(here: Measured, simulated: Simulated) -> None:
    simulated.broken["again"] = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        run(here)
    assert simulated.put_back == 1


def test_what_cannot_be_put_back_is_the_first_thing_that_is_said(here: Measured, simulated: Simulated) -> None:
    simulated.failures.append("sysfs/numa: it is busy.")
    with pytest.raises(TuningError, match=r"^Not all stored settings could be put back: sysfs/numa: it is busy. 'sov"):
        run(here, rounds=4, knobs=["boost"])


def test_rounds_that_never_count_end_it_without_a_claim(here: Measured, simulated: Simulated) -> None:
    simulated.void = "Other programs took 9.0% of the time of the instance's CPUs, above 2.0%."
    document, judgement = run(here)
    phases = [one["phase"] for one in document["plan"]["order"]]
    assert phases == [schedule.PROBE, *[schedule.SCREENING] * (MAX_DISCARDED_IN_A_ROW)]
    assert judgement.settings_proven_to_help_or_hurt() == []


class Clock:
    """A clock that starts move by 5 seconds and samples by 2."""

    def __init__(self, simulated: Simulated) -> None:
        self.now = 0.0
        self.start, self.measure = simulated.start_instance, simulated.measure_samples
        simulated.start_instance = self.start_instance  # type: ignore[method-assign]
        simulated.measure_samples = self.measure_samples  # type: ignore[method-assign]

    def monotonic(self) -> float:
        return self.now

    def start_instance(self, arm: Mapping[str, Any]) -> None:
        self.now += 5
        self.start(arm)

    def measure_samples(self, where: dict[str, Any], requests: int, *rest: Any) -> Any:
        self.now += 2 * requests
        return self.measure(where, requests, *rest)


def run_with_clock(here: Measured, clock: Clock, minutes: float) -> tuple[list[str], dict[str, Any]]:
    told: list[str] = []
    dummy, document = ablation.run_ablation(
        here.host(),
        MeasuringRequest({}),
        ablation.AblationRequest({"minutes": minutes, "seed": 1}),
        told.append,
        clock,
    )
    return told, document


def test_a_run_ends_in_its_time_with_its_confirmation(here: Measured, simulated: Simulated) -> None:
    clock = Clock(simulated)
    told, document = run_with_clock(here, clock, 10)
    assert clock.now <= 600
    phases = [one["phase"] for one in document["plan"]["order"]]
    assert phases.count(schedule.CONFIRMATION) == schedule.CONFIRMATION_ROUNDS and schedule.ABLATION in phases
    said = next(line for line in told if line.startswith("A start takes 5 s and a pass 2 s. "))
    assert "probably settle" in said and said in document["remarks"]
    assert all(line.endswith(" left") for line in told if ", round " in line)
    (short,) = document["shortages"]
    assert "more minutes probably settle" in short


def test_a_run_that_cannot_even_confirm_says_which_minutes_it_needs(here: Measured, simulated: Simulated) -> None:
    with pytest.raises(
        BadRequest, match=r"^Not enough time: .* Give at least 3 minutes; \d+ minutes probably settle all"
    ):
        run_with_clock(here, Clock(simulated), 2)
    assert simulated.put_back == 1 and [name for kind, name in simulated.steps if kind == "start"] == ["tuned"]


def test_a_check_lists_what_would_be_left_out(here: Measured, simulated: Simulated) -> None:
    name, said = ablation.describe_planned_ablation(here.host(), MeasuringRequest({}), ablation.AblationRequest({}))
    listed, dummy, time = said.partition(" A start takes ")
    assert name == "chat" and listed == (
        "chat would be measured without each of these in turn, and started anew again and again; live: boost, "
        "prefetchers; restart: NUMA balancing, threads. Not tested: boot parameters (it needs a reboot)."
    )
    assert "(predicted from the size of the model and the memory bandwidth)" in time
    assert "4 h 00 min probably settle all 4 settings" in time
    short = ablation.AblationRequest({"minutes": 1})
    assert "Not enough time: " in ablation.describe_planned_ablation(here.host(), MeasuringRequest({}), short)[1]
    assert simulated.steps == [] and simulated.begun == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"knobs": ["boots"]}, "boots cannot be left out on this host: here are boost, prefetchers, NUMA bal"),
        ({"knobs": ["boot parameters"]}, "boot parameters cannot be left out on this host: it needs a reboot"),
        ({"rounds": 3}, "rounds: 3 is out of range; give at least 4"),
        ({"minutes": 0}, r"minutes: 0 is out of range; give at least 0\.1"),
        ({"seed": -1}, "seed: -1 is out of range"),
        ({"smallest": 2}, "smallest is 2; give a share from 0.001 to 0.5"),
    ],
)
def test_invalid_options_are_refused(here: Measured, simulated: Simulated, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        ablation.describe_planned_ablation(here.host(), MeasuringRequest({}), ablation.AblationRequest(options))


# Other builds and models as arms

#: What a variant makes of the speed.
VARIANTS = {"b11500": -0.04, "smaller": 0.2, "same": 0.0}


@pytest.fixture
def compared(simulated: Simulated, monkeypatch: pytest.MonkeyPatch) -> Simulated:
    def plan(host: object, target: object, requests: Any, options: object, intent: object) -> variants.Variants:
        planned = variants.Variants()
        planned.arms = [schedule.build_variant_arm(one["name"], {"binary": one["name"]}) for one in requests]
        planned.by_arm = {arm["name"]: InstanceVariant(None, []) for arm in planned.arms}
        return planned

    monkeypatch.setattr(ablation, "plan_variants", plan)
    simulated.level = lambda arm: math.log1p(VARIANTS.get(arm["options"].get("binary"), 0.0))
    return simulated


def test_another_build_is_judged_before_it_is_rolled_out(here: Measured, compared: Simulated) -> None:
    document, judgement = run(here, arms=[{"name": name} for name in VARIANTS])
    verdicts = {one.name: one for one in judgement.variants}
    assert {name: one.word for name, one in verdicts.items()} == {
        "b11500": "hurts",
        "smaller": "pays",
        "same": "nothing",
    }
    assert [one.name for one in judgement.variants if one.is_loss_proven] == ["b11500"]
    build = document["fingerprint"]["engine_build"] or "chat"
    headline = verdicts["b11500"].headline(judgement.running_name)
    assert re.fullmatch(rf"b11500 over {build}: decode 0\.9\d+ \(0\.9\d+ to 0\.9\d+\): do not roll out", headline)
    report = render_run_report(document)
    first_line, second_line, *dummy = report.splitlines()
    assert first_line == f"Comparison of chat: {headline}"
    assert second_line.startswith(f"smaller over {build}: decode 1.2")
    assert "\nRoll out smaller: change these lines" in report and "\n  +    binary: smaller\n" in report
    # No setting is left out unless it is asked for, and each arm has its own start in each round.
    assert judgement.verdicts == [] and {one["class"] for one in document["plan"]["order"]} == {schedule.RESTART}
    first, *dummy, last = document["plan"]["order"][1:]
    assert set(first["arms"]) == {"tuned", "again", *(f"variant {name}" for name in VARIANTS)}
    # A decided variant is measured no more.
    assert set(last["arms"]) < set(first["arms"])
    assert document["restored"] is True


def test_settings_are_tested_beside_other_builds_where_they_are_named(here: Measured, compared: Simulated) -> None:
    dummy, judgement = run(here, arms=[{"name": "b11500"}], knobs=["NUMA balancing"])
    assert [one.knob for one in judgement.verdicts] == ["NUMA balancing"] and judgement.variants[0].word == "hurts"


def test_a_build_that_does_not_start_is_rejected(here: Measured, compared: Simulated) -> None:
    compared.broken["variant b11500"] = TuningError("it did not start.")
    document, judgement = run(here, arms=[{"name": "b11500"}])
    assert document["plan"]["rejected"] == {"variant b11500": "it did not start."}
    assert judgement.variants[0].headline("chat") == (
        "b11500 over chat: no interval yet: it could not be measured (it did not start.)"
    )
