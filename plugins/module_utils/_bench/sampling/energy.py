# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The energy that a measurement takes, from counters of the processor packages or from the power meter of the host.

An energy counter wraps: that of an EPYC after 65.5 kJ, which is three minutes at 360 W. A thread therefore reads the
counters several times in the shortest time in which they can wrap, and the differences are summed. A host without
counters may have a power meter (ACPI), with which its BMC reports the power of the whole machine without a password.

Source: Documentation/power/powercap/powercap.rst and Documentation/hwmon/acpi_power_meter.rst of the Linux kernel.
"""

from __future__ import annotations

import threading

from ..._errors import Absent, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType
    from typing import Any

    from ..._io.kernelfs import KernelFS

    #: Microjoules by package, and the value at which the counter wraps.
    Counters = dict[str, tuple[int, int]]

POWERCAP, HWMON = "/sys/class/powercap", "/sys/class/hwmon"
#: The name of a package in powercap, and that of a power meter in hwmon.
PACKAGE_PREFIX, METER_NAME = "package-", "power_meter"
MICRO = 1_000_000
#: No package takes more watts for seconds; the limits of all EPYC processors are below.
MOST_PACKAGE_WATTS = 1000
#: The most seconds between two readings, and the readings in the shortest time in which a counter can wrap.
LONGEST_INTERVAL, READINGS_PER_WRAP = 60.0, 4
RAPL, BMC = "rapl", "bmc"


def read_energy_counters(fs: KernelFS, sockets: Collection[int]) -> Counters:
    """Return the energy counters of the processor packages in these sockets."""
    found = {}
    for name in fs.list_names(POWERCAP):
        folder = f"{POWERCAP}/{name}"
        try:
            if _package_number(fs.read_if_present(f"{folder}/name") or "") in sockets:
                found[name] = int(fs.read(f"{folder}/energy_uj")), int(fs.read(f"{folder}/max_energy_range_uj"))
        except (Absent, Refused):
            continue
    return found


def _package_number(name: str) -> int | None:
    """Return the socket of the counter of a package, or of a die in it; None for parts of a package, such as cores."""
    word = name[len(PACKAGE_PREFIX) :].partition("-")[0]
    return int(word) if name.startswith(PACKAGE_PREFIX) and word.isdigit() else None


def find_power_meter(fs: KernelFS) -> str | None:
    """Return the file with the mean power of the machine in microwatts; None unless exactly one meter has it."""
    found = []
    for name in fs.list_names(HWMON):
        for folder in (f"{HWMON}/{name}", f"{HWMON}/{name}/device"):
            try:
                if fs.read_if_present(f"{folder}/name") == METER_NAME and fs.read_if_present(
                    f"{folder}/power1_average"
                ):
                    found.append(f"{folder}/power1_average")
                    break
            except Refused:
                continue
    return found[0] if len(found) == 1 else None


class CounterSum:
    """The energy of all packages since the first reading of their counters; ``joules`` is None after a missed wrap."""

    source = RAPL

    def __init__(self, fs: KernelFS, sockets: Collection[int], counters: Counters, moment: float) -> None:
        self.joules: float | None = 0.0
        self._fs = fs
        self._sockets = sockets
        self._counters = counters
        self._moment = moment

    @property
    def interval(self) -> float:
        """The seconds between two readings with which no wrap can be missed."""
        return min(LONGEST_INTERVAL, *(self._shortest_wrap(name) / READINGS_PER_WRAP for name in self._counters))

    def add_reading(self, moment: float) -> None:
        """Read the counters and add what they counted since the last reading."""
        counters = read_energy_counters(self._fs, self._sockets)
        seconds = moment - self._moment
        if set(counters) != set(self._counters) or any(seconds > self._shortest_wrap(name) for name in counters):
            self.joules = None
        if self.joules is not None:
            used = ((value - self._counters[name][0]) % (most + 1) for name, (value, most) in counters.items())
            self.joules += sum(used) / MICRO
        self._counters, self._moment = counters or self._counters, moment

    def _shortest_wrap(self, name: str) -> float:
        """Return the seconds in which the counter wraps at the highest power."""
        return self._counters[name][1] / MICRO / MOST_PACKAGE_WATTS


class MeterSum:
    """The energy of the machine by its power meter, at each reading the mean power since the reading before."""

    source = BMC
    interval = LONGEST_INTERVAL / READINGS_PER_WRAP

    def __init__(self, fs: KernelFS, file: str, moment: float) -> None:
        self.joules: float | None = 0.0
        self._fs = fs
        self._file = file
        self._moment = moment
        self._watts = self._read_watts()

    def add_reading(self, moment: float) -> None:
        """Read the meter and add the energy since the last reading."""
        watts = self._read_watts()
        if watts is None or self._watts is None:
            self.joules = None
        elif self.joules is not None:
            self.joules += (watts + self._watts) / 2 * (moment - self._moment)
        self._watts, self._moment = watts, moment

    def _read_watts(self) -> float | None:
        try:
            return int(self._fs.read(self._file)) / MICRO or None
        except (Absent, Refused, ValueError):
            return None


def begin_energy_sum(fs: KernelFS, sockets: Collection[int], moment: float) -> CounterSum | MeterSum | None:
    """Return the sum of energy that this host can count from now on; None for a host without counters and meter."""
    counters = read_energy_counters(fs, sockets)
    if counters:
        return CounterSum(fs, sockets, counters, moment)
    file = find_power_meter(fs)
    return MeterSum(fs, file, moment) if file else None


class EnergyRecorder:
    """Records the energy while a block runs; ``joules`` and ``source`` are None where it is not known.

    ``seconds`` is the length of the block. ``stop`` is an event by which the block ends the thread that reads.
    """

    def __init__(self, fs: KernelFS, sockets: Collection[int], clock: Any, stop: Any = None) -> None:
        self.joules: float | None = None
        self.source: str | None = None
        self.seconds = 0.0
        self._clock = clock
        self._stop = stop or threading.Event()
        self._begun = clock.monotonic()
        self._sum = begin_energy_sum(fs, sockets, self._begun)
        self._thread = threading.Thread(target=self._read_until_stopped, daemon=True)

    def __enter__(self) -> EnergyRecorder:
        if self._sum:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._sum:
            self._thread.join()
        end = self._clock.monotonic()
        self.seconds = end - self._begun
        if self._sum:
            self._sum.add_reading(end)
            self.joules = self._sum.joules
            self.source = None if self.joules is None else self._sum.source

    def _read_until_stopped(self) -> None:
        while self._sum and not self._stop.wait(self._sum.interval):
            self._sum.add_reading(self._clock.monotonic())
