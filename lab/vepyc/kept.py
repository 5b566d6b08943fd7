# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What guests compiled (bytecode.py), given to the next ones: kernels stand for a release, and that for a Python."""

from __future__ import annotations

import io
import subprocess
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .paths import directory, locked

if TYPE_CHECKING:
    from .machine import Machine

_PARENT, _NAME = "/dev/shm", "vepyc-bytecode"
_COUNT = f"ls {_PARENT}/{_NAME} 2>/dev/null | wc -l"
_GIVEN = "/run/vepyc-given"
#: Sources change, and nobody asks for what the old ones were compiled to.
_SECONDS = 30 * 86400
_TIMEOUT = 30


def give(machine: Machine) -> None:
    """Give a machine what others of its release have compiled."""
    packed = io.BytesIO()
    with locked(_lock(machine)), tarfile.open(fileobj=packed, mode="w") as archive:
        for file in _folder(machine).iterdir():
            if file.stat().st_mtime < time.time() - _SECONDS:
                file.unlink()
            else:
                archive.add(file, f"{_NAME}/{file.name}")
    _ssh(machine, f"tar -xC {_PARENT}; {_COUNT} >{_GIVEN}", packed.getvalue())


def take(machine: Machine) -> None:
    """Keep what a machine has compiled since, if it still answers."""
    if not (machine.run_dir.path / "ssh.sock").exists():
        return
    news = f"[ $({_COUNT}) -gt $(cat {_GIVEN}) ] && tar -cC {_PARENT} --newer {_GIVEN} {_NAME}"
    packed = _ssh(machine, news)
    if packed:
        with locked(_lock(machine)), tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for member in archive.getmembers():
                if member.isfile() and (content := archive.extractfile(member)):
                    (_folder(machine) / Path(member.name).name).write_bytes(content.read())


def _folder(machine: Machine) -> Path:
    return directory("bytecode", machine.kernel)


def _lock(machine: Machine) -> str:
    return f"bytecode-{machine.kernel}"


def _ssh(machine: Machine, command: str, given: bytes = b"") -> bytes:
    """What a command printed; nothing when it failed, because none of this is needed."""
    try:
        done = subprocess.run(
            [*machine.ssh_command(), command],
            cwd=machine.run_dir.path,
            input=given,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""
