# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run says at its end, what it records of each test, and what makes it fail beside a test that does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from vepyc.figures import Bar, format_figure

from .order import load_seconds, save_seconds, scope_of
from .record import ROOT, Outcome, Record, sources_digest
from .selection import TIERS, collected_tests, is_everyday, tier_of

#: The most that `make test` may cost of the whole.
EVERYDAY_BAR = Bar("<=", 0.25)
#: The share of a run of `make test` beyond which a test is slow.
SLOW_SHARE = 0.01
#: From the worst outcome of a phase of a test to the best one.
WORST_FIRST = ("failed", "skipped", "passed")
MARKS = ("slow", "everyday")


def pytest_configure(config: pytest.Config) -> None:
    """Follow a run in a clone; a copy without git, as that of `make mutants`, has no sources to record for."""
    if not hasattr(config, "workerinput") and not config.option.collectonly and (ROOT / ".git").exists():
        config.pluginmanager.register(Summary(config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have a worker tell which tests it has collected; the process that prints the summary collects none itself."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["collected"] = session.config.stash.get(collected_tests, [])


class Summary:
    """What is known of a run while it goes on."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.record = Record.of_sources(sources_digest())
        #: The outcomes of this run; the record has those of earlier runs on the same sources, too.
        self.outcomes: dict[str, Outcome] = {}
        self.collected: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the phases of a test."""
        before = self.outcomes.get(report.nodeid, Outcome("passed", 0))
        worst = min(before.outcome, report.outcome, key=WORST_FIRST.index)
        marks = tuple(mark for mark in MARKS if mark in report.keywords)
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else before.reason
        self.outcomes[report.nodeid] = Outcome(worst, before.seconds + report.duration, marks, reason)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Keep the outcome; tests of a host that Molecule runs belong to no tier, and the scenario counts."""
        if nodeid in self.outcomes and tier_of(nodeid) in TIERS.values():
            self.record.add(nodeid, self.outcomes[nodeid])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn what there is, in a run without workers."""
        self.collected = session.config.stash.get(collected_tests, [])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Learn what there is from a worker."""
        self.collected = getattr(node, "workeroutput", {}).get("collected", []) or self.collected

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a run in which a test is slow and not marked so, and one of all tests that has left out some unsaid.

        A run that is taken up again when nothing is left has passed.
        """
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.config.option.resume:
            exitstatus = session.exitstatus = pytest.ExitCode.OK
        if exitstatus == pytest.ExitCode.OK and (self._find_unmarked() or self._find_missing()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.config.option.all or self.config.option.everyday:
            seconds = {nodeid: one.seconds for nodeid, one in self.outcomes.items() if one.outcome != "failed"}
            save_seconds(seconds, replace=self.config.option.all)

    def _find_unmarked(self) -> dict[str, float]:
        """Return the tests that took too large a share of a run of the everyday tests and are not marked as slow."""
        total = sum(one.seconds for one in self.outcomes.values())
        if not self.config.option.everyday or self._is_part():
            return {}
        shares = {nodeid: one.seconds / total for nodeid, one in self.outcomes.items() if "slow" not in one.marks}
        return {nodeid: share for nodeid, share in shares.items() if share > SLOW_SHARE}

    def _find_missing(self) -> list[str]:
        """Return the tests of a run of all, or of the tiers that it was asked for, that nothing is known of."""
        if not self.config.option.all:
            return []
        tiers = self.config.option.tier.split()
        known = self.record.outcomes()
        return [test for test in self.collected if test not in known and (not tiers or tier_of(test) in tiers)]

    def _is_part(self) -> bool:
        """True for a run of some files, or of the tests that a pattern fits."""
        whole = self.config.args_source is pytest.Config.ArgsSource.TESTPATHS
        return not whole or bool(self.config.option.keyword or self.config.option.markexpr)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        tell = terminalreporter.write_line
        terminalreporter.section("seconds of each file")
        files: dict[str, float] = defaultdict(float)
        for nodeid, one in self.outcomes.items():
            files[scope_of(nodeid)] += one.seconds
        for scope, seconds in sorted(files.items(), key=lambda pair: -pair[1]):
            tell(f"{seconds:8.1f}  {scope}")
        terminalreporter.section("tiers")
        shown = self.outcomes
        if self.config.option.all:
            there = set(self.collected)
            shown = {nodeid: one for nodeid, one in self.record.outcomes().items() if nodeid in there}
        for line in tier_table(shown, self.collected if self.config.option.all else list(shown)):
            tell(line)
        if self.config.option.all:
            for line in self._tell_whole(shown):
                tell(line)
        if self.config.option.everyday and not self._is_part():
            for line in self._tell_everyday():
                tell(line)

    def _tell_whole(self, known: dict[str, Outcome]) -> Iterator[str]:
        """Say what is left of all tests, what was skipped and why, and what of them `make test` runs."""
        reasons = Counter(one.reason for one in known.values() if one.outcome == "skipped")
        for reason, number in reasons.most_common():
            yield f"{number} skipped: {reason.removeprefix('Skipped: ')}"
        left = Counter(tier_of(test) for test in self.collected if test not in known)
        if left:
            tiers = ", ".join(f"{tier} {number}" for tier, number in left.items())
            yield f"not run yet on these sources: {tiers}; `make test-all RESUME=1` runs them"
        for test, one in known.items():
            if one.outcome == "failed" and test not in self.outcomes:
                yield f"failed in an earlier piece: {test}"
        everyday = sum(one.seconds for one in known.values() if is_everyday(one.marks))
        total = sum(one.seconds for one in known.values())
        yield f"of these {total:.0f} s, `make test` runs {everyday:.0f} s ({everyday / (total or 1):.2f})"

    def _tell_everyday(self) -> Iterator[str]:
        """Say which tests lack the marker `slow`, and what the run has cost beside the last one of all tests."""
        for nodeid, share in self._find_unmarked().items():
            yield f"mark as slow, or make quicker: {nodeid} took {share:.1%} of this run (limit {SLOW_SHARE:.1%})"
        known = load_seconds()
        total = sum(one.seconds for one in self.outcomes.values())
        unknown = [test for test in self.collected if test not in known]
        if unknown:
            yield f"{total:.0f} s of a worker; {len(unknown)} tests never ran here, so the whole is not known"
            return
        whole = sum(known[test] for test in self.collected)
        yield f"{total:.0f} s of a worker; `make test-all` took {whole:.0f} s when it last ran here"
        yield format_figure("everyday_share", total / whole, "of the seconds of make test-all", EVERYDAY_BAR)


def tier_table(outcomes: dict[str, Outcome], tests: list[str]) -> Iterator[str]:
    """Yield a head and a line for each tier: how many tests it has, how they ended, and the seconds of a worker."""
    yield f"{'tier':<10}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}{'not run':>9}{'seconds':>9}"
    for tier in dict.fromkeys([*TIERS.values(), *map(tier_of, tests)]):
        members = [test for test in tests if tier_of(test) == tier]
        ended = [outcomes[test] for test in members if test in outcomes]
        counts = Counter(one.outcome for one in ended)
        numbers = f"{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}{len(members) - len(ended):>9}"
        yield f"{tier:<10}{len(members):>7}{numbers}{sum(one.seconds for one in ended):>9.0f}"
