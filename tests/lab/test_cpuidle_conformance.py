# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake idle states answer cpuidle_states as acpi_idle does on a real kernel."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.idle_states import QOS, IdleStates
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import ask, check, put_back, write

from .conformance import compare_with_kernel, left_changed

pytestmark = pytest.mark.slow

MODULE = "cpuidle_states"
SHOWN = [
    *(f"{CPUS}/cpu*/cpuidle/state*/{name}" for name in ("name", "latency", "disable")),
    f"{CPUS}/cpu5/{QOS}",
    f"{CPUS}/cpuidle/current_driver",
    f"{CPUS}/cpuidle/current_governor_ro",
]
ROLES = {
    "settings": [{"cpus": "verify", "deepest": "C1"}],
    "intent": {"housekeeping": {"cores": 1, "per": "node"}},
}
STEPS = [
    check(**ROLES),
    ask(**ROLES),
    ask(**ROLES),
    put_back(),
    put_back(),
    ask(settings=[{"cpus": "0", "deepest": "C1"}, {"cpus": "1", "deepest": "C6"}]),
    ask(settings=[{"cpus": "4-7", "deepest": "POLL"}]),
    put_back(),
    # Somebody else limits a CPU.
    write(f"{CPUS}/cpu5/{QOS}", 20),
    ask(settings=[{"cpus": "4-5", "deepest": "C2"}]),
    write(f"{CPUS}/cpu5/{QOS}", "n/a"),
    ask(settings=[{"cpus": "4-5", "deepest": "C2"}]),
    write(f"{CPUS}/cpu5/{QOS}", "nonsense"),
    write(f"{CPUS}/cpu5/{QOS}", 0),
    # What the kernel takes and refuses.
    write(f"{CPUS}/cpu5/cpuidle/state2/disable", 2),
    write(f"{CPUS}/cpu5/cpuidle/state2/disable", "x"),
    write(f"{CPUS}/cpu5/cpuidle/state2/disable", 0),
    # A CPU that is offline keeps its states.
    ask(settings=[{"cpus": "5-6", "max_latency": 100}]),
    write(f"{CPUS}/cpu5/online", 0),
    ask(settings=[{"cpus": "5", "deepest": "C1"}]),
    put_back(),
    write(f"{CPUS}/cpu5/online", 1),
    put_back(),
]


def make_fake_machine(folder):
    """The small machine with the idle states of an EPYC."""
    kernel = Kernel(folder)
    IdleStates(kernel)
    return kernel


def test_the_fake_answers_as_the_kernel(guest_of_each_kernel, tmp_path):
    answers = compare_with_kernel(guest_of_each_kernel, make_fake_machine(tmp_path), MODULE, STEPS, SHOWN)
    assert left_changed(answers) == set()
