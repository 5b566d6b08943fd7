# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machines that the tests on virtual EPYCs share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .guests import STORE, Guest, guest_of
from .states import RECIPE, TUNED

CLEAN = """
umount /sys/fs/resctrl
for online in $(grep -lx 0 /sys/devices/system/cpu/cpu*/online); do echo 1 >$online; done
rm -rf /var/lib/sovereign-epyc
"""


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Callable[..., Guest]]:
    """Start new machines for one test."""
    with contextlib.ExitStack() as stack:

        def boot(shape: str, name: str, kernel: str = "6.12") -> Guest:
            return stack.enter_context(guest_of(shape, name, tmp_path, kernel))

        yield boot


def name_of(request: pytest.FixtureRequest) -> str:
    """The name of the machine of a file of tests."""
    return Path(request.node.name).stem.removeprefix("test_").replace("_", "-")


@pytest.fixture(scope="session")
def shared_small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """The small machine that several files of tests share, one for each process of pytest."""
    with guest_of("small", f"shared-{os.getpid()}", tmp_path_factory.mktemp("small")) as guest:
        guest.carry_modules()
        yield guest


@pytest.fixture(scope="module")
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """The small machine for a file of tests alone."""
    with guest_of("small", name_of(request), tmp_path_factory.mktemp("small")) as guest:
        guest.carry_modules()
        yield guest


@pytest.fixture(scope="module")
def tuned_small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """The small machine as site.yml leaves it, for a file of tests alone; its boot parameters wait for a reboot."""
    with guest_of("small", name_of(request), tmp_path_factory.mktemp("small"), prepared=TUNED) as guest:
        guest.carry_modules()
        yield guest


@pytest.fixture(scope="module")
def rebooted_small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """The small machine as site.yml and a reboot leave it with the recipe's variables, for a file of tests alone."""
    with guest_of("small", name_of(request), tmp_path_factory.mktemp("small"), prepared=RECIPE) as guest:
        guest.carry_modules()
        yield guest


@pytest.fixture
def guest(shared_small: Guest) -> Iterator[Guest]:
    """The shared machine. A test must put back what it changes, but for what CLEAN does."""
    yield shared_small
    shared_small.run(CLEAN, check=False)


@pytest.fixture
def own_guest(small: Guest) -> Iterator[Guest]:
    """The same for files whose tests leave more behind than that, such as a taint flag."""
    yield small
    small.run(CLEAN, check=False)


@pytest.fixture
def guest_put_back(own_guest: Guest) -> Iterator[Guest]:
    """After each test it must be as before the first one, except for the taint flag and the folder of the record.

    To look at everything takes seconds, so it is done once a test; and before one that follows on a failure.
    """
    first = own_guest.first or own_guest.everything()
    expected = {"/proc/sys/kernel/tainted", f"{STORE}/"}
    own_guest.left = lambda: own_guest.changed_since(first).keys() - expected
    own_guest.first = {}
    yield own_guest
    assert own_guest.left() == set()
    own_guest.first = first
