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

from .installed import parse_unit_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..plan.instance_plan import InstancePlan

#: A start has as much, and as long as the model takes at the fastest of these rates, in bytes per second, of which its
#: disk or network gives twice as much. The first one is counted with where that is not known.
LEAST_SECONDS = 300
READ_RATES = (50_000_000, 20_000_000, 10_000_000, 5_000_000, 2_000_000, 1_000_000)
#: What a step of a start has beyond the time in which the server must serve, so that our own sentence comes first.
MARGIN_SECONDS = 30


def compute_start_timeout(service: InstancePlan) -> int:
    """Return how long the server may take until it serves: what was asked for, or what the size of its files says."""
    return int(
        service.options.start_timeout or LEAST_SECONDS + _sum_file_bytes(service) // (service.rate or READ_RATES[0])
    )


def choose_read_rate(speed: float | None) -> int:
    """Return the rate to count with where a file comes at this speed, in bytes per second."""
    return next((one for one in READ_RATES if speed is None or 2 * one <= speed), READ_RATES[-1])


def parse_read_rate(text: str | None) -> int:
    """Return the rate that the text of a unit was made with, which holds until its server is started again."""
    return int((parse_unit_plan(text or "") or {}).get("rate") or READ_RATES[0])


def _sum_file_bytes(service: InstancePlan) -> int:
    return sum(one[0] for one in service.files.values())


def compute_longest_start_cycle(service: InstancePlan) -> int:
    """Return the longest time from one start that fails to the next one."""
    options = service.options
    # A copy to huge pages is made first, and rows are read onto their nodes, each in a step of its own; to look where a
    # file is cached takes seconds.
    reads = 2 if service.staged or service.placement.policy == "rows" else 1
    stop = options.drain_timeout + options.stop_timeout
    return int(
        reads * (compute_start_timeout(service) + MARGIN_SECONDS) + MARGIN_SECONDS + stop + options.restart_seconds
    )


def compute_start_limit_interval(service: InstancePlan) -> int:
    """Return in which time starts are counted."""
    return int(
        service.options.restart_limit_seconds or service.options.restart_limit * compute_longest_start_cycle(service)
    )


def list_start_remarks(service: InstancePlan) -> list[str]:
    """Tell of files that come slowly, and of an interval that is too short for the limit to be ever reached."""
    slow = []
    if (service.rate or READ_RATES[0]) < READ_RATES[0] and not service.options.start_timeout:
        slow = [
            f"The files of {service.name} come at less than {2 * READ_RATES[0] // 10**6} MB/s, so that a start may "
            f"take {compute_start_timeout(service)} s. A local disk would give them sooner."
        ]
    if service.options.rpc_workers and service.options.restart_limit_seconds:
        return [
            *slow,
            "restart_limit_seconds has no effect with rpc_workers: such a server is started until it serves.",
        ]
    interval = compute_start_limit_interval(service)
    needed = service.options.restart_limit * compute_longest_start_cycle(service)
    if interval >= needed:
        return slow
    limit = service.options.restart_limit
    return [
        *slow,
        f"restart_limit_seconds {interval}: {limit} starts that fail late take up to {needed} s, so a server that "
        f"fails late is started for ever, and reads its model each time. Leave it out, or say {needed}.",
    ]
