# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands the bytecode that guests have compiled (bytecode.py) on to the guests that start after them.

Bytecode fits one version of Python. Guests with the same kernel are of the same Debian release and so have the same
Python, so there is one folder of bytecode for each kernel.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from .paths import directory, locked

_PARENT, _NAME = "/root", ".vepyc-bytecode"
_COUNT = f"ls {_PARENT}/{_NAME} 2>/dev/null | wc -l"
_GIVEN = "/root/.vepyc-given"
#: A file this old belongs to a source that has changed since.
_SECONDS = 30 * 86400
_TIMEOUT = 30


class Kept:
    """The kept bytecode of one kernel, and the guest that gets it and adds to it."""

    def __init__(self, ssh: Sequence[str], run_folder: Path, kernel: str) -> None:
        """``ssh`` is the command that reaches the guest; it has to be run in ``run_folder``."""
        self.ssh = ssh
        self.run_folder = run_folder
        self.folder = directory("bytecode", kernel)
        self.lock = f"bytecode-{kernel}"

    def give(self) -> None:
        """Copy all of it into the guest."""
        packed = io.BytesIO()
        with locked(self.lock), tarfile.open(fileobj=packed, mode="w") as archive:
            for file in self.folder.iterdir():
                if file.stat().st_mtime < time.time() - _SECONDS:
                    file.unlink()
                else:
                    archive.add(file, f"{_NAME}/{file.name}")
        self._run(f"tar -xC {_PARENT}; {_COUNT} >{_GIVEN}", packed.getvalue())

    def take(self) -> None:
        """Keep what the guest has compiled since, if it still answers."""
        packed = self._run(f"[ $({_COUNT}) -gt $(cat {_GIVEN}) ] && tar -cC {_PARENT} --newer {_GIVEN} {_NAME}")
        if packed:
            with locked(self.lock), tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                for member in archive.getmembers():
                    if member.isfile() and (content := archive.extractfile(member)):
                        (self.folder / Path(member.name).name).write_bytes(content.read())

    def _run(self, command: str, given: bytes = b"") -> bytes:
        """What a command in the guest printed; nothing when it failed, because no guest depends on any of this."""
        try:
            done = subprocess.run(
                [*self.ssh, command],
                cwd=self.run_folder,
                input=given,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return b""
        return done.stdout if done.returncode == 0 else b""
