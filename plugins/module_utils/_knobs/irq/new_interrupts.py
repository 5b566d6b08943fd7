# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The times to look for new interrupts, by the kernel's events on two netlink sockets and by a timer.

Most drivers request their interrupts when they are bound to a device, which a uevent announces. Many drivers of network
cards wait until the link is switched on, which only rtnetlink announces. Other new interrupts, such as those of a
changed number of queues, have no event and are found by the timer. Sources: lib/kobject_uevent.c and
net/core/rtnetlink.c of the Linux kernel, rtnetlink(7).
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from ..._errors import TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from ..._host.host import Host

#: Seconds between an event and the look, because a driver requests its last interrupts a little later.
SETTLED = 1.0
#: Seconds between two looks without an event.
PERIOD = 300.0
#: Seconds between two looks for threads of units, whose start no event of the kernel announces.
SHORT = 15.0

NETLINK_KOBJECT_UEVENT = 15
KERNEL_GROUP = 1
RTMGRP_LINK = 1
RTM_NEWLINK = 16
IFF_UP = 1


def yield_when_irqs_may_be_new(has_awaited_threads: Callable[[], bool]) -> Iterator[bool]:
    """Yield True at once, and whenever it is time to look for new interrupts; never return.

    While ``has_awaited_threads`` returns True, yield False every few seconds in between, to look for threads of units.
    """
    import select
    import socket
    import time

    listeners: dict[socket.socket, Callable[[bytes], bool]] = {
        _open_listener(NETLINK_KOBJECT_UEVENT, KERNEL_GROUP): announces_driver_bind,
        _open_listener(socket.NETLINK_ROUTE, RTMGRP_LINK): announces_link_up,
    }
    due = time.monotonic()
    while True:
        if time.monotonic() >= due:
            yield True
            due = time.monotonic() + PERIOD
        wait = max(0.0, due - time.monotonic())
        if wait > SHORT and has_awaited_threads():
            wait = SHORT
        ready = select.select(listeners, [], [], wait)[0]
        if not ready and time.monotonic() < due:
            yield False
        for listener in ready:
            if next_message_announces_interrupts(listener, listeners[listener]):
                # Later events do not delay this look; they lead to another look.
                due = min(due, time.monotonic() + SETTLED)


def pin_own_process_to_housekeeping(host: Host) -> None:
    """Run this process on the housekeeping CPUs, if there is a plan, so that it disturbs no computing thread.

    A look for new interrupts reads a few files for each interrupt, and hosts have thousands.
    """
    with suppress(TuningError, OSError):
        if host.plan.housekeeping:
            os.sched_setaffinity(0, host.plan.housekeeping)


def next_message_announces_interrupts(listener: socket.socket, is_announcement: Callable[[bytes], bool]) -> bool:
    """Receive a message, and return whether it announces interrupts; True too if the kernel has dropped messages."""
    try:
        return is_announcement(listener.recv(1 << 16))
    except OSError as error:
        if error.errno == errno.ENOBUFS:
            return True
        raise


def announces_driver_bind(message: bytes) -> bool:
    """Return whether a uevent says that a driver was bound to a device."""
    return message.startswith(b"bind@")


def announces_link_up(message: bytes) -> bool:
    """Return whether an rtnetlink message says that a link was switched on just now.

    The message is a struct nlmsghdr of 16 bytes and a struct ifinfomsg, with flags and changed flags at 8 and 12.
    """
    kind, flags, changed = (int.from_bytes(message[at:end], "little") for at, end in ((4, 6), (24, 28), (28, 32)))
    return kind == RTM_NEWLINK and bool(flags & changed & IFF_UP)


def _open_listener(protocol: int, group: int) -> socket.socket:
    import socket

    listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    listener.bind((0, group))
    return listener
