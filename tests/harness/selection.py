# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which tests a run has: those of every day, those of some tiers, or what has not passed on these sources yet.

CONTRIBUTING.md states the rule of the marker `slow`.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable

import pytest

from .record import Record, sources_digest

#: The folders of tests, and the tier that each belongs to.
TIERS = {
    "tests/gates": "gates",
    "tests/unit": "unit",
    "tests/service": "service",
    "lab/tests": "lab",
    "tests/lab": "lab",
    "tests/molecule": "molecule",
    "tests/site": "site",
}
#: A fixture of this package boots a machine, so a test that asks for one is slow.
FIXTURES = "tests.fixtures."
#: Every test that pytest has collected, also those that this run leaves out.
collected_tests = pytest.StashKey[list[str]]()
#: The tests that had passed on these sources before a run that is taken up again.
passed_before = pytest.StashKey[set[str]]()


def tier_of(nodeid: str) -> str:
    """Return the tier of a test."""
    return next((tier for folder, tier in TIERS.items() if nodeid.startswith(f"{folder}/")), "other")


def is_everyday(marks: Container[str]) -> bool:
    """True for a test that `make test` runs; takes the names of its markers."""
    return "slow" not in marks or "everyday" in marks


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sets of tests")
    group.addoption("--everyday", action="store_true", help="run what `make test` runs: all but slow tests, and some")
    group.addoption("--all", action="store_true", help="run every test, and end with the table of `make test-all`")
    group.addoption("--tier", default="", help="run the tests of these tiers only, for instance 'gates unit'")
    group.addoption("--resume", action="store_true", help="run only what has not passed on these very sources")


def pytest_configure(config: pytest.Config) -> None:
    unknown = set(config.getoption("tier").split()) - set(TIERS.values())
    if unknown:
        raise pytest.UsageError(
            f"there is no tier {', '.join(sorted(unknown))}; the tiers are {', '.join(dict.fromkeys(TIERS.values()))}"
        )
    if config.getoption("everyday"):
        # A push is judged by what it changes. New examples are for the runs of all tests, which look for new faults.
        os.environ.setdefault("HYPOTHESIS_PROFILE", "same")
    if hasattr(config, "workerinput"):
        config.stash[passed_before] = set(config.workerinput["passed_before"])
    else:
        config.stash[passed_before] = _find_passed() if config.getoption("resume") else set()


def _find_passed() -> set[str]:
    outcomes = Record.of_sources(sources_digest()).outcomes()
    return {nodeid for nodeid, one in outcomes.items() if one.outcome == "passed"}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: pytest.Config) -> None:
    """Give all workers the same list: they must collect the same tests, whatever another run records meanwhile."""
    node.workerinput["passed_before"] = sorted(node.config.stash[passed_before])  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for."""
    config.stash[collected_tests] = [item.nodeid for item in items]
    if not hasattr(config, "workerinput"):  # xdist would not show the sentence of a worker; a gate collects without any
        without_slow = [item for item in items if "slow" not in item.keywords]
        marked = [item for item in without_slow if "everyday" in item.keywords]
        _refuse("boots a machine, so it has to be marked as slow", filter(_uses_machine, without_slow))
        _refuse("is marked as everyday, which only a slow test can be", marked)
    tiers = config.getoption("tier").split()
    dropped = [
        item
        for item in items
        if (config.getoption("everyday") and not is_everyday(item.keywords))
        or (tiers and tier_of(item.nodeid) not in tiers)
        or item.nodeid in config.stash[passed_before]
    ]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        left_out = set(dropped)
        items[:] = [item for item in items if item not in left_out]


def _refuse(why: str, items: Iterable[pytest.Item]) -> None:
    names = [item.nodeid for item in items]
    if names:
        more = f" (and {len(names) - 1} more)" if names[1:] else ""
        raise pytest.UsageError(f"{names[0]} {why}{more}; CONTRIBUTING.md has the rule")


def _uses_machine(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    definitions = item._fixtureinfo.name2fixturedefs
    return any(one.func.__module__.startswith(FIXTURES) for chain in definitions.values() for one in chain)
