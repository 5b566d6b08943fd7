# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run ends with the seconds of each file and tier. And an order in which two workers end at about the same time."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from vepyc.paths import home

#: Fixtures that give something expensive, for all tiers.
pytest_plugins = ["tests.fixtures.containers", "tests.fixtures.gateways", "tests.fixtures.rolling"]

TIERS = {
    "tests/gates": "gates",
    "tests/unit": "unit",
    "tests/service": "service",
    "lab/tests": "lab",
    "tests/lab": "lab",
    "tests/molecule": "molecule",
}
#: Where a run of all tests leaves the seconds of each file, for the order of the next run.
SECONDS = home() / "seconds.json"
#: What to expect of files that no run has left seconds of.
GUESSES = {
    "tests/lab/test_site.py": 400,  # saves the state of a tuned machine, from which others start
    "tests/lab/test_fleet.py": 300,
    "tests/lab/test_whole_host.py": 300,
    "tests/lab/test_llama.py": 300,
    "tests/gates/test_ansible_test.py": 300,
    "tests/gates/test_pythons.py": 200,
    "tests/molecule/test_scenarios.py::test_scenario[layers]": 300,
    "tests/molecule/": 150,
    "tests/service/": 100,
    "lab/tests/": 100,
    "tests/lab/": 100,
    "tests/gates/": 50,
    "tests/unit/plugins/callback/test_drift.py": 30,
}


class ByMachine(LoadScopeScheduling):  # type: ignore[misc]
    """A file shares its machines, so one worker has it whole; so does a Molecule scenario that is run by itself."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    return nodeid if nodeid.startswith("tests/molecule/") else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByMachine:
    return ByMachine(config, log)


def recorded() -> dict[str, float]:
    return dict(json.loads(SECONDS.read_text())) if SECONDS.exists() else {}


def pytest_configure_node(node: Any) -> None:
    """Give the workers one order, whoever writes the file meanwhile."""
    node.workerinput["seconds"] = recorded()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest first: a worker that begins with minutes when the other has ended leaves that one idle."""
    known = config.workerinput["seconds"] if hasattr(config, "workerinput") else recorded()

    def expected(scope: str) -> float:
        guess = next((seconds for start, seconds in GUESSES.items() if scope.startswith(start)), 0)
        return float(known.get(scope, guess))

    items.sort(key=lambda item: expected(scope_of(item.nodeid)), reverse=True)


def tier_of(nodeid: str) -> str:
    return next((tier for folder, tier in TIERS.items() if nodeid.startswith(f"{folder}/")), "other")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    if hasattr(config, "workerinput"):
        return  # a worker knows of its half only
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    tiers: Counter[str] = Counter()
    scopes: Counter[str] = Counter()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if isinstance(report, (pytest.TestReport, pytest.CollectReport)):
                tier = tier_of(report.nodeid)
                seconds = getattr(report, "duration", 0)
                tiers[tier] += seconds
                scopes[scope_of(report.nodeid)] += seconds
                if outcome:  # set-up and tear-down that went well are filed under no name
                    outcomes[tier][outcome] += 1
    terminalreporter.section("seconds of each file")
    for scope, spent in scopes.most_common():
        terminalreporter.write_line(f"{spent:8.1f}  {scope}")
    terminalreporter.section("tiers")
    for tier in dict.fromkeys([*TIERS.values(), *outcomes]):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes[tier].items()) or "no test ran"
        terminalreporter.write_line(f"{tier:<10}{counts} ({tiers[tier]:.0f} s)")
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not terminalreporter.stats.get(
        "deselected"
    )
    if everything and exitstatus == pytest.ExitCode.OK:
        new = SECONDS.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({scope: round(spent, 1) for scope, spent in scopes.most_common()}, indent=0))
        new.rename(SECONDS)
