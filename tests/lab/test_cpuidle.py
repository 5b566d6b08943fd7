# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cpuidle_states with the real acpi_idle: what is forbidden is entered no more, and a limit of others is seen.

What is asked, refused and put back is in test_cpuidle_conformance.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

CPU = "/sys/devices/system/cpu"
INTENT = {"housekeeping": {"cores": 1, "per": "node"}}
ASKED = {"settings": [{"cpus": "verify", "deepest": "C1"}], "intent": INTENT, "persistent": True}
VERIFY = [cpu for cpu in range(16) if cpu % 4]
APPLY = "from ansible_collections.sovereign.epyc.plugins.module_utils._cli import main; main(['apply'])"
# Wakes CPUs 4 and 5 for two seconds, every twentieth of one, so that each has a pause that is worth C2 after each.
WAKE = """
import os, time
for dummy in range(40):
    for cpu in (4, 5):
        os.sched_setaffinity(0, [cpu])
    time.sleep(0.05)
"""
HOLD = "import os; os.write(os.open('/dev/cpu_dma_latency', os.O_WRONLY), (10).to_bytes(4, 'little'))"


def read_state_files(guest, name, cpus="*"):
    """A file of all idle states, by CPU and state."""
    lines = guest.run(f"cd {CPU} && grep -H '' cpu{cpus}/cpuidle/state*/{name}").split()
    return {tuple(path.split("/")[::2]): value for path, value in (line.split(":") for line in lines)}


def cpus_without_c2(guest):
    """The CPUs that may not enter C2."""
    found = read_state_files(guest, "disable")
    assert {value for (dummy, state), value in found.items() if state != "state2"} == {"0"}
    return sorted(int(cpu[3:]) for (cpu, state), value in found.items() if (state, value) == ("state2", "1"))


@pytest.fixture
def idle(bare_guest):
    """A guest whose CPUs may enter all states, before every test and after it."""
    assert cpus_without_c2(bare_guest) == []
    yield bare_guest
    bare_guest.module("cpuidle_states", state="original")
    assert cpus_without_c2(bare_guest) == []


def test_what_is_forbidden_is_entered_no_more_and_what_a_boot_runs_repairs_a_change_by_hand(idle):
    idle.module("cpuidle_states", **ASKED)
    assert cpus_without_c2(idle) == VERIFY
    idle.run("taskset -c 5 true")  # It may be in C2 since before, and the kernel counts a state when it is left.
    before = read_state_files(idle, "usage", "[45]")
    idle.python(WAKE)
    more = {key: int(count) - int(before[key]) for key, count in read_state_files(idle, "usage", "[45]").items()}
    assert more["cpu5", "state2"] == 0
    assert more["cpu5", "state1"] > 0 and more["cpu4", "state2"] > 0, more

    idle.run(f"echo 0 | tee {CPU}/cpu[56]/cpuidle/state2/disable")
    (finding,) = [one for one in idle.module("epyc_drift_info")["findings"] if one["layer"] == "cpuidle"]
    assert (finding["what"], finding["where"], finding["wanted"], finding["found"]) == (
        *("idle state C2", "CPUs 5-6"),
        *("forbidden", "allowed"),
    )
    assert finding["variables"] == ["epyc_cpuidle_verify"]
    idle.python(APPLY)
    assert cpus_without_c2(idle) == VERIFY


def test_a_program_that_limits_all_cpus_is_named_while_it_does(idle):
    settings = [{"cpus": "4-5", "deepest": "C2"}]
    (remark,) = idle.module("cpuidle_states", HOLD, settings=settings)["remarks"]
    assert "lets no CPU enter an idle state of more than 10 µs" in remark
    assert idle.module("cpuidle_states", settings=settings)["remarks"] == []
