# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One test for each tool that reads the sources and judges them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vepyc.paths import ensure_directory, hold_lock

PLUGINS = ".collections/ansible_collections/sovereign/epyc/plugins"


def test_ruff_check(run: Callable[..., str]) -> None:
    run("ruff", "check", "--output-format=concise")


def test_ruff_format(run: Callable[..., str]) -> None:
    run("ruff", "format", "--check", "--diff")


def run_mypy(run: Callable[..., str], python: str, *paths: str) -> None:
    """Run mypy with a cache that a new clone shares with those before. It holds hashes, so other sources do no harm."""
    with hold_lock("mypy"):
        run("mypy", f"--cache-dir={ensure_directory('mypy')}", f"--python-version={python}", *paths)


@pytest.mark.slow
@pytest.mark.everyday
def test_mypy_plugins(run: Callable[..., str]) -> None:
    run_mypy(run, "3.10", PLUGINS)  # the oldest that mypy knows; ansible-test compiles for 3.9


@pytest.mark.slow
@pytest.mark.everyday
def test_mypy_tools(run: Callable[..., str]) -> None:
    sources = ("lab/vepyc", "tools", "tests/fixtures", "tests/gates", "tests/harness", "tests/replay", "conftest.py")
    run_mypy(run, "3.11", *sources)


def test_yamllint(run: Callable[..., str]) -> None:
    run("yamllint", "--strict", ".")


@pytest.mark.slow
@pytest.mark.everyday
def test_ansible_lint(run: Callable[..., str]) -> None:
    run("ansible-lint", "--nocolor")


@pytest.mark.slow
@pytest.mark.everyday
def test_antsibull_changelog(run: Callable[..., str]) -> None:
    run("antsibull-changelog", "lint")


@pytest.mark.slow
@pytest.mark.everyday
def test_antsibull_docs(run: Callable[..., str]) -> None:
    run("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", ".")
