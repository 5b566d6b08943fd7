# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How machines live and die: power, processes and files, and the states that are saved of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from vepyc import SHAPES, GuestError, Machine, Preparation, VepycError, start_machine
from vepyc.images.guest_image import image_dir
from vepyc.images.guest_system import RELEASES
from vepyc.machine.run_directory import RunDirectory
from vepyc.machine.saved_states import prepared_dir
from vepyc.machine.start import start_again

from .conftest import check_l3_domains, check_schemata, machine_of, read_hwcr, wait_while, write_and_read_msrs

pytestmark = pytest.mark.slow


def machine_processes(machine: Machine) -> list[int]:
    """The machine's supervisor and QEMU."""
    supervisor = int(machine.run_dir.pid.read_text())
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return [supervisor, *map(int, children)]


def has_ended(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be collected by its parent has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids: list[int]) -> None:
    wait_while(lambda: [pid for pid in pids if not has_ended(pid)])


# Power


def test_a_power_cut_comes_back_as_the_same_epyc_with_what_was_synced(own_small: Machine) -> None:
    """A boot like any other. tests/lab has many a reboot, and what GRUB is told before one."""
    before = own_small.run("cat /proc/sys/kernel/random/boot_id").stdout
    write_and_read_msrs(own_small, {0xC0000108: 0x20})
    own_small.run("echo kept > /root/kept && sync")
    own_small.power_cycle()
    assert own_small.run("cat /proc/sys/kernel/random/boot_id").stdout != before
    assert own_small.run("cat /root/kept").stdout == "kept\n"
    assert "Loading Linux" in own_small.console.read_text(errors="replace")
    assert own_small.run("hostname").stdout == own_small.name + "\n"
    check_l3_domains(own_small)
    check_schemata(own_small)
    assert read_hwcr(own_small) == [1 << 24] * 16
    assert write_and_read_msrs(own_small, {0xC0000108: 0x20}) == {0xC0000108: [0x20 + cpu for cpu in range(16)]}


def test_a_poweroff_in_the_guest_ends_the_machine(own_small: Machine) -> None:
    pids = machine_processes(own_small)
    with contextlib.suppress(GuestError):
        own_small.run("systemctl poweroff")
    wait_until_gone(pids)
    assert not own_small.run_dir.path.exists()


def test_a_machine_that_was_stopped_or_killed_starts_from_the_disk_that_it_had() -> None:
    """The end of the computer below kills its supervisor, too."""
    name = f"test-stopped-{os.getpid()}"
    machine = start_machine("small", name=name)
    try:
        pids = machine_processes(machine)
        machine.run("echo kept >/root/kept")
        machine.shut_down()
        wait_until_gone(pids)
        with pytest.raises(VepycError, match=f"boot it with: vepyc start {name}"):
            start_machine("small", name=name)
        again = start_again(name)
        assert again.run("cat /root/kept /etc/hostname").stdout.split() == ["kept", name]
        check_l3_domains(again)
        again.run("sync")
        pids = machine_processes(again)
        os.kill(pids[0], 9)
        wait_until_gone(pids)
        assert start_again(name).run("cat /root/kept").stdout == "kept\n"
        assert start_again(name).port == machine.port
    finally:
        RunDirectory.of_machine(name).end_and_remove()
    with pytest.raises(VepycError, match=r"no machine .* that could be started again"):
        start_again(name)


# Processes and files on the host


def test_down_leaves_nothing() -> None:
    with machine_of("small", "brief") as machine:
        pids = machine_processes(machine)
    wait_until_gone(pids)
    assert not machine.run_dir.path.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", machine.port), timeout=5)


def test_a_killed_supervisor_leaves_no_qemu() -> None:
    name = f"test-orphan-{os.getpid()}"
    machine = start_machine("small", name=name)
    pids = machine_processes(machine)
    assert len(pids) == 2
    os.kill(pids[0], 9)
    wait_until_gone(pids)
    assert not RunDirectory.of_machine(name).is_alive()
    with pytest.raises(VepycError, match="is not running"):
        Machine.find_running(name)
    # The process that holds ssh's connection ends a moment later; one that ends during a call adds a line of its own.
    wait_while((machine.run_dir.path / "ssh.sock").exists)
    with pytest.raises(GuestError, match=r"ssh failed: .*; test-orphan-\d+ was killed; the end of its log:"):
        machine.run("true")
    # The directory it left does not stop the next one.
    start_machine("small", name=name).discard()
    assert not machine.run_dir.path.exists()


# Prepared states


def test_a_prepared_machine_starts_where_the_first_one_was_when_it_was_saved() -> None:
    def prepare(machine: Machine) -> None:
        machine.run("echo prepared >/root/prepared; sleep 1000 >/dev/null 2>&1 & echo $! >/root/pid")

    preparation = Preparation(f"test{os.getpid()}", "one", prepare)
    saved = prepared_dir(SHAPES["small"], RELEASES["6.12"], preparation)
    try:
        with machine_of("small", "maker", prepared=preparation) as maker:
            maker.run("echo later >/root/later")
        with machine_of("small", "user", prepared=preparation) as user:
            assert user.run("cat /root/prepared /etc/hostname").stdout.split() == ["prepared", user.name]
            user.run("test ! -e /root/later && grep -x sleep /proc/$(cat /root/pid)/comm")
        # It outlives the snapshot that it began with.
        info = ["qemu-img", "info", "--output=json", str(saved / "disk.qcow2")]
        disk = json.loads(subprocess.run(info, check=True, capture_output=True).stdout)
        assert disk["full-backing-filename"] == str(image_dir(RELEASES["6.12"]) / "disk.raw")
    finally:
        shutil.rmtree(saved, ignore_errors=True)
