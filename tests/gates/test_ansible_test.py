# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-test over a copy of the collection: its sanity tests, and unit tests on the oldest Python there is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from vepyc.paths import hold_lock

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("get_pip", "alone")]

#: The sanity tests that no other tool of `make test` stands in for, and that take seconds.
QUICK = ("validate-modules", "compile", "empty-init", "no-illegal-filenames", "ignores", "runtime-metadata")

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
    with hold_lock("ansible-test"):
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


@pytest.mark.everyday
def test_sanity_of_modules(run: Callable[..., str], shipped: Path) -> None:
    chosen = [word for test in QUICK for word in ("--test", test)]
    run("ansible-test", "sanity", "--venv", "--color", "no", *chosen, "--exclude", "tests/unit/", cwd=shipped)


def test_sanity(run: Callable[..., str], shipped: Path) -> None:
    """All sanity tests of all files; pylint and the lines of the unit tests take most of the time."""
    run("ansible-test", "sanity", "--venv", "--color", "no", cwd=shipped)


def test_units(run: Callable[..., str], shipped: Path, pythons: dict[str, str]) -> None:
    """As those who publish a collection run them. Managed hosts may have a Python as old as 3.9.

    ansible-test takes a process for each unit test, which is most of its time.
    """
    python = next(iter(pythons))
    said = run("ansible-test", "units", "--venv", "--color", "no", "--python", python, cwd=shipped)
    assert said.count(" passed in ") == 2, f"not both the modules and the library were tested:\n{said}"
