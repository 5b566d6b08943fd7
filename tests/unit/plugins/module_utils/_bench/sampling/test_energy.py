# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The energy of a measurement, from counters that wrap and from a power meter; the clock is simulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.sampling import energy
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.energy_figures import (
    compute_mean_watts,
    compute_tokens_per_joule,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

#: The counter of an EPYC: 2^32 units of 15.3 microjoules.
RANGE = 65_532_610_987


class Machine:
    """A machine whose packages take so many watts; it is the clock, and the event that ends the reading thread.

    ``length`` are the seconds of the measurement, and with ``asleep`` the thread is not woken before its end.
    """

    def __init__(self, root: Path, watts: list[float], length: float, asleep: bool = False) -> None:
        self.root = root
        self.fs = KernelFS(str(root), read_only=True)
        self.watts = watts
        self.length = length
        self.asleep = asleep
        self.now = 1000.0
        self.begun = 1000.0
        self.at_reading: Callable[[], None] = lambda: None
        for socket, dummy in enumerate(watts):
            self.put(f"/sys/class/powercap/intel-rapl:{socket}/name", f"package-{socket}")
            self.put(f"/sys/class/powercap/intel-rapl:{socket}/max_energy_range_uj", RANGE)
            self.put(f"/sys/class/powercap/intel-rapl:{socket}:0/name", "core")
            self.put(f"/sys/class/powercap/intel-rapl:{socket}:0/energy_uj", 1)
            self.put(f"/sys/class/powercap/intel-rapl:{socket}:0/max_energy_range_uj", RANGE)
        self.count()

    def put(self, path: str, text: object) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def count(self) -> None:
        for socket, watts in enumerate(self.watts):
            counted = (RANGE - 5_000_000 + round(watts * (self.now - self.begun) * 1e6)) % (RANGE + 1)
            self.put(f"/sys/class/powercap/intel-rapl:{socket}/energy_uj", counted)

    def begin_anew(self) -> None:
        self.begun = self.now
        self.count()

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        """Pass these seconds, or the rest of the measurement; return whether it has ended."""
        end = self.begun + self.length
        self.now = end if self.asleep else min(end, self.now + seconds)
        self.count()
        self.at_reading()
        return self.now == end

    def set(self) -> None:
        """Nothing: the thread ends when the time of the measurement has passed."""

    def record(self, sockets: tuple[int, ...] = (0,)) -> energy.EnergyRecorder:
        with energy.EnergyRecorder(self.fs, sockets, self, self) as recorder:
            if recorder._sum is None:
                self.now += self.length
        return recorder


@pytest.mark.parametrize(("watts", "seconds"), [(360, 200), (360, 600), (320, 1800), (500, 60), (35, 7)])
def test_the_mean_power_is_right_after_any_number_of_wraps(tmp_path: Path, watts: float, seconds: float) -> None:
    found = Machine(tmp_path, [watts], seconds).record()
    assert (found.source, found.seconds) == ("rapl", seconds)
    assert found.joules == pytest.approx(watts * seconds, rel=0.001)


def test_only_the_sockets_of_the_instance_count(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [300.0, 100.0], 200)
    assert machine.record((1,)).joules == pytest.approx(20_000, rel=0.001)
    machine.begin_anew()
    assert machine.record((0, 1)).joules == pytest.approx(80_000, rel=0.001)
    machine.begin_anew()
    assert machine.record((7,)).joules is None


def test_a_die_belongs_to_its_package(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [200.0], 20)
    machine.put("/sys/class/powercap/intel-rapl:0/name", "package-1-die-0")
    assert machine.record((1,)).joules == pytest.approx(4000, rel=0.001)


def test_a_wrap_that_may_have_been_missed_makes_the_energy_unknown(tmp_path: Path) -> None:
    found = Machine(tmp_path, [360.0], 200, asleep=True).record()
    assert (found.joules, found.source, found.seconds) == (None, None, 200)
    assert Machine(tmp_path, [360.0], 60, asleep=True).record().joules == pytest.approx(21_600, rel=0.001)


def test_a_counter_that_goes_away_makes_the_energy_unknown(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [360.0], 200)
    machine.at_reading = lambda: (tmp_path / "sys/class/powercap/intel-rapl:0/name").unlink(missing_ok=True)
    assert machine.record().joules is None


def test_the_power_meter_of_a_host_without_counters(tmp_path: Path) -> None:
    """The meter is that of the BMC: 400 W, and from the middle of the 60 seconds on 500 W."""
    machine = Machine(tmp_path, [], 60)
    machine.put("/sys/class/hwmon/hwmon0/name", "k10temp")
    machine.put("/sys/class/hwmon/hwmon3/device/name", "power_meter")
    file = "/sys/class/hwmon/hwmon3/device/power1_average"
    machine.put(file, 400_000_000)
    machine.at_reading = lambda: machine.put(file, 500_000_000) if machine.now >= 1030 else None
    found = machine.record()
    assert (found.source, found.joules) == ("bmc", pytest.approx(15 * 400 + 15 * 450 + 30 * 500))
    machine.put("/sys/class/hwmon/hwmon4/name", "power_meter")
    machine.put("/sys/class/hwmon/hwmon4/power1_average", 1)
    machine.begin_anew()
    assert machine.record().joules is None


def test_a_meter_that_fails_makes_the_energy_unknown(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [], 60)
    machine.put("/sys/class/hwmon/hwmon3/name", "power_meter")
    machine.put("/sys/class/hwmon/hwmon3/power1_average", 400_000_000)
    machine.at_reading = lambda: machine.put("/sys/class/hwmon/hwmon3/power1_average", 0)
    assert machine.record().joules is None


def test_a_host_without_counters_and_meter(tmp_path: Path) -> None:
    found = Machine(tmp_path, [], 60).record()
    assert (found.joules, found.source, found.seconds) == (None, None, 60)


def sample(number: int, **witness: Any) -> dict[str, Any]:
    return {"round": number, "arm": "running", "start": 1, "witness": witness}


def test_tokens_per_joule_and_watts() -> None:
    """The samples of an arm in a round share one energy."""
    samples = [sample(1, joules=4000.0, seconds=10.0, tokens=500)] * 3 + [
        sample(2, joules=2000.0, seconds=5.0, tokens=100)
    ]
    assert compute_tokens_per_joule(samples) == pytest.approx(0.1)
    assert compute_mean_watts(samples) == pytest.approx(400)
    unknown = [*samples, sample(3, joules=None, seconds=5.0, tokens=100)]
    assert compute_tokens_per_joule(unknown) is None and compute_mean_watts(unknown) is None
    assert compute_tokens_per_joule([sample(1)]) is None and compute_mean_watts([]) is None
