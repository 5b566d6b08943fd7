# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is chosen on seventeen machines for six models, held against the rows that `make plans ARGS=--write` wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import machine_plans

Models = tuple[Path, dict[str, dict[str, str]]]

#: Models that a machine cannot hold.
TOO_LARGE = {
    "VM, 2 vCPUs": {"32B dense", "70B dense with draft", "30B-A3B", "120B-A5B", "671B-A37B"},
    "VM, 4 vCPUs, SMT": {"70B dense with draft", "120B-A5B", "671B-A37B"},
}


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    with machine_plans.folder_with_models() as written:
        yield written


def test_every_machine_has_expected_rows() -> None:
    assert set(machine_plans.load_rows()) == set(machine_plans.MACHINES)


@pytest.mark.parametrize("machine", machine_plans.MACHINES)
def test_every_cell_is_as_expected(models: Models, machine: str) -> None:
    rows = {machine: machine_plans.compute_rows_of_machine(*models, machine)}
    assert list(machine_plans.list_changes(machine_plans.load_rows(), rows)) == []


@pytest.mark.parametrize("machine", machine_plans.MACHINES)
def test_a_row_says_what_is_chosen_or_why_nothing_is(machine: str) -> None:
    rows = machine_plans.load_rows()[machine]
    assert list(rows) == sorted(machine_plans.MODELS)
    missing = {model for model, row in rows.items() if row["instances"].startswith(machine_plans.NO_PLAN)}
    assert missing == TOO_LARGE.get(machine, set())
    for model, row in rows.items():
        chosen = [row[column] for column in ("threads", "context", "memory", "policy", "engine", "speed")]
        assert all(chosen) != (model in missing)


def test_a_changed_cell_is_named() -> None:
    before = machine_plans.load_rows()
    after = machine_plans.load_rows()
    after["9654"]["8B"]["threads"] = "1000"
    (line,) = machine_plans.list_changes(before, after)
    assert line.startswith("9654, 8B, threads: ") and line.endswith("is now '1000'")
