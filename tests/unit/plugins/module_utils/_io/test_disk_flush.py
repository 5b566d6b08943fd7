# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Freezing and thawing with an ioctl that only writes down its calls: no file system of this machine is frozen.

That the file system then holds what a boot loader reads is tested with a power cut, in tests/lab/test_faults.py.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io import command, disk_flush

NAMES = {disk_flush.FIFREEZE: "freeze", disk_flush.FITHAW: "thaw"}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each call, also of a child."""
    path = tmp_path / "log"
    path.touch()

    def ioctl(file: int, request: int, argument: int = 0) -> int:
        with path.open("a") as lines:
            lines.write(f"{NAMES[request]}\n")
        return 0

    def run(words: list[str]) -> str:
        with path.open("a") as lines:
            lines.write(f"{words[0]}\n")
        return ""

    monkeypatch.setattr(disk_flush.fcntl, "ioctl", ioctl)
    monkeypatch.setattr(command, "run_command", run)
    return path


def failing(real: Callable[..., int], number: int) -> Callable[..., int]:
    """An ioctl of a file system that refuses to be frozen."""

    def ioctl(file: int, request: int, argument: int = 0) -> int:
        real(file, request, argument)
        raise OSError(number, os.strerror(number))

    return ioctl


def test_each_file_system_is_synced_frozen_and_thawed_once(log: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("grub.cfg", "grubenv")]
    for path in paths:
        path.touch()
    assert disk_flush.flush_to_disk([*map(str, paths), str(tmp_path / "not there")]) is None
    assert log.read_text().split() == ["sync", "freeze", "thaw"]


@pytest.mark.parametrize(
    ("number", "why"),
    [(errno.EOPNOTSUPP, None), (errno.EBUSY, "Device or resource busy"), (errno.EPERM, "Operation not permitted")],
)
def test_a_file_system_that_is_not_frozen_is_not_thawed(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str | None
) -> None:
    """Another program may have frozen it. One that knows no freezing has nothing that freezing would write."""
    monkeypatch.setattr(disk_flush.fcntl, "ioctl", failing(disk_flush.fcntl.ioctl, number))
    assert disk_flush.flush_to_disk([str(tmp_path)]) == why
    assert log.read_text().split() == ["sync", "freeze"]


def test_it_is_thawed_when_the_process_is_killed_in_between(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = disk_flush.fcntl.ioctl

    def fatal(file: int, request: int, argument: int = 0) -> int:
        real(file, request, argument)
        if request == disk_flush.FIFREEZE:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    monkeypatch.setattr(disk_flush.fcntl, "ioctl", fatal)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        disk_flush.flush_to_disk([str(tmp_path)])
        os._exit(0)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert os.read(reading, 1) == b""  # The grandchild held it open until it ended.
    os.close(reading)
    assert log.read_text().split() == ["sync", "freeze", "thaw"]


def test_what_cannot_be_flushed_is_told(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(disk_flush.textfile, "flush_path", full)
    why = disk_flush.flush_to_disk([str(tmp_path)])
    assert why == "Input/output error"
    assert "if the power fails within the next minute" in disk_flush.unflushed_message("/boot/grub/grub.cfg", why)
