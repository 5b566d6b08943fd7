# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Witnesses of a round: what else the host did while a server was measured, read before and after.

They know nothing of the arm, so that no result can decide whether its round counts. What cannot be read speaks against
the round, with the reason: it never counts as fine.
Source: Documentation/filesystems/proc.rst (/proc/stat, /proc/vmstat) of the Linux kernel, and tools/server/README.md of
llama.cpp (/metrics).
"""

from __future__ import annotations

import time

from .._errors import Absent
from .._kernel import cgroups, numa_maps, threads
from .._llama.hooks import http as server_http
from .._notation import cpulist
from . import sensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .answer import Server

#: Words of the first line of /proc/stat that count work. Idle, iowait and steal are none, and guests are in user.
WORK = (1, 2, 3, 6, 7)
STEAL = 8
SWAPPED = ("pswpin", "pswpout")
#: Tokens that the server has read and made in its life.
COUNTERS = ("llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total")
METRICS_TIMEOUT = 30.0
KINDS = ("weights", "anonymous")


class Reading:
    """What there was at one moment. Times are seconds since the start of the host or of the program.

    ``busy`` and ``stolen`` are those of all CPUs, ``service`` that of the unit, ``own`` that of this program.
    ``allowed`` holds the CPUs of each thread, ``main`` process and start of the oldest one. ``tokens`` and ``waiting``
    are None where the server does not tell them, and ``pages`` and ``huge_kb`` where the kernel does not; the kB of
    ``pages`` are by node.
    """

    def __init__(self, fs: KernelFS, unit: str, models: Iterable[str], clock: Any) -> None:
        self.moment = clock.monotonic()
        self.own = clock.process_time()
        words = fs.read("/proc/stat").splitlines()[0].split()
        self.busy = sum(int(words[at]) for at in WORK) / threads.TICKS_PER_SECOND
        self.stolen = int(words[STEAL]) / threads.TICKS_PER_SECOND
        self.service = cgroups.seconds_of(fs, unit)
        counts = dict(line.split() for line in fs.read("/proc/vmstat").splitlines())
        self.swapped = sum(int(counts.get(name, 0)) for name in SWAPPED)
        found = threads.sample(fs, cgroups.processes_of(fs, unit))
        self.allowed = {key: thread.allowed for key, thread in found.items()}
        processes = [thread for thread in found.values() if thread.tid == thread.process]
        if not processes:
            raise Absent(f"The unit {unit} has no process: it ended while it was measured. Its journal says why.")
        oldest = min(processes, key=lambda thread: (int(thread.started), thread.tid))
        self.main = oldest.tid, oldest.started
        memory = numa_maps.read(fs, oldest.tid, models)
        self.unread = "; ".join(memory.missing.values())
        self.pages: dict[int, int] | None = None
        if memory.kinds is not None:
            self.pages = {}
            for kind in KINDS:
                for node, size in memory.kinds[kind].nodes.items():
                    self.pages[node] = self.pages.get(node, 0) + size // 1024
        self.huge_kb = None if memory.huge is None else sum(memory.huge.values()) // 1024
        self.cycles = sensors.cycles(fs, sorted({cpu for cpus in self.allowed.values() for cpu in cpus}))
        self.energy = sensors.energy(fs)
        self.tokens: tuple[float, float] | None = None
        self.waiting: int | None = None

    def ask(self, server: Server) -> None:
        """Read the counters of the server too."""
        status, text = server_http.ask(server.url, "/metrics", METRICS_TIMEOUT, server.key)
        numbers = server_http.parse_metrics(text) if status == 200 else {}
        if all(name in numbers for name in (*COUNTERS, server_http.IN_WORK[0])):
            self.tokens = numbers[COUNTERS[0]], numbers[COUNTERS[1]]
            self.waiting = server_http.in_work(server.url, text)


def look(fs: KernelFS, unit: str, server: Server, models: Iterable[str] = (), clock: Any = time) -> Reading:
    """Read everything once; BadRequest or Absent where the unit does not run."""
    reading = Reading(fs, unit, models, clock)
    reading.ask(server)
    return reading


def witness(fs: KernelFS, before: Reading, after: Reading, settings_sha256: str | None = None) -> dict[str, Any]:
    """Return what the samples between two readings keep of them. Shares are of 1; None is unknown."""
    pages = after.pages
    return {
        "others": _rounded(others(before, after)),
        "steal": _rounded(steal(before, after)),
        "freq_mhz": sensors.mhz(fs, before.cycles, after.cycles),
        "watts": sensors.watts(before.energy, after.energy, after.moment - before.moment),
        "pages_by_node": None if pages is None else {str(node): pages[node] for node in sorted(pages)},
        "huge_kb": after.huge_kb,
        "settings_sha256": settings_sha256,
    }


def others(before: Reading, after: Reading) -> float | None:
    """Return the processor time of all other programs, as a share of the service's; None where that had none.

    The time of this program is not in it: it may be what asks the server.
    """
    service = after.service - before.service
    own = after.own - before.own
    return max(0.0, after.busy - before.busy - service - own) / service if service > 0 else None


def steal(before: Reading, after: Reading) -> float:
    """Return the share of the time that CPUs had work in which the hypervisor gave them to somebody else."""
    stolen = after.stolen - before.stolen
    wanted = after.busy - before.busy + stolen
    return stolen / wanted if wanted > 0 else 0.0


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 5)


# Rules


class Limits:
    """How much is too much: shares of 1. ``nodes`` are those on which the memory is planned, None for any."""

    __slots__ = ("astray", "nodes", "others", "steal")

    def __init__(
        self, nodes: Collection[int] | None = None, others: float = 0.02, steal: float = 0.005, astray: float = 0.05
    ) -> None:
        self.nodes = nodes
        self.others = others
        self.steal = steal
        self.astray = astray


def objections(before: Reading, after: Reading, asked: tuple[int, int], limits: Limits) -> list[str]:
    """Return why a round does not count, a sentence each; none where it does.

    ``asked`` are the tokens that all requests between the two readings had the server read and make, also those that
    warmed it up.
    """
    found = [
        _served_by_one(before, after),
        _disturbed(before, after, limits),
        _stolen(before, after, limits),
        _swapped(before, after),
        _foreign(before, after, asked),
        _moved(before, after),
        _astray(after, limits),
    ]
    return [sentence for sentence in found if sentence]


def _served_by_one(before: Reading, after: Reading) -> str:
    if before.main == after.main:
        return ""
    return f"Process {before.main[0]} of the service was replaced by {after.main[0]}: the server began anew."


def _disturbed(before: Reading, after: Reading, limits: Limits) -> str:
    share = others(before, after)
    if share is None:
        return "The service used no processor time: another server answered, or nothing was asked."
    if share <= limits.others:
        return ""
    return f"Other programs used {share:.1%} of the processor time of the service, more than {limits.others:.1%}."


def _stolen(before: Reading, after: Reading, limits: Limits) -> str:
    share = steal(before, after)
    if share <= limits.steal:
        return ""
    return f"The hypervisor kept {share:.1%} of the processor time from this machine, more than {limits.steal:.1%}."


def _swapped(before: Reading, after: Reading) -> str:
    pages = after.swapped - before.swapped
    return f"The host swapped {pages} pages." if pages else ""


def _foreign(before: Reading, after: Reading, asked: tuple[int, int]) -> str:
    if before.tokens is None or after.tokens is None:
        return "Requests of others cannot be seen: the server tells no counters; start it with --metrics."
    waiting = (before.waiting or 0) + (after.waiting or 0)
    if waiting:
        return f"{waiting} requests of others were in progress, before or after the round."
    more = [late - early - ours for early, late, ours in zip(before.tokens, after.tokens, asked)]
    if min(more) < 0:
        return "The server counted fewer tokens than were asked of it: it began anew, or another one answered."
    if max(more) > 0:
        return f"Others asked the server too: it read {more[0]:.0f} and made {more[1]:.0f} tokens that were not ours."
    return ""


def _moved(before: Reading, after: Reading) -> str:
    changed = [key for key, cpus in after.allowed.items() if before.allowed.get(key, cpus) != cpus]
    if not changed:
        return ""
    first = min(changed)
    was, now = (cpulist.render(reading.allowed[first]) for reading in (before, after))
    return f"{len(changed)} threads may run elsewhere than before: thread {first[0]} on CPUs {now} instead of {was}."


def _astray(after: Reading, limits: Limits) -> str:
    if limits.nodes is None:
        return ""
    if after.pages is None:
        return f"Nobody knows where the memory of the service lies: {after.unread}"
    total = sum(after.pages.values())
    wrong = sum(kb for node, kb in after.pages.items() if node not in limits.nodes)
    if wrong <= limits.astray * total:
        return ""
    return f"{wrong / total:.1%} of the service's memory lies on other nodes than {cpulist.render(limits.nodes)}."
