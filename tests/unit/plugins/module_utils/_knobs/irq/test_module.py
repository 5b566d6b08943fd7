# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module irq_affinity on fake interrupts, which tests/lab holds against those of two real kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HOME
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.interrupts import with_interrupts
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import read_files, request

FILES = ["/proc/irq/*/smp_affinity_list", "/proc/irq/default_smp_affinity"]
ASKED = {"cpus": "8-9", "default": True}
MANAGED, MOVABLE = ["timer", "nvme0q1"], ["acpi", "nvme0q0", "eth0", "eth0-TxRx-0", "eth0-TxRx-1", "ahci"]


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    return with_interrupts(tmp_path)


def ask(tree: hosts.Host, **options: Any) -> dict[str, Any]:
    return request(tree.fs, "irq_affinity", **options)


def actions(rows: list[dict[str, Any]]) -> list[str]:
    return [row["actions"][0] for row in rows]


def affinity(tree: hosts.Host, *numbers: int) -> list[str]:
    return [tree.fs.read(f"/proc/irq/{number}/smp_affinity_list") for number in numbers]


def test_interrupts_move_and_go_back(tree: hosts.Host) -> None:
    tree.put("/proc/irq/9/effective_affinity_list", "0")
    before = read_files(tree.fs, FILES)
    checked = ask(tree, check=True, **ASKED)
    assert (checked["changed"], actions(checked["managed"]), actions(checked["movable"])) == (True, MANAGED, MOVABLE)
    assert checked["irqbalance"] == "not installed"
    assert read_files(tree.fs, FILES) == before
    assert not (tree.root / HOME[1:]).exists()

    made = ask(tree, **ASKED)
    assert (made["changed"], made["diff"]) == (True, checked["diff"])
    assert set(affinity(tree, *(row["irq"] for row in made["movable"]))) == {"8-9"}
    assert affinity(tree, *(row["irq"] for row in made["managed"])) == ["0-15", "0-15"]
    assert tree.fs.read("/proc/irq/default_smp_affinity") == "0300"
    assert made["pending"] == [9]
    assert any("9 (acpi)" in remark for remark in made["remarks"])

    again = ask(tree, **ASKED)
    assert (again["changed"], again["remarks"], again["pending"]) == (False, [], [9])
    assert ask(tree, check=True, **ASKED)["changed"] is False
    assert ask(tree, state="original")["changed"] is True
    assert read_files(tree.fs, FILES) == before
    assert ask(tree, state="original")["changed"] is False


@pytest.mark.parametrize(
    ("which", "names"),
    [
        ("eth0-*Rx*", ["eth0-TxRx-0", "eth0-TxRx-1"]),
        ("0000:41:00.0", ["nvme0q0"]),
        ("driver:ice", ["eth0", "eth0-TxRx-0", "eth0-TxRx-1"]),
        ("9", ["acpi"]),
    ],
)
def test_which(tree: hosts.Host, which: str, names: list[str]) -> None:
    assert actions(ask(tree, cpus="0-1", which=[which], check=True)["movable"]) == names


def test_each_gets_a_cpu_of_its_own(tree: hosts.Host) -> None:
    asked: dict[str, Any] = {"cpus": "node2", "which": ["eth0*"], "spread": True}
    ask(tree, **asked)
    assert affinity(tree, 50, 51, 52) == ["8", "9", "10"]
    assert ask(tree, **asked)["changed"] is False
    # Another one joins without moving the first three.
    ask(tree, **{**asked, "which": ["eth0*", "acpi"]})
    assert affinity(tree, 50, 51, 52, 9) == ["8", "9", "10", "11"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "Say which CPUs may be interrupted"),
        ({"cpus": "0-99"}, "CPU 16-99 is not on this host"),
        ({"cpus": "draft"}, "gives the role draft no CPU"),
        ({"cpus": "moon"}, "'moon' names no CPUs"),
    ],
)
def test_refusals_change_nothing(tree: hosts.Host, asked: dict[str, Any], words: str) -> None:
    before = read_files(tree.fs, FILES)
    answer = ask(tree, **asked)
    assert answer["failed"] and words in answer["msg"] and "\n" not in answer["msg"]
    assert read_files(tree.fs, FILES) == before


def test_a_cpu_that_is_offline_is_refused(tree: hosts.Host) -> None:
    tree.fs.write(f"{CPUS}/cpu15/online", "0")
    assert "CPU 15 is offline" in ask(tree, cpus="14-15", which=["acpi"])["msg"]
