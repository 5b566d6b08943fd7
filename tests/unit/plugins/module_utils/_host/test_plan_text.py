# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import build_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan_text import render_plan
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

EACH_NODE = {"cores": 1, "per": "node"}
RECIPE = {"draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "10 ways"}}

SMALL = """\
AMD EPYC 9754 128-Core Processor, family 25 model 160, Linux 6.12.0-test
1 socket, 4 nodes, 16 cores, SMT notsupported, 2 CCDs, L3: 4 x 16 MiB
CCDs from: family 25 model 160 (Zen 4c) has 2 L3 domain(s) on a CCD

housekeeping     1 CPU   0
draft           8 CPUs   8-15
verify          7 CPUs   1-7

node  CCD   L3  CPUs   L3 ways of 1 MiB (d draft, v verify, . default)  who
   0    0    0  0-3    vvvvvvvvvv......                                 housekeeping 0, verify 1-3
   1    0    1  4-7    vvvvvvvvvv......                                 verify 4-7
   2    1    2  8-11   dddddddddddd....                                 draft 8-11
   3    1    3  12-15  dddddddddddd....                                 draft 12-15"""


def page(host: hosts.Host, **raw: Any) -> list[str]:
    top = host.topology()
    return render_plan(build_plan(Intent.from_options(raw), top), top).splitlines()


def test_the_page_of_a_small_machine(tmp_path: Path) -> None:
    assert page(hosts.small(tmp_path), **RECIPE) == SMALL.splitlines()


@pytest.mark.parametrize("name", [*hosts.SHAPES, *hosts.ZEN6_SHAPES])
def test_the_map_has_a_straight_row_for_each_l3_domain(name: str) -> None:
    host = hosts.standing(name)
    lines = page(host, **RECIPE)
    head = next(number for number, line in enumerate(lines) if line.startswith("node"))
    rows = list(takewhile(bool, lines[head + 1 :]))
    assert [int(row.split()[2]) for row in rows] == [domain.id for domain in host.topology().l3]
    assert {row[lines[head].index("who") - 1] for row in rows} == {" "}
    assert not any(row[lines[head].index("who")] == " " for row in rows)


def test_without_shares_the_map_shows_no_ways(tmp_path: Path) -> None:
    lines = page(hosts.small(tmp_path))
    assert "node  CCD   L3  CPUs   who" in lines
    assert "   0    0    0  0-3    housekeeping 0, verify 1-3" in lines


def test_idle_cpus_are_listed_where_there_are_any(tmp_path: Path) -> None:
    lines = page(hosts.small(tmp_path), verify={"ccds": 1})
    assert "idle            7 CPUs   1-7" in lines
    assert "draft           0 CPUs   -" in lines


def test_remarks_and_reasons_stand_below(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/filesystems", "nodev\tsysfs")
    host.put("/run/systemd/container", "systemd-nspawn")
    lines = page(host, **{**RECIPE, "housekeeping": {"cores": 0}})
    assert any(line.startswith("Note: No core is kept") for line in lines)
    assert any(line.startswith("Missing: a kernel of its own") for line in lines)
    assert [line.split(": ")[0] for line in lines if "resctrl is absent" in line] == ["Cannot do 'cat' here"]


def test_a_domain_that_is_offline_keeps_its_row(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("4-7,9")
    lines = page(host, housekeeping=EACH_NODE, draft={"ccds": 1})
    head = lines.index("node  CCD   L3  CPUs   who")
    assert lines[head + 1 : head + 4] == [
        "   0    0    0  0-3    housekeeping 0, verify 1-3",
        "   1    0    -  4-7    offline 4-7",
        "   2    1    2  8-11   housekeeping 8, draft 10-11, offline 9",
    ]


def test_what_is_unknown_is_a_dash(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    assert "   0    0    -  0-3    housekeeping 0, verify 1-3" in page(host)


def test_a_machine_without_l3_has_no_map(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/level")
    lines = page(host)
    assert lines[1].endswith("0 CCDs, L3: unknown")
    assert not any(line.startswith("node") for line in lines)


V_CACHE: dict[str, Any] = {
    "model": "AMD EPYC 4584PX 16-Core Processor",
    "number": 97,
    "l3_per_socket": 2,
    "l3_mib": 32,
    "nodes": 1,
}


def with_v_cache(root: Path) -> hosts.Host:
    """An EPYC 4584PX: 96 MiB of L3 on the first CCD, 32 MiB on the other."""
    host = hosts.build(root, **V_CACHE)
    for cpu in range(8):
        host.put(f"/sys/devices/system/cpu/cpu{cpu}/cache/index3/size", f"{96 * 1024}K")
    return host


def test_ccds_with_different_sizes_of_l3_are_told_apart(tmp_path: Path) -> None:
    intent = {"housekeeping": {"cores": 1, "per": "host"}, "draft": {"ccds": 1, "l3": "16MiB"}}
    lines = page(with_v_cache(tmp_path), **intent)
    assert "node  CCD   L3     size  CPUs  L3 ways of 6 MiB or 2 MiB (d draft, . default)  who" in lines
    assert "   0    0    0   96 MiB  0-7   ................" in "\n".join(lines)
    assert "   0    1    1   32 MiB  8-15  dddddddd........" in "\n".join(lines)
    (note,) = [line for line in lines if line.startswith("Note: The L3 caches differ")]
    assert note.startswith("Note: The L3 caches differ in size: 96 MiB on CCD 0, 32 MiB on CCD 1. The size does not")
    assert "draft is on CCD 1. verify is on CCD 0. An instance" in note


def test_equal_sizes_of_l3_are_not_spoken_of(tmp_path: Path) -> None:
    lines = page(hosts.build(tmp_path, **V_CACHE))
    assert not any("size" in line for line in lines)
