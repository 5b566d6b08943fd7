# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel's messages mean. That it sends them is tested on a kernel, in tests/lab."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq import new_interrupts
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

UP, RUNNING = 0x1, 0x40


def link(kind: int, flags: int, changed: int) -> bytes:
    """Lay a message out as struct nlmsghdr and struct ifinfomsg do, with an attribute behind them."""
    body = struct.pack("<BxHiII", 0, 1, 3, flags, changed) + b"\x08\x00\x03\x00lo\x00\x00"
    return struct.pack("<IHHII", 16 + len(body), kind, 0, 0, 0) + body


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (link(16, UP | RUNNING, UP), True),
        (link(16, UP | RUNNING, RUNNING), False),  # the cable was plugged in; its driver had its interrupts before
        (link(16, RUNNING, UP), False),
        (link(17, UP, UP), False),
        (b"", False),
    ],
    ids=["up", "carrier", "down", "deleted", "empty"],
)
def test_link(message: bytes, expected: bool) -> None:
    assert new_interrupts.announces_link_up(message) is expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"bind@/devices/pci0000:00/0000:00:03.0\0ACTION=bind\0SUBSYSTEM=pci\0DRIVER=mlx5_core\0", True),
        (b"unbind@/devices/pci0000:00/0000:00:03.0\0ACTION=unbind\0SUBSYSTEM=pci\0", False),
        (b"add@/devices/pci0000:00/0000:00:03.0\0ACTION=add\0SUBSYSTEM=pci\0", False),
    ],
)
def test_bind(message: bytes, expected: bool) -> None:
    assert new_interrupts.announces_driver_bind(message) is expected


@pytest.mark.parametrize("why", ["no such plan", "no such CPU"])
def test_a_look_that_cannot_keep_to_the_housekeeping_is_made_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    asked: list[tuple[int, ...]] = []

    def refuse(process: int, cpus: tuple[int, ...]) -> None:
        asked.append(cpus)
        raise OSError(errno.EINVAL, "no such CPU")

    monkeypatch.setattr(new_interrupts.os, "sched_setaffinity", refuse)
    intent = {"housekeeping": {"cores": 9}} if why == "no such plan" else {}
    new_interrupts.pin_own_process_to_housekeeping(Host(hosts.small(tmp_path).fs, intent))
    assert asked == ([] if intent else [(0,)])


class Listener:
    def __init__(self, code: int) -> None:
        self.code = code

    def recv(self, size: int) -> bytes:
        raise OSError(self.code, "no message")


def test_messages_that_were_lost_may_have_been_of_interrupts() -> None:
    assert (
        new_interrupts.next_message_announces_interrupts(Listener(errno.ENOBUFS), new_interrupts.announces_driver_bind)
        is True
    )  # type: ignore[arg-type]
    with pytest.raises(OSError, match="no message"):
        new_interrupts.next_message_announces_interrupts(Listener(errno.ENETDOWN), new_interrupts.announces_driver_bind)  # type: ignore[arg-type]
