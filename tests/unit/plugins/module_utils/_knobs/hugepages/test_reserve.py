# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What pools of huge pages leave to the system: a public host of 128 GB had 76 MiB left, and did not boot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.survey import Survey
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD, NODES, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import hugepages
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import knob as boot_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.hugepages.knob import HugePages, pool_address
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import boot_service
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist import Checklist
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.memory_item import (
    list_items_on_memory_beside_huge_pages,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

GIB_IN_KB = 1 << 20
#: A host of 128 GB, whose kernel shows 125 GiB.
TOTAL_GIB = 125


class Machine:
    """A host of one node with pools of 1 GiB pages, whose system holds some of its memory."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.build(root, l3_per_socket=4, cores_per_l3=4, nodes=1)
        self.tree.put(f"{NODES}/node0/meminfo", f"Node 0 MemTotal: {TOTAL_GIB << 20} kB\nNode 0 MemFree: 1 kB")
        self.hold(gib=4)

    def hold(self, gib: float, pages: int = 0) -> None:
        """Have the system hold this much, and the pool this many pages."""
        available = int((TOTAL_GIB - gib - pages) * GIB_IN_KB)
        self.tree.put(
            "/proc/meminfo",
            f"MemTotal: {TOTAL_GIB << 20} kB\nMemAvailable: {available} kB\nHugetlb: {pages * GIB_IN_KB} kB",
        )
        for name, number in (("nr", pages), ("free", pages), ("surplus", 0), ("resv", 0)):
            self.tree.put(f"{hugepages.SIZES}/hugepages-{GIB_IN_KB}kB/{name}_hugepages", number)
            self.tree.put(hugepages.pool_file_path(0, GIB_IN_KB, f"{name}_hugepages"), number)

    def knob(self, pages: int, stored: bool = False, **options: Any) -> HugePages:
        host = Host(self.tree.fs, stored=stored)
        return HugePages(host, {"pools": [{"size": "1GiB", "pages": pages}], **options})


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# Pools of the running kernel


def test_what_the_system_holds_counts_beside_the_reserve(machine: Machine) -> None:
    """Of 125 GiB, 95 % are 118; the system holds 4 of them, and 5 % are left beside that."""
    assert machine.knob(114).wanted_settings()
    with pytest.raises(BadRequest) as caught:
        machine.knob(118).wanted_settings()
    assert str(caught.value) == (
        "118 GiB more in huge pages would leave 3 GiB of 125 GiB to the system, and 5 % must be left (option reserve), "
        "6400 MiB. Only 121 GiB are available: the kernel, its drivers and running services hold the rest. Ask for "
        "fewer pages, or stop what uses the memory."
    )


def test_pools_that_are_there_are_no_growth(machine: Machine) -> None:
    machine.hold(gib=10, pages=114)
    assert machine.knob(114).wanted_settings() == {pool_address(0, GIB_IN_KB): "114"}
    assert machine.knob(100).wanted_settings()
    with pytest.raises(BadRequest, match=r"^1 GiB more in huge pages would leave 0 B of 125 GiB"):
        machine.knob(115).wanted_settings()


def test_a_stored_request_is_judged_and_refused_when_it_is_written(machine: Machine) -> None:
    """A drift check of pools that somebody took away must say so, whatever uses the memory now."""
    machine.hold(gib=60)
    knob = machine.knob(100, stored=True)
    address = pool_address(0, GIB_IN_KB)
    assert knob.wanted_settings() == {address: "100"}
    with pytest.raises(BadRequest, match="100 GiB more in huge pages would leave 0 B"):
        knob.write_changes([Change(address, "0", "100")])
    assert machine.tree.fs.read(hugepages.pool_file_path(0, GIB_IN_KB, "nr_hugepages")) == "0"


def test_an_undo_gives_back_whatever_is_left_then(machine: Machine) -> None:
    machine.hold(gib=60)
    HugePages(Host(machine.tree.fs), {}).write_changes([Change(pool_address(0, GIB_IN_KB), "0", "64")])
    assert machine.tree.fs.read(hugepages.pool_file_path(0, GIB_IN_KB, "nr_hugepages")) == "64"


# Pools of the boot


class Loader:
    """A boot loader with these settings."""

    def __init__(self, **settings: str) -> None:
        self.settings = settings

    def read_configured_settings(self) -> dict[str, str]:
        return self.settings

    def list_parameters_by_entry(self) -> list[list[str]]:
        return [[]]


def ask_boot(machine: Machine, pages: int, **configured: str) -> dict[str, str | None]:
    options = {"parameters": ["hugepagesz=1G", f"hugepages={pages}"]}
    loader: Any = Loader(**configured)
    return boot_knob.CommandLine(Host(machine.tree.fs), options, find=lambda fs: loader).wanted_settings()


def test_the_boot_has_a_floor_beside_what_the_system_holds(machine: Machine) -> None:
    """Without what is held, 121 pages leave 1/32 of the memory; with it they leave the system 76 MiB."""
    machine.hold(gib=3.925)
    assert ask_boot(machine, 117)
    with pytest.raises(BadRequest) as caught:
        ask_boot(machine, 121)
    assert str(caught.value) == (
        "The huge pages would take 123904 MiB of the 128000 MiB of this host, of which kernel, drivers and running "
        "services hold 4019 MiB, and less than 4000 MiB would be left to boot with. Ask for fewer, at most 119980 MiB."
    )


def test_pages_that_the_next_boot_has_already_are_not_refused(machine: Machine) -> None:
    """What services hold changes all the time, and a run that changes nothing must not fail for it."""
    machine.hold(gib=5, pages=119)
    assert ask_boot(machine, 119, hugepages="hugepagesz=1G hugepages=119")
    with pytest.raises(BadRequest, match="services hold 5120 MiB"):
        ask_boot(machine, 119)


def test_what_our_instances_hold_may_be_in_the_pages_later(machine: Machine) -> None:
    machine.hold(gib=84)
    with pytest.raises(BadRequest, match="services hold 86016 MiB"):
        ask_boot(machine, 100)
    stat = f"anon {80 << 30}\nfile 0\nshmem 0\nunevictable {80 << 30}"
    machine.tree.put("/sys/fs/cgroup/system.slice/llama-chat.service/memory.stat", stat)
    with pytest.raises(BadRequest, match="services hold 86016 MiB"):
        ask_boot(machine, 100)  # a unit of somebody else
    machine.tree.put(f"{UNIT_FOLDER}/llama-chat.service", f"{INSTANCE_HEAD}[Unit]")
    assert ask_boot(machine, 100)


# The checklist


@pytest.mark.parametrize(
    ("held", "verdict", "left"), [(4, "ok", "7 GiB"), (10.5, "ok", "512 MiB"), (10.926, "wrong", "75.8 MiB")]
)
def test_verify_says_what_is_left(machine: Machine, held: float, verdict: str, left: str) -> None:
    machine.hold(gib=held, pages=114)
    (item,) = list_items_on_memory_beside_huge_pages(machine.tree.fs)
    assert (item.verdict, item.found) == (verdict, left)
    assert item.sentence.startswith(f"{left} of 125 GiB are available to the system beside 114 GiB of huge pages.")
    assert ("Ask for fewer huge pages" in item.sentence) == (verdict == "wrong")


def test_without_huge_pages_nothing_is_said(machine: Machine) -> None:
    assert list_items_on_memory_beside_huge_pages(machine.tree.fs) == []


def test_the_checklist_has_what_is_left(machine: Machine) -> None:
    machine.hold(gib=10.926, pages=114)
    machine.tree.put("/proc/cmdline", "ro")
    machine.tree.put("/sys/devices/system/cpu/isolated", "")
    rules = Checklist(bios={}, layers=[], units={}, allow_pending_reboot=False)
    items = rules.check_host(Survey(Host(machine.tree.fs), []), (boot_service.MISSING, ""))
    assert [item.verdict for item in items if item.name == "memory_left"] == ["wrong"]
