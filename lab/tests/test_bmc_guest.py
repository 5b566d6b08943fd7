# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC in front of a real kernel: what it is told is what the guest gets by a reset, from either side."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from vepyc import Machine, up

from .conftest import cpulist, read
from .redfish import Client


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    there = up("small", name=f"test-bmc-{os.getpid()}", bmc="dell")
    try:
        yield there
    finally:
        there.down()


def shown(machine: Machine) -> dict[str, object]:
    """What the kernel has found of nodes, cores, boost."""
    (nodes,) = read(machine, "/sys/devices/system/node/online").values()
    flags = machine.run("grep -m1 ^flags /proc/cpuinfo").stdout.split()
    return {"nodes": len(cpulist(nodes)), "cpus": int(machine.run("nproc").stdout), "boost": "cpb" in flags}


def test_a_reset_by_the_bmc_gives_the_guest_what_was_pending(machine: Machine) -> None:
    assert shown(machine) == {"nodes": 4, "cpus": 16, "boost": True}
    client = Client(machine.bmc)
    wanted = {"NumaNodesPerSocket": "2", "CcdCores": "1", "SysProfile": "Custom", "ProcTurboMode": "Disabled"}
    assert client.patch(wanted).status == 202
    before = machine.boot_id()
    assert client.reset().status == 204
    machine.wait_for_another_boot(before)
    assert shown(machine) == {"nodes": 2, "cpus": 4, "boost": False}


def test_a_bmc_that_says_new_while_the_kernel_keeps_the_old(machine: Machine) -> None:
    """The R7425 case, here after a reboot from inside: only the kernel shows that nothing has changed."""
    machine.set_faults(os_unchanged=True)
    client = Client(machine.bmc)
    assert client.patch({"NumaNodesPerSocket": "4"}).status == 202
    machine.reboot()
    assert client.get(client.bios)["Attributes"]["NumaNodesPerSocket"] == "4"
    assert client.get(f"{client.manager}/Jobs")["Members@odata.count"] == 2
    assert shown(machine)["nodes"] == 2
