# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of a host some of whose CPUs are offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.cpu_plans import (
    RECIPE,
    every_cpu_has_one_role,
    planned,
)


def test_offline_cpus_are_in_no_role(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("13")
    result = planned(host.topology(), **RECIPE)
    assert result.draft == (9, 10, 11, 14, 15)
    assert 13 not in (*result.housekeeping, *result.verify, *result.idle)


#: What is offline, and of which role it is; the first line of what the role draft has.
SHRUNK = [
    ("9754", "16-23", {"draft": (range(16, 32), range(24, 32))}),
    ("9754", "31", {"draft": (range(16, 32), range(16, 31))}),
    ("9754", "40-47", {"verify": None}),
    ("9754", "32-39", {"verify": None, "housekeeping": None}),
    ("9654", "16-23", {"verify": None}),
    ("9655", "8-11", {"draft": ([*range(8, 16), *range(104, 112)], [*range(12, 16), *range(104, 112)])}),
]


@pytest.mark.parametrize(("name", "cpus", "roles"), SHRUNK)
def test_a_role_without_some_of_its_cpus_stays_where_it_is_and_says_so(
    tmp_path: Path, name: str, cpus: str, roles: dict[str, Any]
) -> None:
    host = hosts.shape(tmp_path, name)
    before = planned(host.topology(), **RECIPE)
    host.offline(cpus)
    top = host.topology()
    result = planned(top, **RECIPE)
    every_cpu_has_one_role(result, top)
    assert set(result.draft) == set(before.draft) & set(top.online)
    assert set(result.verify) <= set(before.verify)
    assert result.cpus_if_all_online.keys() == roles.keys()
    for role, expected in roles.items():
        assert result.cpus_if_all_online[role] == getattr(before, role)
        assert [remark for remark in result.remarks if remark.startswith(f"{role} is without CPU ")]
        if expected:
            assert (before.draft, result.draft) == tuple(tuple(part) for part in expected)
    assert set(result.default.masks) == {domain.id for domain in top.l3}


@pytest.mark.parametrize("cpus", ["8", "24", "8,24", "4", "20", "4,20"])
def test_an_offline_housekeeping_cpu_moves_no_other_role(tmp_path: Path, cpus: str) -> None:
    """The CCD of each role has two housekeeping cores; CPU 20 and 24 are the SMT siblings of CPU 4 and 8."""
    host = hosts.small(tmp_path, smt=True)
    before = planned(host.topology(), **RECIPE)
    host.offline(cpus)
    top = host.topology()
    result = planned(top, **RECIPE)
    every_cpu_has_one_role(result, top)
    replaced = set(result.housekeeping) - set(before.housekeeping)
    assert set(result.draft) == set(before.draft) - replaced
    assert set(result.verify) == set(before.verify) - replaced
    assert result.cpus_if_all_online == {"housekeeping": before.housekeeping}


def test_a_ccd_that_is_offline_as_a_whole_holds_no_draft(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9654")
    host.offline("8-15")
    assert planned(host.topology(), **RECIPE).draft == tuple(range(16, 24))


def test_a_node_of_which_only_the_housekeeping_is_online_is_no_reason_to_plan_nothing(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("13-15")
    result = planned(host.topology(), **RECIPE)
    assert (result.housekeeping, result.draft) == ((0, 4, 8, 12), (9, 10, 11))


def test_the_remark_says_how_to_get_a_cpu_back(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("5-6")
    assert planned(host.topology(), **RECIPE).remarks[1:] == [
        "verify is without CPU 5-6, which is offline. Bring each back with 'echo 1 "
        ">/sys/devices/system/cpu/cpu5/online', unless somebody took it away for a reason."
    ]


def test_siblings_that_smt_takes_away_are_missed_by_nobody(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9754 SMT")
    host.offline("128-255")
    host.put("/sys/devices/system/cpu/smt/control", "off")
    result = planned(host.topology(), **RECIPE)
    assert result.draft == tuple(range(16, 32))
    assert (result.cpus_if_all_online, result.remarks) == ({}, [])
