# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How machines live and die: power, processes and files. Each test has a machine of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

import pytest

from vepyc import SHAPES, GuestError, Machine, VepycError, up
from vepyc.guest import RELEASES
from vepyc.rundir import RunDir
from vepyc.snapshot import take_snapshot

from .conftest import check_l3_domains, check_schemata, hwcr, machine_of, msrs


def processes(machine: Machine) -> list[int]:
    """The machine's supervisor and QEMU."""
    supervisor = int(machine.run_dir.pid.read_text())
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return [supervisor, *map(int, children)]


def gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be collected by its parent has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 30
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if not gone(pid)]}"
        time.sleep(0.1)


# Power


def test_a_reboot_comes_back_as_the_same_epyc(own_small: Machine) -> None:
    before = own_small.run("cat /proc/sys/kernel/random/boot_id").stdout
    own_small.run("sed -i 's/quiet/quiet hugepages=8/' /etc/default/grub && update-grub")
    msrs(own_small, {0xC0000108: 0x20})
    own_small.reboot()
    assert own_small.run("cat /proc/sys/kernel/random/boot_id").stdout != before
    assert "Loading Linux" in own_small.console.read_text(errors="replace")
    assert "hugepages=8" in own_small.run("cat /proc/cmdline").stdout.split()
    assert own_small.run("hostname").stdout == own_small.name + "\n"
    check_l3_domains(own_small)
    check_schemata(own_small)
    assert hwcr(own_small) == [1 << 24] * 16
    assert msrs(own_small, {0xC0000108: 0x20}) == {0xC0000108: [0x20 + cpu for cpu in range(16)]}


def test_a_power_cut_keeps_what_was_synced(own_small: Machine) -> None:
    own_small.run("echo kept > /root/kept && sync")
    own_small.kill()
    assert own_small.run("cat /root/kept").stdout == "kept\n"
    check_schemata(own_small)


def test_a_poweroff_in_the_guest_ends_the_machine() -> None:
    with machine_of("small", "off") as machine:
        pids = processes(machine)
        with contextlib.suppress(GuestError):
            machine.run("systemctl poweroff")
        wait_until_gone(pids)
        assert not machine.run_dir.path.exists()


# Processes and files on the host


def test_down_leaves_nothing() -> None:
    with machine_of("small", "brief") as machine:
        pids = processes(machine)
    wait_until_gone(pids)
    assert not machine.run_dir.path.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", machine.port), timeout=5)


def test_a_killed_supervisor_leaves_no_qemu() -> None:
    name = f"test-orphan-{os.getpid()}"
    machine = up("small", name=name)
    pids = processes(machine)
    assert len(pids) == 2
    os.kill(pids[0], 9)
    wait_until_gone(pids)
    assert not RunDir.of(name).alive()
    with pytest.raises(VepycError, match="is not running"):
        Machine.find(name)
    # The directory it left does not stop the next one.
    up("small", name=name).down()
    assert not machine.run_dir.path.exists()


# Snapshots


def test_a_machine_out_of_a_snapshot_cannot_make_one(own_small: Machine) -> None:
    with pytest.raises(VepycError, match="came out of a snapshot itself; start it with --cold"):
        take_snapshot(own_small, SHAPES["small"], RELEASES["6.12"], replace=True)
