# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The map of a host as data, and drawn for a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host import map_data, map_text
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import build_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

EACH_NODE = {"cores": 1, "per": "node"}
RECIPE = {"housekeeping": EACH_NODE, "draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "10 ways"}}
SMALL = """\
AMD EPYC 9754 128-Core Processor, Linux 6.12.0-test
1 socket, 4 nodes, 16 cores, SMT notsupported, 2 CCDs, L3: 4 x 16 MiB

h housekeeping  0,4,8,12
d draft         9-11,13-15
v verify        1-3,5-7
. default       ways of L3 that no role has; a way is 1 MiB

socket 0, node 0, memory 1 GiB, 8 pages of 2 MiB
  CCD  0  L3   0  hvvv  vvvvvvvvvv......  0-3

socket 0, node 1, memory 1 GiB, 8 pages of 2 MiB
  CCD  0  L3   1  hvvv  vvvvvvvvvv......  4-7

socket 0, node 2, memory 1 GiB, 8 pages of 2 MiB
  CCD  1  L3   2  hddd  dddddddddddd....  8-11

socket 0, node 3, memory 1 GiB, 8 pages of 2 MiB
  CCD  1  L3   3  hddd  dddddddddddd....  12-15"""


def drawn(top: Topology, **raw: Any) -> dict[str, Any]:
    return map_data.build_map_data(build_plan(Intent.from_options(raw), top), top)


def bare(text: str) -> str:
    return re.sub(r"\033\[[0-9;]*m", "", text)


def test_a_small_machine() -> None:
    data = drawn(hosts.standing("small").topology(), **RECIPE)
    assert map_text.render_map(data) == SMALL
    assert bare(map_text.render_map(data, coloured=True)) == SMALL


@pytest.mark.parametrize("kind", [*hosts.SHAPES, *hosts.ZEN6_SHAPES])
def test_it_has_each_cpu_once_and_fits_a_terminal_of_100_columns(kind: str) -> None:
    top = hosts.standing(kind).topology()
    result = build_plan(Intent.from_options(RECIPE), top)
    data = map_data.build_map_data(result, top)
    cells = [
        (cpu, letter)
        for domain in data["domains"]
        for core, letters in zip(domain["cores"], domain["roles"])
        for cpu, letter in zip(core, letters)
    ]
    assert sorted(cells) == [(cpu, map_data.LETTERS[result.role_of(cpu)]) for cpu in top.online]
    assert [(domain["l3"], domain["node"], domain["ccd"]) for domain in data["domains"]] == [
        (domain.id, domain.node, domain.ccd) for domain in top.l3
    ]
    lines = map_text.render_map(data, coloured=True).splitlines()
    assert max(len(bare(line)) for line in lines) <= 100
    assert sum(bare(line).count("  CCD ") for line in lines) == len(top.l3)
    assert data == json.loads(json.dumps(data))


def test_what_changes_by_itself_is_not_in_it(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    before = drawn(host.topology())
    host.put("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", 0)
    host.put("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  1048576 kB\nNode 1 MemFree: 7 kB")
    assert drawn(host.topology()) == before


def test_offline_cpus_keep_their_places(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("6")
    data = drawn(host.topology(), **RECIPE)
    assert data["roles"]["offline"] == "6"
    assert data["domains"][1]["roles"] == ["h", "v", "x", "v"]
    assert "\033[31mx\033[0m" in map_text.render_map(data, coloured=True)


def test_a_host_without_l3_domains_is_drawn_by_node(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/level")
    data = drawn(host.topology())
    assert [(domain["l3"], domain["ccd"], domain["node"]) for domain in data["domains"]] == [
        (None, None, node) for node in range(4)
    ]
    assert "  CCD  -  L3   -  hvvv  0-3" in map_text.render_map(data).splitlines()
    assert any(note.startswith("Missing: L3 domains") for note in data["notes"])


def test_a_line_that_is_too_long_is_cut() -> None:
    data = drawn(hosts.standing("9754 SMT").topology(), **RECIPE)
    data["domains"][0]["cores"] = [[cpu, cpu + 1024] for cpu in range(1, 17, 2)]
    data["roles"]["idle"] = ",".join(map(str, range(0, 200, 2)))
    lines = map_text.render_map(data).splitlines()
    assert max(map(len, lines)) == 100
    assert sum(line.endswith("...") for line in lines) == 2


def test_many_cores_of_a_domain_take_several_rows(tmp_path: Path) -> None:
    host = hosts.small(tmp_path, l3_per_socket=1, cores_per_l3=40, nodes=1, smt=True)
    rows = map_text.render_map(drawn(host.topology())).splitlines()[-3:]
    assert [row.split()[4:6] if "CCD" in row else row.split() for row in rows] == [
        ["hvvvvvvvvvvvvvvv"] * 2,
        ["vvvvvvvvvvvvvvvv"] * 2,
        ["vvvvvvvv"] * 2,
    ]
