# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directory of the lab outside of the repository, locks in it, and tools that are run."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import VepycError

PACKAGE = Path(__file__).resolve().parent


def state_directory() -> Path:
    """Return the state directory: `$VEPYC_HOME`, or `lab` in the project's cache directory."""
    if explicit := os.environ.get("VEPYC_HOME"):
        base = Path(explicit)
    elif cache := os.environ.get("SOVEREIGN_EPYC_CACHE"):
        base = Path(cache) / "lab"
    else:
        xdg = os.environ.get("XDG_CACHE_HOME")
        base = (Path(xdg) if xdg else Path.home() / ".cache") / "sovereign-epyc" / "lab"
    base = base.absolute()
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    return base


def ensure_directory(*parts: str) -> Path:
    """Return a directory below the state directory, created if it is missing."""
    path = state_directory().joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def hold_lock(name: str, awaited: str = "") -> Iterator[None]:
    """Hold the lock of that name during the block. Before waiting for another process, print what is ``awaited``."""
    with (ensure_directory("locks") / name).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if awaited:
                print(f"waiting for {awaited}, which another process makes", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def compute_digest(parts: Iterable[str | bytes]) -> str:
    """Return a short hash of all parts, used in the name of what is built from them."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()[:16]


def ensure_ssh_key() -> Path:
    """Return the private ssh key for all guests of this cache; generate it first if it is missing."""
    key = state_directory() / "id_ed25519"
    with hold_lock("ssh-key"):
        if not key.exists():
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vepyc", "-f", str(key)]
            run_tool(command)
    return key


def require_disk_space(folder: Path, gib: float, purpose: str) -> None:
    """Raise an error if a folder's disk has less than ``gib`` GiB free, before minutes are spent on a build."""
    free = shutil.disk_usage(folder).free / (1 << 30)
    if free < gib:
        raise VepycError(
            f"{purpose} needs {gib:g} GiB in {folder}, which has {free:.1f} GiB free; make room there, or name a folder"
            " on another disk with SOVEREIGN_EPYC_CACHE"
        )


def run_tool(command: list[str], log: Path | None = None, input: str = "") -> None:
    """Run a tool; an error names the tool, its last line of output, and the log."""
    with log.open("a+") if log else tempfile.TemporaryFile("w+") as out:
        print("+", *command, file=out, flush=True)
        try:
            done = subprocess.run(command, input=input, stdout=out, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError:
            raise VepycError(f"{command[0]} is not installed; lab/README.md lists the packages the lab needs") from None
        if done.returncode:
            out.seek(0)
            output = out.read().strip()
            why = f"{output.splitlines()[-1]}; see {log}" if log else output
            raise VepycError(f"{command[0]} failed with exit code {done.returncode}: {why}")
