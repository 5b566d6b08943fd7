# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What comes between the threads that compute, in a window; tests/lab has it from a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.services import Service, one_waits_two_compute

INTERRUPTS = """\
      CPU0 CPU4 CPU5
  44: {0[0]} {0[1]} {0[2]} nvme
 LOC: {1[0]} {1[1]} {1[2]} Local timer interrupts
 RES: {2[0]} {2[1]} {2[2]} Rescheduling interrupts
"""


def put(service: Service, devices: tuple[int, ...], ticks: tuple[int, ...], sent: tuple[int, ...]) -> None:
    service.tree.put("/proc/interrupts", INTERRUPTS.format(devices, ticks, sent))


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = one_waits_two_compute(tmp_path)
    put(service, (5, 5, 5), (100, 100, 100), (0, 0, 0))
    service.in_window.append(lambda: put(service, (905, 7, 5), (900, 102, 105), (0, 9, 1)))
    return service


def test_the_worst_cpu_and_the_worst_thread_count(service: Service) -> None:
    """What comes to a CPU where nobody computes is not counted, and neither is the thread that waits for work."""
    assert service.prove(window=2)["noise"] == {
        "cpus": "4-5",
        "ticks": 2.5,
        "devices": 1.0,
        "sent": 4.5,
        "involuntary": 1.5,
        "waited": 0.2,
    }


def test_without_a_window_or_a_busy_thread_nothing_is_known(service: Service) -> None:
    assert service.prove()["noise"] is None
    service.in_window = []
    assert service.prove(window=2)["noise"] is None


def test_a_kernel_that_shows_no_interrupts(service: Service) -> None:
    service.tree.drop("proc/interrupts")
    service.in_window.pop()
    assert service.prove(window=2)["noise"] is None
