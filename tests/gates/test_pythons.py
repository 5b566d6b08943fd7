# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit tests on other Pythons of a managed host, with the oldest ansible-core, and how much they reach.

The pytest run itself has the clone's Python.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from vepyc.venvs import OLDEST_CORE, OTHER_VERSIONS, OWN_VERSION, ensure_unit_test_programs, oldest_and_newest

from .conftest import ROOT, Run

pytestmark = pytest.mark.slow

TESTS = "tests/unit/plugins"
#: What runs on the hosts.
ENGINE = f"{TESTS}/module_utils"
#: What runs on the controller.
PLUGINS = tuple(f"{TESTS}/{kind}" for kind in ("action", "callback", "lookup", "plugin_utils"))
#: The pytest of the clone's own pyproject.toml, which would bring the clone's engine into the path.
PYTEST = (
    *("pytest", "-q", "-c", os.devnull, "--rootdir=.", "--import-mode=importlib", "--strict-markers"),
    *("-o", "markers=slow\neveryday"),
)
#: No word of skipped ones.
PASSED = re.compile(r"^\d+ passed in ", re.MULTILINE)


@pytest.fixture(scope="module")
def tree(installed: Path) -> Path:
    """The collection as users install it, with the unit tests."""
    shutil.copytree(ROOT / "tests/unit", installed / "tests/unit", ignore=shutil.ignore_patterns("__pycache__"))
    return installed


@pytest.fixture(scope="module")
def measured(pythons: dict[str, str]) -> str:
    """The Python whose run is measured: that of another test if there is one, as a run of its own costs a minute.

    The oldest, because coverage costs more from 3.12 on, or cannot see branches there.
    """
    return next(iter(oldest_and_newest(pythons)), OWN_VERSION)


@pytest.fixture(scope="module")
def tested(
    tree: Path,
    measured: str,
    pythons: dict[str, str],
    run: Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Run]:
    """Run the library's unit tests on a Python, once; return a function that runs more programs in the same place.

    With Ansible's module_utils of the controller, as a play brings them to a host.
    """
    (ansible,) = find_spec("ansible").submodule_search_locations  # type: ignore[union-attr,misc]
    controller = tmp_path_factory.mktemp("controller")
    (controller / "ansible").symlink_to(ansible)
    variables = {
        "PYTHONPATH": os.pathsep.join([str(tree.parents[2]), str(controller)]),
        "COVERAGE_RCFILE": str(ROOT / "pyproject.toml"),
        # All examples of random input are for the clone's own Python.
        "HYPOTHESIS_PROFILE": "few",
    }
    begun = set[str]()

    @functools.cache
    def tested(version: str) -> Run:
        if version in begun:
            pytest.fail(f"the unit tests fail on Python {version}, as another test here shows", pytrace=False)
        begun.add(version)
        programs = ensure_unit_test_programs(python=pythons[version])
        here = functools.partial(run, str(programs / "python"), "-m", cwd=tree, env=variables)
        said = here(*(["coverage", "run", "-m"] if version == measured else []), *PYTEST, ENGINE)
        assert PASSED.search(said), said
        return here

    return tested


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_a_host_may_have_this_python(version: str, pythons: dict[str, str], tested: Callable[[str], Run]) -> None:
    if version not in pythons:
        pytest.skip(f"there is no Python {version} on this machine")
    tested(version)


def test_unit_tests_alone_reach_the_engine(measured: str, tested: Callable[[str], Run]) -> None:
    """The limit is in pyproject.toml; a failure shows the lines that are missed."""
    tested(measured)("coverage", "report")


def test_the_oldest_core(run: Run) -> None:
    """On the controller: the plugins, and every playbook with all that it speaks of."""
    programs = ensure_unit_test_programs(OLDEST_CORE)
    said = run(str(programs / "python"), "-m", "pytest", "-q", *PLUGINS)
    assert PASSED.search(said), said
    playbooks = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("playbooks/*.yml"))
    command = [str(programs / "ansible-playbook"), "--syntax-check", "-i", "inventories/example", *playbooks]
    assert run(*command).count("playbook: ") == len(playbooks)
