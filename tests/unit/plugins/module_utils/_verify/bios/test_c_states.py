# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.firmware import judged

CPU = "/sys/devices/system/cpu"


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.build(tmp_path)
    host.put("/proc/cmdline", "root=/dev/sda1 ro")
    return host


def states(host: hosts.Host, driver: str, **latency: int) -> None:
    host.put(f"{CPU}/cpuidle/current_driver", driver)
    for number, (name, wakes) in enumerate(latency.items()):
        host.put(f"{CPU}/cpu0/cpuidle/state{number}/name", name)
        host.put(f"{CPU}/cpu0/cpuidle/state{number}/latency", wakes)


def test_c2_is_gone_where_the_bios_has_switched_it_off(host: hosts.Host) -> None:
    states(host, "acpi_idle", POLL=0, C1=1, C2=800)
    item = judged(host, c_states="off")["c_states"]
    assert (item.verdict, item.found) == ("wrong", "on")
    assert "cpuidle has POLL, C1, C2; C2 takes 800 us to wake from" in item.sentence
    host.drop(f"{CPU}/cpu0/cpuidle/state2/*")
    host.put(f"{CPU}/cpu0/cpuidle/state2/name", "C1")
    assert judged(host, c_states="off")["c_states"].verdict == "ok"


@pytest.mark.parametrize("driver", [None, "none", "haltpoll", "intel_idle"])
def test_other_drivers_have_states_of_their_own(host: hosts.Host, driver: str | None) -> None:
    if driver:
        states(host, driver, POLL=0, C2=1)
    item = judged(host, c_states="off")["c_states"]
    assert item.verdict == "unknown"
    assert f"the driver of idle states is {driver or 'none'}" in item.sentence


@pytest.mark.parametrize("word", ["processor.max_cstate=1", "idle=poll", "cpuidle.off=1"])
def test_a_kernel_that_was_told_of_fewer_states_knows_nothing(host: hosts.Host, word: str) -> None:
    states(host, "acpi_idle", POLL=0, C1=1)
    host.put("/proc/cmdline", f"ro {word}")
    assert f"the kernel was started with {word}" in judged(host, c_states="off")["c_states"].sentence
