# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of a run on several workers, so that they end at about the same time."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from vepyc.paths import hold_lock, state_directory

#: The seconds of a worker that each test took, as `make test-all` has seen them last.
SECONDS = state_directory() / "test-seconds.json"
#: What to expect of a file whose tests have never run here: it depends on what the folder has to start.
GUESSES = {
    "tests/site/": 600,
    "tests/molecule/": 150,
    "tests/service/": 100,
    "lab/tests/": 100,
    "tests/lab/": 100,
    "tests/gates/": 50,
}


class ByMachine(LoadScopeScheduling):  # type: ignore[misc]
    """One worker has a file whole, as its tests share machines; each Molecule scenario and each SKU starts its own."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """Return what one worker has to run as a whole."""
    return nodeid if nodeid.startswith(("tests/molecule/", "tests/site/")) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByMachine:
    return ByMachine(config, log)


def load_seconds() -> dict[str, float]:
    """Return the seconds of each test that has run here; empty before the first run."""
    return dict(json.loads(SECONDS.read_text())) if SECONDS.exists() else {}


def save_seconds(of_tests: dict[str, float], replace: bool) -> None:
    """Keep the seconds of these tests; those that are known already are replaced only where it is asked for.

    In a smaller set of tests the first of a file bears a set-up that it shares with others in the whole.
    """
    rounded = {nodeid: round(seconds, 2) for nodeid, seconds in of_tests.items()}
    with hold_lock("test-seconds"):
        known = load_seconds()
        new = SECONDS.with_suffix(".new")
        new.write_text(json.dumps({**known, **rounded} if replace else {**rounded, **known}, indent=0))
        new.rename(SECONDS)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give the workers one order, whoever writes the file meanwhile."""
    node.workerinput["seconds"] = load_seconds()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest first: a worker that begins with minutes when the other has ended leaves that one idle."""
    known = config.workerinput["seconds"] if hasattr(config, "workerinput") else load_seconds()

    expected: dict[str, float] = defaultdict(float)
    for item in items:
        expected[scope_of(item.nodeid)] += known.get(item.nodeid, 0)
    for scope in expected:
        guess = next((seconds for start, seconds in GUESSES.items() if scope.startswith(start)), 0)
        expected[scope] = expected[scope] or guess
    items.sort(key=lambda item: expected[scope_of(item.nodeid)], reverse=True)
