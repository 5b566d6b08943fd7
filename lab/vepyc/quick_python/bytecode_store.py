# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caches the bytecode that guests have compiled (bytecode.py), and sends it to guests that start later.

Bytecode fits one version of Python. Guests with the same kernel are of the same Debian release and so have the same
Python, so there is one folder of bytecode for each kernel.
"""

from __future__ import annotations

import io
import marshal
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from ..paths import ensure_directory, hold_lock

_PARENT, _NAME = "/root", ".vepyc-bytecode"
_GIVEN = "/root/.vepyc-given"
#: A file of this age belongs to a source that has changed since.
_SECONDS = 30 * 86400
_TIMEOUT = 30


class BytecodeStore:
    """The cached bytecode for one kernel, and a guest that receives it and adds to it."""

    def __init__(self, ssh: Sequence[str], run_folder: Path, kernel: str) -> None:
        """``ssh`` is the command that reaches the guest; it has to be run in ``run_folder``."""
        self.ssh = ssh
        self.run_folder = run_folder
        self.folder = ensure_directory("bytecode", kernel)
        self.lock = f"bytecode-{kernel}"

    def send_to_guest(self) -> None:
        """Copy all cached bytecode into the guest, and delete old files from the cache."""
        code = {}
        with hold_lock(self.lock):
            for file in self.folder.iterdir():
                if file.stat().st_mtime < time.time() - _SECONDS:
                    file.unlink()
                else:
                    code[file.name] = file.read_bytes()
        # All is sent as one file, because a guest needs seconds to create hundreds.
        self._run_in_guest(f"cat >{_GIVEN}; rm -rf {_PARENT}/{_NAME}", _pack_code(code))

    def fetch_from_guest(self) -> None:
        """Copy what the guest has compiled into the cache, if the guest still answers."""
        packed = self._run_in_guest(f"cd {_PARENT} && [ -d {_NAME} ] && tar -c {_NAME}")
        if packed:
            with hold_lock(self.lock), tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                for member in archive.getmembers():
                    if member.isfile() and (content := archive.extractfile(member)):
                        (self.folder / Path(member.name).name).write_bytes(content.read())

    def _run_in_guest(self, command: str, data: bytes = b"") -> bytes:
        """Return what a command in the guest printed, b"" if it failed: a guest works without cached bytecode."""
        try:
            done = subprocess.run(
                [*self.ssh, command],
                cwd=self.run_folder,
                input=data,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return b""
        return done.stdout if done.returncode == 0 else b""


def _pack_code(code: dict[str, bytes]) -> bytes:
    """Return the code of all sources in the format that bytecode.py reads: length of the index, index, code."""

    def index(start: int) -> bytes:
        places = {}
        for name, content in code.items():
            places[name] = (start, len(content))
            start += len(content)
        return marshal.dumps(places, 0)  # a number of this version always takes five bytes, so the length stays

    length = len(index(0))
    return length.to_bytes(8, "big") + index(8 + length) + b"".join(code.values())
