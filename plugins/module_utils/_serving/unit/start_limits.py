# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes how long a unit may take to start, and the interval in which systemd counts its failed starts, in seconds.

systemd gives up when a unit started more often than StartLimitBurst within StartLimitIntervalSec. A server that fails
at the end of reading a large model starts seldom: within a short interval it never starts often enough, and the model
would be read for ever. So the interval has room for that many starts of the longest duration.

A server that fails at once must be started for longer than a minute, because much of what makes a start fail ends by
itself within a minute, such as connections in TIME_WAIT or memory that an ended process gives back. So the defaults of
restart_limit and restart_seconds give 15 pauses of 5 seconds. The pauses have the same length: with RestartSteps of
systemd they would grow with every restart since the last start by hand, so that the fifth crash within a year would be
followed by the longest pause.

Source: systemd.unit(5), systemd.service(5); ratelimit_below() in src/basic/ratelimit.c and flush_n_restarts in
src/core/service.c of systemd.
"""

from __future__ import annotations

from ..hooks.read_progress import count_model_bytes
from .installed import parse_unit_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..plan.instance_plan import InstancePlan

#: A start has LEAST_SECONDS, and the time that reading the model takes at the fastest of these rates (bytes per second)
#: that is at most half of the measured speed of its disk. Without a measurement the first rate counts.
LEAST_SECONDS = 300
READ_RATES = (50_000_000, 20_000_000, 10_000_000, 5_000_000, 2_000_000, 1_000_000)
#: systemd gives each step this much more time than the hook that waits, so that the message of the hook comes first.
MARGIN = 30
#: The seconds in which a server that serves must give its first answer. Requests of clients take turns with it.
FIRST_ANSWER_SECONDS = 60
#: The seconds for which a start waits at most for connections that ended at its port: Linux keeps them for 60.
LONGEST_PORT_WAIT = 75


def compute_start_timeout(service: InstancePlan) -> int:
    """Return how long the server may take until it serves: the option, or an estimate from the size of its files."""
    size = count_model_bytes(service.files)
    return int(service.options.start_timeout or LEAST_SECONDS + size // (service.rate or READ_RATES[0]))


def choose_read_rate_for_speed(speed: float | None) -> int:
    """Return the rate with which start times are computed, for a measured speed in bytes per second or None."""
    return next((rate for rate in READ_RATES if speed is None or 2 * rate <= speed), READ_RATES[-1])


def parse_read_rate_of_unit(text: str | None) -> int:
    """Return the rate in the text of a unit, which stays valid until its server is restarted."""
    return int((parse_unit_plan(text or "") or {}).get("rate") or READ_RATES[0])


def compute_longest_failing_start_cycle(service: InstancePlan) -> int:
    """Return the longest time from one failing start to the next."""
    options = service.options
    # Copying a model to huge pages, or reading rows onto their nodes, is a step before the start. A server that copies
    # its weights to each node may take as long. Only a check of the page cache takes no more than seconds.
    reads = 2 if service.staged or service.placement.policy in ("rows", "mirror") else 1
    stop = options.drain_timeout + options.stop_timeout
    port_wait = LONGEST_PORT_WAIT if service.port_reuse else 0
    start = reads * (compute_start_timeout(service) + MARGIN) + FIRST_ANSWER_SECONDS + MARGIN
    return int(port_wait + start + stop + options.restart_seconds)


def compute_start_limit_interval(service: InstancePlan) -> int:
    """Return the interval in which systemd counts starts."""
    return int(
        service.options.restart_limit_seconds
        or service.options.restart_limit * compute_longest_failing_start_cycle(service)
    )


def list_slow_start_remarks(service: InstancePlan) -> list[str]:
    """Return remarks on slow files, and on an interval that is too short to ever reach the limit of starts."""
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
    needed = service.options.restart_limit * compute_longest_failing_start_cycle(service)
    if interval >= needed:
        return slow
    limit = service.options.restart_limit
    return [
        *slow,
        f"restart_limit_seconds {interval}: {limit} starts that fail late take up to {needed} s, so a server that "
        f"fails late is started for ever, and reads its model each time. Leave it out, or say {needed}.",
    ]
