# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resctrl groups of a service's threads, and what those groups have in the caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.services import (
    RESCTRL,
    Service,
    one_waits_two_compute,
)


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return one_waits_two_compute(tmp_path)


def test_the_group_of_a_thread(service: Service) -> None:
    """A thread's own group wins; one in none has the groups of its CPUs, which may be several."""
    service.resctrl(verify="4-7", draft="0-1")
    service.thread(102, "5", 5, group="draft", monitor="m")
    result = service.prove()
    assert [row["groups"] for row in result["threads"]] == [["/", "draft"], ["verify"], ["draft"]]
    assert [(row["group"], row["monitor"]) for row in result["groups"]] == [
        ("/", ""),
        ("draft", ""),
        ("draft", "m"),
        ("verify", ""),
    ]


@pytest.mark.parametrize(
    ("cpus", "verdict", "words"),
    [
        ("0-7", "ok", "3 threads with the limits of the resctrl group verify."),
        (
            "1-7",
            "drift",
            "1 of 3 threads do not have the limits of the resctrl group verify: thread 100 (llama-server) in",
        ),
    ],
)
def test_the_group_asked_for(service: Service, cpus: str, verdict: str, words: str) -> None:
    service.resctrl(verify=cpus)
    found, sentence = service.judge(group="verify")
    assert found == verdict and sentence.startswith(words)


def test_groups_that_cannot_be_told(service: Service) -> None:
    verdict, sentence = service.judge(group="verify")
    assert verdict == "unknown" and sentence == "Not known: resctrl is not mounted."
    service.resctrl(verify="0-15")
    service.tree.drop("/proc/100/task/101/cpu_resctrl_groups")
    verdict, sentence = service.judge(group="verify")
    assert verdict == "unknown" and "CONFIG_PROC_CPU_RESCTRL" in sentence


def test_occupancy_and_bandwidth(service: Service) -> None:
    service.resctrl(verify="0-7")
    folder = f"{RESCTRL}/verify/mon_data/mon_L3_0"
    service.in_window += [
        lambda: service.counters(f"{folder}1", 4096, 2000, 8000),
        lambda: service.counters(f"{folder}2", "Unavailable", 2000, "Unassigned"),
    ]
    result = service.prove(window=2)
    (verify,) = result["groups"]
    assert verify["l3"]["0"] == {"occupancy": 0, "local_bandwidth": 0, "total_bandwidth": 0}
    assert verify["l3"]["1"] == {"occupancy": 4096, "local_bandwidth": 1000, "total_bandwidth": 4000}
    assert verify["l3"]["2"] == {"occupancy": None, "local_bandwidth": 1000, "total_bandwidth": None}
    told = " ".join(result["missing"])
    assert "mon_L3_02/llc_occupancy says 'Unavailable': the hardware has no counter for it now." in told
    assert f"Write 'mbm_total_bytes:*=e' to {RESCTRL}/verify/mbm_L3_assignments, or, if " in told
    assert f"'default' to {RESCTRL}/info/L3_MON/mbm_assign_mode." in told
    (verify,) = service.prove()["groups"]
    assert verify["l3"]["1"] == {"occupancy": 4096, "local_bandwidth": None, "total_bandwidth": None}


def test_hardware_that_counts_nothing_has_no_domains(service: Service) -> None:
    service.tree.put("/proc/self/mounts", f"resctrl {RESCTRL} resctrl rw 0 0")
    assert service.prove()["groups"] == [{"group": "/", "monitor": "", "l3": {}}]
