# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module cpuidle_states on fake idle states, which tests/lab holds against acpi_idle on a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpuidle import CPUS
from ansible_collections.sovereign.epyc.tests.unit.fakes.idle_states import QOS, IdleStates
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import request

ROLES = {
    "settings": [{"cpus": "verify", "deepest": "C1"}],
    "intent": {"housekeeping": {"cores": 1, "per": "node"}},
}


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    made = Kernel(tmp_path)
    IdleStates(made)
    return made


def ask(kernel: Kernel, **options: Any) -> dict[str, Any]:
    return request(kernel.fs, "cpuidle_states", **options)


def forbidden(kernel: Kernel) -> list[int]:
    """The CPUs that may not enter C2."""
    return [cpu for cpu in range(16) if kernel.fs.read(f"{CPUS}/cpu{cpu}/cpuidle/state2/disable") == "1"]


def test_states_are_forbidden_and_allowed_again(kernel: Kernel) -> None:
    checked = ask(kernel, check=True, **ROLES)
    assert checked["changed"] and forbidden(kernel) == []
    made = ask(kernel, **ROLES)
    assert made["diff"] == checked["diff"]
    assert (made["driver"], made["governor"], made["remarks"]) == ("acpi_idle", "menu", [])
    assert forbidden(kernel) == [cpu for cpu in range(16) if cpu % 4]
    assert not ask(kernel, **ROLES)["changed"]
    ask(kernel, state="original")
    assert forbidden(kernel) == []


def test_a_cpu_that_is_offline_keeps_its_states_and_is_undone(kernel: Kernel) -> None:
    ask(kernel, settings=[{"cpus": "5-6", "max_latency": 100}])
    kernel.fs.write(f"{CPUS}/cpu5/online", "0")
    assert "CPU 5 is offline" in ask(kernel, settings=[{"cpus": "5", "deepest": "C1"}])["msg"]
    assert forbidden(kernel) == [5, 6]
    assert ask(kernel, state="original")["remarks"] == []
    kernel.fs.write(f"{CPUS}/cpu5/online", "1")
    assert forbidden(kernel) == []


def test_a_state_that_is_not_there_is_refused(kernel: Kernel) -> None:
    refused = ask(kernel, settings=[{"cpus": "0", "deepest": "C1"}, {"cpus": "1", "deepest": "C6"}])
    assert "CPU 1 has no idle state C6, only POLL (0 µs), C1 (1 µs), C2 (800 µs)" in refused["msg"]


def test_a_limit_of_others_is_told_while_it_lasts(kernel: Kernel) -> None:
    kernel.fs.write(f"{CPUS}/cpu5/{QOS}", "20")
    (remark,) = ask(kernel, settings=[{"cpus": "4-5", "deepest": "C2"}])["remarks"]
    assert "CPU 5 enter" in remark and "more than 20 µs" in remark
    kernel.fs.write(f"{CPUS}/cpu5/{QOS}", "0")
    assert ask(kernel, settings=[{"cpus": "4-5", "deepest": "C2"}])["remarks"] == []
