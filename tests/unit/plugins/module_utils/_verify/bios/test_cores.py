# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.firmware import judged

CPU = "/sys/devices/system/cpu"


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.build(tmp_path)
    host.put("/proc/cmdline", "root=/dev/sda1 ro")
    return host


@pytest.mark.parametrize(
    ("active", "control", "found"),
    [("1", "on", "on"), ("0", "off", "off"), ("0", "forceoff", "off"), ("0", "notsupported", "off")],
)
def test_smt(host: hosts.Host, active: str, control: str, found: str) -> None:
    host.put(f"{CPU}/smt/active", active)
    host.put(f"{CPU}/smt/control", control)
    assert judged(host, smt="off")["smt"].found == found
    assert judged(host, smt="off")["smt"].verdict == ("ok" if found == "off" else "wrong")


def test_smt_that_the_kernel_turned_off_is_told_from_the_bios(host: hosts.Host) -> None:
    host.put(f"{CPU}/smt/control", "off")
    assert "the BIOS has it on" in judged(host, smt="off")["smt"].sentence


def test_an_old_kernel_tells_nothing_of_smt(host: hosts.Host) -> None:
    host.drop(f"{CPU}/smt/*")
    assert judged(host, smt="off")["smt"].verdict == "unknown"


@pytest.mark.parametrize(
    ("shape", "changes", "found", "how"),
    [
        ("9754", {}, "all", "128 of 128 cores, on 8 CCDs with 16 L3 domains"),
        ("9754", {"l3_per_socket": 8}, "64 of 128", "64 of 128 cores, on 4 CCDs with 8 L3 domains"),
        ("9754 SMT", {"cores_per_l3": 4}, "64 of 128", "64 of 128 cores, on 8 CCDs with 16 L3 domains"),
        ("two 7543", {}, "all", "64 of 64 cores, on 16 CCDs with 16 L3 domains"),
        ("two 7543", {"cores_per_l3": 3, "nodes": 2}, "48 of 64", "48 of 64 cores, on 16 CCDs with 16 L3 domains"),
        ("small", {"model": "AMD EPYC-Genoa Processor"}, None, "does not say how many cores it has"),
    ],
)
def test_the_name_of_the_cpu_says_how_many_cores_there_should_be(
    tmp_path: Path, shape: str, changes: dict[str, Any], found: str | None, how: str
) -> None:
    host = hosts.shape(tmp_path, shape, **changes)
    host.put("/proc/cmdline", "ro maxcpus=1")
    item = judged(host, cores="all")["cores"]
    assert item.found == found
    assert item.verdict == ("ok" if found == "all" else "wrong" if found else "unknown")
    assert how in item.sentence


def test_cores_that_are_only_offline_are_there(host: hosts.Host) -> None:
    host.offline("8-15,100")
    assert judged(host)["cores"].found == "all"


def test_a_kernel_that_was_told_of_fewer_cpus_knows_nothing_of_the_cores(host: hosts.Host) -> None:
    host.put("/proc/cmdline", "ro nr_cpus=64")
    assert "the kernel was started with nr_cpus=64" in judged(host, cores="all")["cores"].sentence
