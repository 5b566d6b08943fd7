# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.firmware import judged


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.build(tmp_path)
    host.put("/proc/cmdline", "root=/dev/sda1 ro")
    return host


@pytest.mark.parametrize(
    ("shape", "changes", "nps", "l3"),
    [
        ("9754", {}, "NPS4", "off"),
        ("9754", {"nodes": 1}, "NPS1", "off"),
        ("9754", {"nodes": 16}, None, "on"),
        ("9654", {"nodes": 2}, "NPS2", "off"),
        ("9354", {"nodes": 8}, None, "on"),
        ("two 7543", {}, "NPS1", "off"),
        ("two 7543", {"nodes": 1}, "NPS0", "off"),
        ("two 7543", {"nodes": 8}, "NPS4", "off"),
        ("two 7543", {"nodes": 16}, None, "on"),
        ("small", {}, "NPS4", None),
    ],
)
def test_nodes_tell_nps(tmp_path: Path, shape: str, changes: dict[str, int], nps: str | None, l3: str | None) -> None:
    host = hosts.shape(tmp_path, shape, **changes)
    host.put("/proc/cmdline", "ro")
    found = judged(host)
    assert (found["nps"].found, found["l3_as_numa"].found) == (nps, l3)
    assert found["nps"].verdict == "not asked for"


@pytest.mark.parametrize("word", ["numa=off", "numa=fake=4"])
def test_a_kernel_that_hides_the_nodes_knows_nothing_of_nps(host: hosts.Host, word: str) -> None:
    host.put("/proc/cmdline", f"ro {word}")
    item = judged(host, nps="NPS4")["nps"]
    assert (item.verdict, item.found) == ("unknown", None)
    assert f"the kernel was started with {word}" in item.sentence
