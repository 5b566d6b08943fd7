# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all unit tests share: settings of hypothesis, and a place for their files.

A busy machine is no fault of the code, so hypothesis does not judge time.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
#: For the everyday tests: the same examples in each run.
settings.register_profile("same", settings.get_profile("untimed"), derandomize=True)
#: For a run beside others that take all examples, such as that of one more Python.
settings.register_profile("few", settings.get_profile("untimed"), max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "untimed"))

# What a test puts into the record of a host is not to be refused because of the umask of whoever runs the tests.
os.umask(0o022)

MEMORY = "/dev/shm"
#: The host with the most CPUs has thousands of files, which take a page each.
ROOM = 1 << 30
HANGING_SECONDS = 120


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, where there is room: to make a host's files on a disk takes most of a test's time.

    It goes with the test. What needs a disk takes its folder from `tmp_path_factory`.
    """
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    with tempfile.TemporaryDirectory(prefix="sovereign-epyc-", dir=MEMORY if roomy else None) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def end_hanging_test() -> Iterator[None]:
    """Fail a test that hangs, as one whose request has lost its timeout; the slowest takes some seconds."""

    def fail(*dummy: object) -> None:
        pytest.fail(f"still running after {HANGING_SECONDS} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANGING_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Do once what each process that ansible-test forks would do again, one for each test and for most of its time.

    That is: find a place for temporary folders and remove those of runs before; copy every page the collector looks at.
    """
    session.config._tmp_path_factory.getbasetemp()
    gc.collect()
    gc.freeze()
