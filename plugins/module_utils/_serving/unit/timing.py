# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a unit may take to start, and in which time systemd counts the starts that failed, all in seconds.

systemd gives up when a unit began more often than StartLimitBurst within StartLimitIntervalSec. A server that fails at
the end of reading a large model begins seldom: in a shorter interval it never begins often enough, and the model is
read for ever. So the interval is as long as that many starts that take all the time they have.
Source: systemd.unit(5); ratelimit_below() in src/basic/ratelimit.c of systemd.
"""

from __future__ import annotations

from .installed import plan_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..plan.instance_plan import InstancePlan

#: A start has as much, and as long as the model takes at the fastest of these rates, in bytes per second, of which its
#: disk or network gives twice as much. The first one is counted with where that is not known.
LEAST = 300
RATES = (50_000_000, 20_000_000, 10_000_000, 5_000_000, 2_000_000, 1_000_000)
#: What a step of a start has beyond the time in which the server must serve, so that our own sentence comes first.
MARGIN = 30


def start_timeout(service: InstancePlan) -> int:
    """Return how long the server may take until it serves: what was asked for, or what the size of its files says."""
    return int(service.options.start_timeout or LEAST + _total_file_bytes(service) // (service.rate or RATES[0]))


def choose_read_rate(speed: float | None) -> int:
    """Return the rate to count with where a file comes at this speed, in bytes per second."""
    return next((one for one in RATES if speed is None or 2 * one <= speed), RATES[-1])


def rate_of_unit(text: str | None) -> int:
    """Return the rate that the text of a unit was made with, which holds until its server is started again."""
    return int((plan_of(text or "") or {}).get("rate") or RATES[0])


def _total_file_bytes(service: InstancePlan) -> int:
    return sum(one[0] for one in service.files.values())


def longest_cycle(service: InstancePlan) -> int:
    """Return the longest time from one start that fails to the next one."""
    options = service.options
    # A copy to huge pages is made first, and rows are read onto their nodes, each in a step of its own; to look where a
    # file is cached takes seconds.
    reads = 2 if service.staged or service.placement.policy == "rows" else 1
    stop = options.drain_timeout + options.stop_timeout
    return int(reads * (start_timeout(service) + MARGIN) + MARGIN + stop + options.restart_seconds)


def restart_window(service: InstancePlan) -> int:
    """Return in which time starts are counted."""
    return int(service.options.restart_limit_seconds or service.options.restart_limit * longest_cycle(service))


def start_remarks(service: InstancePlan) -> list[str]:
    """Tell of files that come slowly, and of an interval that is too short for the limit to be ever reached."""
    slow = []
    if (service.rate or RATES[0]) < RATES[0] and not service.options.start_timeout:
        slow = [
            f"The files of {service.name} come at less than {2 * RATES[0] // 10**6} MB/s, so that a start may take "
            f"{start_timeout(service)} s. A local disk would give them sooner."
        ]
    if service.options.rpc_workers and service.options.restart_limit_seconds:
        return [
            *slow,
            "restart_limit_seconds has no effect with rpc_workers: such a server is started until it serves.",
        ]
    asked, need = restart_window(service), service.options.restart_limit * longest_cycle(service)
    if asked >= need:
        return slow
    return [
        *slow,
        f"restart_limit_seconds {asked}: {service.options.restart_limit} starts that fail late take up to {need} s, so "
        f"a server that fails late is started for ever, and reads its model each time. Leave it out, or say {need}.",
    ]
