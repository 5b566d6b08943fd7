# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of two controllers at one gateway at the same time, and runs that are killed before any of their changes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import gateway_lock
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.tests.unit.fakes.distributions import TEXT, Distribution
from ansible_collections.sovereign.epyc.tests.unit.fakes.killed_runs import killed_runs, standing_run

# The threads of pytest's workers hold nothing that the child needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

OTHER = f"{TEXT}lua-load <script file>\n"
#: Each call of systemctl is a step at which a run may end too.
SYSTEMCTL = [(command, "run_command")]


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    monkeypatch.setattr(gateway_lock, "TIMEOUT", 0.0)
    return Distribution(tmp_path, monkeypatch)


def apply_other(distribution: Distribution) -> None:
    distribution.apply(OTHER, key="of another", script="a script\n")


def require_whole(distribution: Distribution) -> None:
    """Require a configuration with which the service starts, as after a power cut."""
    text = (distribution.haproxy / "haproxy.cfg").read_text()
    assert distribution.lost_files(text) == []


def require_original_comes_back(distribution: Distribution, before: dict[str, tuple[str, int]]) -> None:
    distribution.restore()
    assert distribution.files() == before
    assert (distribution.state("active"), distribution.state("enabled")) == ("active", "enabled")


@pytest.mark.parametrize("run", [Distribution.apply, apply_other, Distribution.restore])
@pytest.mark.parametrize("then", [Distribution.apply, Distribution.restore])
def test_a_run_that_was_killed_loses_no_original(
    distribution: Distribution, run: Callable[[Distribution], object], then: Callable[[Distribution], object]
) -> None:
    before = distribution.files()

    def begin() -> None:
        require_original_comes_back(distribution, before)
        if run is not Distribution.apply:
            distribution.apply()

    turns = 0
    for dummy in killed_runs(begin, lambda: run(distribution), SYSTEMCTL):
        turns += 1
        require_whole(distribution)
        then(distribution)
        require_whole(distribution)
    assert turns > 20
    require_original_comes_back(distribution, before)


@pytest.mark.parametrize("first", [Distribution.apply, Distribution.restore])
@pytest.mark.parametrize("second", [apply_other, Distribution.restore])
def test_of_two_runs_at_once_one_waits_or_is_refused(
    distribution: Distribution, first: Callable[[Distribution], object], second: Callable[[Distribution], object]
) -> None:
    before = distribution.files()
    refused = 0
    for turn in count(1):
        require_original_comes_back(distribution, before)
        if first is Distribution.restore:
            distribution.apply()
        with standing_run(turn, lambda: first(distribution), SYSTEMCTL) as stands:
            try:
                second(distribution)
            except TuningError as error:
                assert "Another program has held the lock" in str(error) and "nothing was changed" in str(error)
                refused += 1
        require_whole(distribution)
        if not stands:
            break
    assert refused > 10
    require_original_comes_back(distribution, before)
