# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures how much of what could be had a tuning finds and proves in its time, on simulated servers.

Eight options have 31 values beside the default; a start takes 45 s and a pass 35 s. A landscape has one best
combination, which is 20 to 30 percent faster than the default.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.tuning_result import TuningResult
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.timed_tunings import (
    Landscape,
    TunedServer,
    run_timed_tuning,
)

MINUTES = 240
#: How much slower the server gets in an hour.
DRIFT = 0.05


class TunedLandscape:
    """What a tuning proved on a landscape.

    ``speed_share`` is the speed of the proven options, 1 for the default, as a share of the speed of the best options.
    ``gain_share`` is the same of the gain. ``overtime`` is whether the run took longer than its time.
    """

    def __init__(self, landscape: Landscape, result: TuningResult, seconds: float) -> None:
        tuned = result.to_tuned_options()
        level = landscape(tuned["options"]) if tuned else 0.0
        self.is_proven = bool(tuned)
        self.speed_share = math.exp(level - landscape.best)
        self.gain_share = math.expm1(level) / math.expm1(landscape.best) if landscape.best else 0.0
        self.overtime = seconds > 60 * MINUTES


def tune_landscapes(runs: int, first_seed: int, flat: bool = False) -> Iterator[TunedLandscape]:
    """Yield the result of a tuning of each landscape; with ``flat`` no option has any effect."""
    for seed in range(first_seed, first_seed + runs):
        with (
            tempfile.TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as patch,
            measured(Path(folder), patch) as host,
        ):
            # Writing and validating the file after each round would take most of the time.
            patch.setattr(run_document, "save_document", lambda path, document: None)
            landscape = Landscape(seed, flat)
            server = TunedServer(landscape, seed, DRIFT)
            server.take_over(patch)
            result = TuningResult(run_timed_tuning(host, server, MINUTES, seed))
            yield TunedLandscape(landscape, result, server.clock.now)
