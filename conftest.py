# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tiers: the run ends with one line for each. And an order in which two workers end at about the same time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TIERS = {
    "tests/gates": "gates",
    "tests/unit": "unit",
    "tests/service": "service",
    "lab/tests": "lab",
    "tests/lab": "lab",
    "tests/molecule": "molecule",
}
# What takes minutes, longest first. The worker with the last of them would leave the other one idle, so what takes
# seconds comes after them.
LONG = (
    "tests/service/",  # a llama.cpp that is not in the cache is built first
    "tests/lab/test_site.py",  # saves the state of a tuned machine, from which others start
    "tests/lab/test_fleet.py",
    "tests/lab/test_whole_host.py",
    "tests/lab/test_llama.py",
    "tests/gates/test_ansible_test.py",
    "tests/molecule/",
    "lab/tests/",
    "tests/lab/test_reboot_play.py",
    "tests/lab/test_verify_play.py",
    "tests/lab/test_recipe.py",
    "tests/lab/test_faults.py",
    "tests/lab/",
    "tests/gates/",
)


class ByMachine(LoadScopeScheduling):  # type: ignore[misc]
    """A file shares its machines, so one worker has it whole; every Molecule scenario has a machine of its own."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith("tests/molecule/") else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByMachine:
    return ByMachine(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: next((places[name] for name in LONG if item.nodeid.startswith(name)), len(LONG)))


def tier_of(nodeid: str) -> str:
    return next((tier for folder, tier in TIERS.items() if nodeid.startswith(f"{folder}/")), "other")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if isinstance(report, (pytest.TestReport, pytest.CollectReport)):
                tier = tier_of(report.nodeid)
                seconds[tier] += getattr(report, "duration", 0)
                if outcome:  # set-up and tear-down that went well are filed under no name
                    outcomes[tier][outcome] += 1
    terminalreporter.section("tiers")
    for tier in dict.fromkeys([*TIERS.values(), *outcomes]):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes[tier].items()) or "no test ran"
        terminalreporter.write_line(f"{tier:<10}{counts} ({seconds[tier]:.0f} s)")
