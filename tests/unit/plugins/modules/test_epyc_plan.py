# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the memory of a host is the first of all that a plan says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import save_measured_speed
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.modules import epyc_plan
from ansible_collections.sovereign.epyc.tests.unit.fakes import firmware, hosts

OPTIONS = {"housekeeping": {}, "draft": {}, "verify": {}, "default": {}, "sku": "", "refuse": True}


def planned(tree: hosts.Host) -> dict[str, Any]:
    return epyc_plan.build_plan_or_refusals(dict(OPTIONS), tree.fs)


def measure(tree: hosts.Host, gbps: float) -> None:
    """Store a measurement of all four nodes of the small machine, whose two CCDs carry 115.2 GB/s."""
    save_measured_speed(Host(tree.fs), Store(str(tree.root)), dict.fromkeys(range(4), gbps / 4), gbps)


def test_a_third_of_the_bandwidth_is_the_first_line(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path)
    measure(tree, 38.0)
    result = planned(tree)
    first = result["text"].splitlines()[0]
    assert first.startswith("FAULT: This host reads 38 of 115 GB/s from its memory, 33%; below 60% something is wrong")
    assert result["map"]["faults"] == result["remarks"] == [first.partition(" ")[2]]
    memory = result["ansible_facts"]["epyc"]["memory"]
    assert (memory["measured_gbps"], memory["theoretical_gbps"], memory["is_slow"]) == (38.0, 115.2, True)


def test_a_module_that_is_missing_is_told_without_a_warning(tmp_path: Path) -> None:
    tree = hosts.shape(tmp_path, "9354")
    firmware.give(tree, firmware.filled(firmware.GIGABYTE, ["DIMM_P0_L0"]))
    result = planned(tree)
    assert result["text"].startswith("FAULT: Only 11 of 12 memory channels have a module")
    assert result["remarks"] == []


def test_memory_without_a_fault_is_not_spoken_of(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path)
    measure(tree, 100.0)
    result = planned(tree)
    assert result["text"].startswith("AMD EPYC 9754")
    assert (result["map"]["faults"], result["remarks"]) == ([], [])
    tree.put("/proc/sys/kernel/osrelease", "6.13.0")
    result = planned(tree)
    (note,) = (line for line in result["map"]["notes"] if "does not count any more" in line)
    assert note in result["text"].splitlines()


def test_the_command_of_the_host_says_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = hosts.small(tmp_path)
    measure(tree, 38.0)
    monkeypatch.setattr(_cli, "KernelFS", lambda read_only: KernelFS(str(tmp_path), read_only=read_only))
    assert _cli.print_plan(as_json=False) == 0
    assert capsys.readouterr().out.startswith("FAULT: This host reads 38 of 115 GB/s")
