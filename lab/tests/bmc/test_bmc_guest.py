# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC in front of a real kernel: what it is told is what the guest gets by a reset.

A reboot from inside, and a BMC that says what the kernel does not show, are in tests/lab/test_bios_play.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from vepyc import Machine, start_machine

from ..conftest import parse_cpulist, read_files
from .redfish_client import Client

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    there = start_machine("small", name=f"test-bmc-{os.getpid()}", bmc="dell")
    try:
        yield there
    finally:
        there.discard()


def shown(machine: Machine) -> dict[str, object]:
    """What the kernel has found of nodes, cores, boost."""
    (nodes,) = read_files(machine, "/sys/devices/system/node/online").values()
    flags = machine.run("grep -m1 ^flags /proc/cpuinfo").stdout.split()
    return {"nodes": len(parse_cpulist(nodes)), "cpus": int(machine.run("nproc").stdout), "boost": "cpb" in flags}


def test_a_reset_by_the_bmc_gives_the_guest_what_was_pending(machine: Machine) -> None:
    assert shown(machine) == {"nodes": 4, "cpus": 16, "boost": True}
    client = Client(machine.bmc_access)
    wanted = {"NumaNodesPerSocket": "2", "CcdCores": "1", "SysProfile": "Custom", "ProcTurboMode": "Disabled"}
    assert client.patch(wanted).status == 202
    before = machine.boot_count
    assert client.reset().status == 204
    machine.wait_for_another_boot(before)
    assert shown(machine) == {"nodes": 2, "cpus": 4, "boost": False}
