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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..plan.service import Service

#: A start has as much, and as long as a slow disk or network takes for the model, in bytes per second.
LEAST = 300
SLOWEST = 50_000_000
#: What a step of a start has beyond the time in which the server must serve, so that our own sentence comes first.
MARGIN = 30


def start_timeout(service: Service) -> int:
    """Return how long the server may take until it serves: what was asked for, or what the size of its files says."""
    size = sum(one[0] for one in service.files.values())
    return int(service.options.start_timeout or LEAST + size // SLOWEST)


def longest_cycle(service: Service) -> int:
    """Return the longest time from one start that fails to the next one."""
    options = service.options
    # A copy to huge pages is made first, and rows are read onto their nodes, each in a step of its own; to look where a
    # file is cached takes seconds.
    reads = 2 if service.staged or service.placement.policy == "rows" else 1
    stop = options.drain_timeout + options.stop_timeout
    return int(reads * (start_timeout(service) + MARGIN) + MARGIN + stop + options.restart_seconds)


def interval(service: Service) -> int:
    """Return in which time starts are counted."""
    return int(service.options.restart_limit_seconds or service.options.restart_limit * longest_cycle(service))


def remarks(service: Service) -> list[str]:
    """Tell of an interval that was asked for and is too short for the limit to be ever reached."""
    if service.options.rpc_workers and service.options.restart_limit_seconds:
        return ["restart_limit_seconds has no effect with rpc_workers: such a server is started until it serves."]
    asked, need = interval(service), service.options.restart_limit * longest_cycle(service)
    if asked >= need:
        return []
    return [
        f"restart_limit_seconds {asked}: {service.options.restart_limit} starts that fail late take up to {need} s, so "
        f"a server that fails late is started for ever, and reads its model each time. Leave it out, or say {need}."
    ]
