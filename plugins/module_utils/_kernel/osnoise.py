# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The noise of CPUs as the kernel measures it itself, by its tracer osnoise: what a thread that wants all of one loses.

The tracer has a thread on each CPU look at the clock without end for a second, and counts the gaps that it sees. So the
CPUs have no time for anything else meanwhile, and of what runs there anyway it tells how long and by what.
Source: Documentation/trace/osnoise-tracer.rst of the Linux kernel, which has it from 5.14 on.
"""

from __future__ import annotations

import re
import time

from .._errors import Absent, TuningError
from .._notation import cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .._io.kernelfs import KernelFS

TRACING = "/sys/kernel/tracing"
CPUS = f"{TRACING}/osnoise/cpus"
#: A trace of our own, beside those of others.
OURS = f"{TRACING}/instances/sovereign-epyc"
LARGEST = 16 << 20
#: A second of a CPU: microseconds that it was looked at and that were lost, the share that was left, the longest gap,
#: and how often hardware, NMIs, interrupts, soft interrupts and threads took them.
SECOND = re.compile(r"^\s*osnoise/(\d+)-\d+ .*?: +(\d+) +(\d+) +[\d.]+" + r" +(\d+)" * 6 + r" *$", re.MULTILINE)
NAMES = ("runtime", "noise", "longest", "hardware", "nmi", "interrupts", "softirqs", "threads")


def measure(fs: KernelFS, cpus: Iterable[int], seconds: int, clock: Any = time) -> dict[int, dict[str, int]]:
    """Return by CPU the microseconds and counts of NAMES over some seconds; ``longest`` is the longest gap of all.

    The tracer is as it was before when this returns. TuningError where the kernel has no such tracer or a CPU tells
    nothing.
    """
    wanted = sorted(cpus)
    if "osnoise" not in (fs.find(f"{TRACING}/available_tracers") or "").split():
        raise Absent(
            f"This kernel has no tracer osnoise ({TRACING}/available_tracers): it is older than 5.14, was built "
            "without it, or tracefs is not mounted. The item jitter of verify.yml does without."
        )
    before = fs.read(CPUS)
    if fs.is_dir(OURS):
        fs.rmdir(OURS)  # It was killed, and its tracer ends with this.
    fs.write(CPUS, cpulist.render(wanted))
    try:
        fs.mkdir(OURS)
        try:
            fs.write(f"{OURS}/current_tracer", "osnoise")
            # The first second is told when it is over.
            clock.sleep(seconds + 0.5)
            fs.write(f"{OURS}/tracing_on", "0")
            text = fs.read(f"{OURS}/trace", LARGEST)
        finally:
            fs.rmdir(OURS)
    finally:
        fs.write(CPUS, before)
    found = parse(text)
    silent = [cpu for cpu in wanted if cpu not in found]
    if silent:
        raise TuningError(
            f"The tracer osnoise tells nothing of CPU {cpulist.render(silent)} in {seconds} s: ask for more seconds. A "
            "task with a real-time priority that never sleeps keeps it out."
        )
    return found


def parse(trace: str) -> dict[int, dict[str, int]]:
    """Return what the lines of a trace say of each CPU together."""
    found: dict[int, dict[str, int]] = {}
    for match in SECOND.finditer(trace):
        cpu, *numbers = (int(word) for word in match.groups())
        sums = found.setdefault(cpu, dict.fromkeys(NAMES, 0))
        for name, number in zip(NAMES, numbers):
            sums[name] = max(sums[name], number) if name == "longest" else sums[name] + number
    return found


def table(found: dict[int, dict[str, int]]) -> str:
    """Return it for people: the noisiest CPUs first, counts by second."""
    lines = ["CPU   noise   longest  interrupts  softirqs  threads  hardware"]
    for cpu, row in sorted(found.items(), key=lambda item: (-item[1]["noise"] / item[1]["runtime"], item[0])):
        share, each = row["noise"] / row["runtime"], 1e6 / row["runtime"]
        counts = (row["interrupts"] + row["nmi"], row["softirqs"], row["threads"], row["hardware"])
        cells = "".join(f"{count * each:>{width}.0f}" for count, width in zip(counts, (12, 10, 9, 10)))
        lines.append(f"{cpu:<4}{share:>7.3%}{row['longest']:>7} us{cells}")
    return "\n".join(lines)
