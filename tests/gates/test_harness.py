# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sets of tests of `make test` and `make test-all`, in a small tree of tests with the same harness."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vepyc import playbook_runs

from .conftest import ROOT

pytestmark = pytest.mark.slow

SETTINGS = """
[tool.pytest.ini_options]
testpaths = ["tests/unit", "tests/lab"]
addopts = ["--import-mode=importlib"]
markers = ["slow", "everyday"]
"""
CONFTEST = 'pytest_plugins = ["tests.harness.selection", "tests.harness.order", "tests.harness.summary"]\n'
UNIT = "import time\n\ndef test_quick():\n    time.sleep({seconds})\n"
LAB = """
import pytest

@pytest.mark.slow
@pytest.mark.everyday
def test_boot():
    import time
    time.sleep(2)

@pytest.mark.slow
def test_power_cut():
    pass

@pytest.mark.slow
@pytest.mark.skip(reason="there is no second machine here")
def test_fleet():
    pass
"""


class Tree:
    """A clone with a few tests; what is run there is recorded there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tests").mkdir()
        (folder / "tests/harness").symlink_to(ROOT / "tests/harness")
        (folder / ".gitignore").write_text("__pycache__\n.pytest_cache\n/lab\n")
        for name, text in (("pyproject.toml", SETTINGS), ("conftest.py", CONFTEST)):
            (folder / name).write_text(text)
        self.write("unit", UNIT.format(seconds=0))
        self.write("lab", LAB)
        self.git("init", "-q")
        self.commit()

    def write(self, tier: str, text: str) -> None:
        (self.folder / "tests" / tier).mkdir(exist_ok=True)
        (self.folder / "tests" / tier / f"test_{tier}.py").write_text(text)

    def git(self, *arguments: str) -> None:
        author = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", *author, *arguments], cwd=self.folder, check=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "tests")

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run pytest with two workers, as the Makefile does; return its exit code and what it printed."""
        workers = ("-n", "2", "--dist", "loadscope", "--no-loadscope-reorder")
        done = playbook_runs.run_command(
            *("pytest", *workers, *arguments),
            cwd=self.folder,
            PYTHONPATH=f"{ROOT}/lab:{self.folder}",
            PYTHONDONTWRITEBYTECODE="1",
            VEPYC_HOME=str(self.folder / "lab"),
        )
        return done.returncode, done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_everyday_leaves_slow_tests_out_and_tells_what_it_costs_beside_the_whole(tree: Tree) -> None:
    code, output = tree.run("--everyday")
    assert code == 0 and "2 passed" in output, output
    assert "2 tests never ran here" in output
    assert tree.run("--all")[0] == 0
    code, output = tree.run("--everyday")
    assert code == 0 and "figure everyday_share" in output, output


def test_a_test_that_takes_long_and_is_not_marked_fails_the_run(tree: Tree) -> None:
    tree.write("unit", UNIT.format(seconds=0.5))
    code, output = tree.run("--everyday")
    assert code == 1 and "mark as slow, or make quicker: tests/unit/test_unit.py::test_quick took " in output, output


def test_the_whole_is_taken_up_where_it_was_cut_and_ends_with_a_table_of_all_tiers(tree: Tree) -> None:
    tree.write("unit", "def test_quick():\n    assert False\n\ndef test_other():\n    pass\n")
    code, output = tree.run("--all", "--tier", "unit")
    assert code == 1 and "1 failed, 1 passed" in output, output
    assert "not run yet on these sources: lab 3" in output
    tree.write("unit", "def test_quick():\n    pass\n\ndef test_other():\n    pass\n")
    tree.commit()
    assert "2 passed" in tree.run("--all", "--tier", "unit")[1]
    code, output = tree.run("--all", "--resume")
    assert code == 0 and "2 passed, 1 skipped" in output, output
    rows = [line.split() for line in output.splitlines() if line.startswith(("unit ", "lab "))]
    assert [row[:6] for row in rows] == [["unit", "2", "2", "0", "0", "0"], ["lab", "3", "2", "0", "1", "0"]]
    assert "1 skipped: there is no second machine here" in output
    assert "not run yet" not in output
    tree.write("lab", LAB.partition("@pytest.mark.slow\n@pytest.mark.skip")[0])
    tree.commit()
    assert tree.run("--all")[0] == 0
    assert tree.run("--all", "--resume")[0] == 0, "nothing is left"


def test_a_failure_of_an_earlier_piece_is_not_forgotten(tree: Tree) -> None:
    tree.write("unit", "def test_quick():\n    assert False\n")
    tree.commit()
    assert tree.run("--all", "--tier", "unit")[0] == 1
    code, output = tree.run("--all", "--tier", "lab")
    assert code == 0 and "failed in an earlier piece: tests/unit/test_unit.py::test_quick" in output, output
    assert tree.run("--all", "--resume")[0] == 1


def test_a_marker_that_contradicts_the_rule_and_a_tier_that_is_not_there_are_refused(tree: Tree) -> None:
    code, output = tree.run("--all", "--tier", "moon")
    assert code == 4 and "there is no tier moon; the tiers are gates, unit" in output, output
    tree.write("lab", "import pytest\n\n@pytest.mark.everyday\ndef test_boot():\n    pass\n")
    code, output = tree.run("--everyday", "-n", "0")
    assert code == 4 and "is marked as everyday, which only a slow test can be" in output, output
