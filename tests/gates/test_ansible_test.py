# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-test over a copy of the collection: its sanity tests, and unit tests on the oldest Python there is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from vepyc.paths import locked

pytestmark = pytest.mark.usefixtures("get_pip", "alone")

#: ansible-test takes a process for each unit test, which is most of its time. test_pythons runs all of them on the same
#: Python, so here are the modules and one package of the engine; `make test-all` sets this for the others.
ALL = bool(os.environ.get("ALL_PYTHONS"))
SOME = ("tests/unit/plugins/modules/", "tests/unit/plugins/module_utils/_io/")

STAND_IN = '''\
"""Put pip into an environment without the network: a stand-in for get-pip.py, which ansible-test would download."""
import os
import subprocess
import sys

os.environ.pop("GET_PIP", None)
wanted = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"])
subprocess.check_call([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *wanted])
'''


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """Wait for the runs of other clones: some environments that ansible-test makes are in the home folder, for all."""
    with locked("ansible-test"):
        yield


@pytest.fixture(scope="module")
def get_pip() -> None:
    """Fill the place where ansible-test looks for get-pip.py before it asks a server that may be out of reach."""
    source = distribution("ansible-core").locate_file("ansible_test/_internal/python_requirements.py")
    versions = re.findall(r"pip='([\d.]+)'", Path(str(source)).read_text(encoding="utf-8"))
    assert versions, "this ansible-test names no version of pip where it used to"
    for version in versions:
        cached = Path.home() / f".ansible/test/cache/get_pip_{version.replace('.', '_')}.py"
        ours = STAND_IN.partition("\n")[0]
        if not cached.exists() or cached.read_text(encoding="utf-8").startswith(ours):
            cached.parent.mkdir(parents=True, exist_ok=True)
            cached.write_text(STAND_IN, encoding="utf-8")


@pytest.mark.parametrize("which", [("--exclude", "tests/unit/"), ()], ids=["shipped", "all"])
def test_sanity(run: Callable[..., str], shipped: Path, which: tuple[str, ...]) -> None:
    """The unit tests are for `make test-all`: most lines are theirs, and pylint takes most of the time."""
    if not which and not ALL:
        pytest.skip("ALL_PYTHONS is not set, and ruff reads the unit tests, too")
    run("ansible-test", "sanity", "--venv", "--color", "no", *which, cwd=shipped)


@pytest.mark.parametrize("which", [SOME, ()], ids=["some", "all"])
def test_units(run: Callable[..., str], shipped: Path, pythons: dict[str, str], which: tuple[str, ...]) -> None:
    """As those who publish a collection run them. Managed hosts may have a Python as old as 3.9."""
    if not which and not ALL:
        pytest.skip("ALL_PYTHONS is not set, and test_pythons runs all unit tests on this Python")
    python = next(iter(pythons))
    said = run("ansible-test", "units", "--venv", "--color", "no", "--python", python, *which, cwd=shipped)
    assert said.count(" passed in ") == 2, f"not both the modules and the engine were tested:\n{said}"
