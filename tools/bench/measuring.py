#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures how often ablations find in their time what they should, on simulated servers with hidden effects.

The real code runs in simulated time: only the starts and the samples are simulated. Each world is run with several
seeds, and a figure counts the runs in which the result is right.

Run as `make bench-measuring`, or with `ARGS="--runs 5 --worlds thirty_billion"` for less. Exit code 1 when a figure
misses its bar.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.objective_names import (
    LATENCY,
    PROMPT,
    THROUGHPUT,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import HURTS, MIXED, PAYS
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.timed_worlds import (
    DECODE,
    PREFILL,
    SPECULATION,
    Setting,
    TimedServer,
    run_timed_ablation,
    save_only_ended_documents,
    thirty_billion_host,
)
from tools.bench.measurement import run_measurement
from tools.bench.measuring_tuner import tune_landscapes
from vepyc.figures import Bar, Figures

NAME = "bench-measuring"
RUNS = 20
#: Minutes of a run by default, and those of half a day and of a day.
FOUR_HOURS, HALF_DAY, DAY = 240, 720, 1440
#: Seconds of a start and of a pass with a model of 70 billion parameters.
LARGE_MODEL = {"start_s": 90.0, "pass_s": 203.0}
LARGE_EFFECTS = {SPECULATION, "memory policy", "threads"}


class Result:
    """The judgement of a run, with the settings of its server."""

    def __init__(self, settings: Sequence[Setting], document: dict[str, Any]) -> None:
        self.judgement = Judgement(document)
        self.words = {verdict.knob: verdict.word for verdict in self.judgement.verdicts}
        self.effects = {setting.name: setting.effects.get(DECODE, 0.0) for setting in settings}

    def all_settings_pay(self, names: set[str]) -> bool:
        """Return whether all these settings pay."""
        return all(self.words[name] == PAYS for name in names)

    def count_false_claims(self) -> int:
        """Return the number of settings without effect that are said to pay or to hurt."""
        return sum(self.words[name] in (PAYS, HURTS, MIXED) for name, effect in self.effects.items() if not effect)

    def wrong_signs(self) -> int:
        """Return the number of settings whose verdict on decoding with one stream has the wrong sign."""
        wrong = {True: HURTS, False: PAYS}
        return sum(
            bool(effect) and verdict.comparisons[LATENCY].word == wrong[effect > 0]
            for verdict in self.judgement.verdicts
            for effect in [self.effects[verdict.knob]]
            if LATENCY in verdict.comparisons
        )

    def kept_lacks(self, name: str) -> bool:
        """Return whether the kept settings lack a setting."""
        return name in self.judgement.settings_to_leave_out()


def run_world(
    runs: int,
    first_seed: int,
    minutes: float,
    settings: Callable[[], list[Setting]],
    options: dict[str, Any] | None = None,
    **world: Any,
) -> Iterator[Result]:
    """Yield the result of each run of a world; ``options`` are those of the module, ``world`` those of the server."""
    for seed in range(first_seed, first_seed + runs):
        with (
            tempfile.TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as patch,
            measured(Path(folder), patch) as host,
        ):
            save_only_ended_documents(patch)
            host.slots = world.get("streams", 2)
            server = TimedServer(settings(), seed, **world)
            server.take_over(patch)
            yield Result(server.settings, run_timed_ablation(host, server, minutes, seed, **(options or {})))


class Bench:
    """The worlds of the bench; verdicts of all of them are counted together."""

    def __init__(self, figures: Figures, runs: int, seed: int) -> None:
        self.figures = figures
        self.runs = runs
        self.seed = seed
        self.verdicts = self.wrong_signs = 0

    def print_share(self, name: str, count: float, operator: str, share: float) -> None:
        """Print a count of runs, with a bar that is a share of all runs."""
        limit = math.ceil(share * self.runs) if operator == ">=" else math.floor(share * self.runs)
        self.figures.print_figure(name, count, f"of {self.runs} runs", Bar(operator, limit))

    def run_world_and_list_results(
        self, minutes: float, settings: Callable[[], list[Setting]], **world: Any
    ) -> list[Result]:
        """Return the results of all runs of a world."""
        results = list(run_world(self.runs, self.seed, minutes, settings, **world))
        self.verdicts += sum(len(result.words) for result in results)
        self.wrong_signs += sum(result.wrong_signs() for result in results)
        return results

    def count_large_effects(self, name: str, results: Sequence[Result]) -> None:
        """Print in how many runs the three large effects pay and the headline is confirmed."""
        self.print_share(f"{name}_three_pay", sum(one.all_settings_pay(LARGE_EFFECTS) for one in results), ">=", 0.9)
        confirmed = sum(one.judgement.confirmation.confirmed for one in results)
        self.print_share(f"{name}_confirmed", confirmed, ">=", 0.9)

    def thirty_billion(self) -> None:
        """30 billion parameters of which 3 are active, 17 settings, four hours."""
        self.count_large_effects("30b_4h", self.run_world_and_list_results(FOUR_HOURS, thirty_billion_host))

    def seventy_billion(self) -> None:
        """70 billion parameters, 17 settings, a day."""
        self.count_large_effects("70b_24h", self.run_world_and_list_results(DAY, thirty_billion_host, **LARGE_MODEL))

    def no_effect(self) -> None:
        """20 settings without any effect."""
        results = self.run_world_and_list_results(FOUR_HOURS, settings_without_effect)
        self.print_share("20_null_settings_claims", sum(one.count_false_claims() for one in results), "<=", 0.05)

    def both_signs(self) -> None:
        """Settings that gain and settings that cost."""
        results = self.run_world_and_list_results(FOUR_HOURS, settings_of_both_signs)
        found = sum(one.words[name] in (PAYS, HURTS) for one in results for name in one.effects)
        self.figures.print_figure("both_signs_found", found / len(results), "of 10 effects")

    def start_noise(self) -> None:
        """Starts that differ by 2 percent, and an effect of 4 percent."""
        settings = [Setting("OpenMP environment", schedule.RESTART, 0.04)]
        settings += [Setting(f"restart {at}", schedule.RESTART) for at in range(5)]
        results = self.run_world_and_list_results(HALF_DAY, lambda: settings, start_noise=0.02)
        self.print_share(
            "4_percent_at_start_noise", sum(one.all_settings_pay({"OpenMP environment"}) for one in results), ">=", 0.9
        )

    def effects_by_start(self) -> None:
        """Live settings whose effect is another one in each start."""
        for count in (1, 5):
            settings = [Setting(f"live {at}", schedule.LIVE, sd_by_start=0.01) for at in range(count)]
            results = self.run_world_and_list_results(FOUR_HOURS, settings.copy)
            claims = sum(one.count_false_claims() > 0 for one in results)
            self.print_share(f"{count}_effects_by_start_claims", claims, "<=", 0.05)

    def speculation(self) -> None:
        """Speculation twice as fast, with one text of nine that differs."""
        settings = [Setting(SPECULATION, schedule.RESTART, 1.0)]
        results = self.run_world_and_list_results(FOUR_HOURS, settings.copy, differing_texts=1)
        self.print_share(
            "speculation_with_another_text", sum(one.all_settings_pay({SPECULATION}) for one in results), ">=", 1.0
        )

    def prefill(self) -> None:
        """Prompts are read 40 percent faster, and decoding is not."""
        settings = [Setting("batch sizes", schedule.RESTART, {PREFILL: 0.4}), Setting("live 0", schedule.LIVE)]
        results = self.run_world_and_list_results(FOUR_HOURS, settings.copy)
        count = sum(
            verdict.comparisons[PROMPT].word == PAYS and verdict.word == PAYS
            for one in results
            for verdict in one.judgement.verdicts
            if verdict.knob == "batch sizes"
        )
        self.print_share("prefill_pays_for_prompt", count, ">=", 1.0)

    def eight_streams(self) -> None:
        """Eight streams are 30 percent faster, and one stream is 1.5 percent slower."""
        settings = [Setting("SMT", schedule.RESTART, {DECODE: -0.015, THROUGHPUT: 0.3})]
        options = {"objectives": [LATENCY, THROUGHPUT]}
        quiet = {"noise": 0.005, "start_noise": 0.005}
        results = self.run_world_and_list_results(DAY, settings.copy, options=options, streams=8, **quiet)
        mixed = sum(one.words["SMT"] in (MIXED, PAYS) and not one.kept_lacks("SMT") for one in results)
        self.print_share("eight_streams_kept", mixed, ">=", 1.0)
        self.print_share("eight_streams_mixed", sum(one.words["SMT"] == MIXED for one in results), ">=", 0.9)

    def tuner(self) -> None:
        """Tunings of eight options in four hours: what they prove of what could be had, and flat landscapes."""
        tuned = list(tune_landscapes(self.runs, self.seed))
        self.print_share("tuned_to_95_percent_of_the_best", sum(one.speed_share >= 0.95 for one in tuned), ">=", 0.9)
        self.print_share("tuned_with_proof", sum(one.is_proven for one in tuned), ">=", 0.9)
        self.figures.print_figure("tuned_share_of_gain", sum(one.gain_share for one in tuned) / len(tuned), "mean")
        self.print_share("tuned_too_long", sum(one.overtime for one in tuned), "<=", 0.0)
        flat = list(tune_landscapes(self.runs, self.seed, flat=True))
        self.print_share("flat_landscapes_with_claim", sum(one.is_proven for one in flat), "<=", 0.05)

    def print_signs(self) -> None:
        """Print how many verdicts of all worlds have a wrong sign."""
        self.figures.print_figure("verdicts", self.verdicts, "verdicts")
        self.figures.print_figure("wrong_signs", self.wrong_signs, "verdicts", Bar("<=", 0))


WORLDS = {
    world.__name__: world
    for world in (
        Bench.thirty_billion,
        Bench.seventy_billion,
        Bench.no_effect,
        Bench.both_signs,
        Bench.start_noise,
        Bench.effects_by_start,
        Bench.speculation,
        Bench.prefill,
        Bench.eight_streams,
        Bench.tuner,
    )
}


def settings_without_effect() -> list[Setting]:
    """Return 10 live and 10 restart settings without any effect."""
    classes = [schedule.LIVE] * 10 + [schedule.RESTART] * 10
    return [Setting(f"setting {at}", setting_class) for at, setting_class in enumerate(classes)]


def settings_of_both_signs() -> list[Setting]:
    """Return settings of both classes, five that gain and five that cost, beside others."""
    effects = [0.2, -0.1, 0.06, -0.05, 0.04, -0.04, 0.05, -0.08, 0.03, -0.03, 0, 0, 0, 0, 0, 0]
    return [
        Setting(f"setting {at}", schedule.LIVE if at % 2 else schedule.RESTART, effect)
        for at, effect in enumerate(effects)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__.partition("\n\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each world, %(default)s by default")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first run")
    parser.add_argument("--worlds", nargs="+", choices=sorted(WORLDS), default=list(WORLDS))
    options = parser.parse_args(arguments)

    def measure(figures: Figures) -> None:
        bench = Bench(figures, options.runs, options.seed)
        for name in options.worlds:
            WORLDS[name](bench)
        bench.print_signs()

    return run_measurement(NAME, measure)


if __name__ == "__main__":
    sys.exit(main())
