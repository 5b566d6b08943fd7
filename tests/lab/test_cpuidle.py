# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cpuidle_states with the real acpi_idle: what is forbidden is entered no more, kept, and undone."""

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


def files(guest, name, cpus="*"):
    """A file of all idle states, by CPU and state."""
    lines = guest.run(f"cd {CPU} && grep -H '' cpu{cpus}/cpuidle/state*/{name}").split()
    return {tuple(path.split("/")[::2]): value for path, value in (line.split(":") for line in lines)}


def forbidden(guest):
    """The CPUs that may not enter C2."""
    found = files(guest, "disable")
    assert {value for (dummy, state), value in found.items() if state != "state2"} == {"0"}
    return sorted(int(cpu[3:]) for (cpu, state), value in found.items() if (state, value) == ("state2", "1"))


@pytest.fixture
def idle(bare_guest):
    """A guest whose CPUs may enter all states, before every test and after it."""
    assert forbidden(bare_guest) == []
    yield bare_guest
    bare_guest.module("cpuidle_states", state="original")
    assert forbidden(bare_guest) == []


def test_what_is_forbidden_is_entered_no_more(idle):
    check = idle.module("cpuidle_states", **ASKED, _ansible_check_mode=True)
    assert check["changed"] and forbidden(idle) == []
    made = idle.module("cpuidle_states", **ASKED)
    assert made["diff"] == check["diff"] and forbidden(idle) == VERIFY
    assert (made["driver"], made["governor"], made["remarks"]) == ("acpi_idle", "menu", [])
    assert not idle.module("cpuidle_states", **ASKED)["changed"]

    idle.run("taskset -c 5 true")  # It may be in C2 since before, and the kernel counts a state when it is left.
    before = files(idle, "usage", "[45]")
    idle.python(WAKE)
    more = {key: int(count) - int(before[key]) for key, count in files(idle, "usage", "[45]").items()}
    assert more["cpu5", "state2"] == 0
    assert more["cpu5", "state1"] > 0 and more["cpu4", "state2"] > 0, more


def test_a_change_by_hand_is_found_and_what_a_boot_runs_repairs_it(idle):
    idle.module("cpuidle_states", **ASKED)
    idle.run(f"echo 0 | tee {CPU}/cpu[56]/cpuidle/state2/disable")
    (finding,) = [one for one in idle.module("epyc_drift")["findings"] if one["layer"] == "cpuidle"]
    assert (finding["what"], finding["where"], finding["wanted"], finding["found"]) == (
        *("idle state C2", "CPUs 5-6"),
        *("forbidden", "allowed"),
    )
    assert finding["variables"] == ["cpuidle_verify"]
    idle.python(APPLY)
    assert forbidden(idle) == VERIFY


def test_a_cpu_that_is_offline_keeps_its_states_and_is_undone(idle):
    idle.module("cpuidle_states", settings=[{"cpus": "5-6", "max_latency": 100}])
    idle.run(f"echo 0 >{CPU}/cpu5/online")
    refused = idle.module("cpuidle_states", settings=[{"cpus": "5", "deepest": "C1"}])
    assert "CPU 5 is offline" in refused["msg"] and forbidden(idle) == [5, 6]
    assert idle.module("cpuidle_states", state="original")["remarks"] == []
    idle.run(f"echo 1 >{CPU}/cpu5/online")
    assert forbidden(idle) == []


def test_a_state_that_is_not_there_is_refused_and_other_owners_are_named(idle):
    refused = idle.module("cpuidle_states", settings=[{"cpus": "0", "deepest": "C1"}, {"cpus": "1", "deepest": "C6"}])
    assert "CPU 1 has no idle state C6, only POLL (0 µs), C1 (1 µs), C2 (800 µs)" in refused["msg"]
    idle.run(f"echo 20 >{CPU}/cpu5/power/pm_qos_resume_latency_us")
    said = idle.module("cpuidle_states", HOLD, settings=[{"cpus": "4-5", "deepest": "C2"}])["remarks"]
    idle.run(f"echo 0 >{CPU}/cpu5/power/pm_qos_resume_latency_us")
    assert [("CPU 5 enter" in line, "more than 20 µs" in line) for line in said] == [(True, True), (False, False)]
    assert "lets no CPU enter an idle state of more than 10 µs" in said[1]
    assert idle.module("cpuidle_states", settings=[{"cpus": "4-5", "deepest": "C2"}])["remarks"] == []
