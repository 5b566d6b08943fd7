# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian in a directory, for guests and containers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .paths import directory, run_tool

# debootstrap mounts /proc and starts many programs. All of them end, and what they mounted is gone, when this process
# is killed; else the next build would remove files from under them, and a mounted /proc with them.
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")


def bootstrap(suite: str, packages: Sequence[str], root: Path, log: Path) -> None:
    """Install a Debian into a directory. Downloaded packages are kept for the next time."""
    kept = directory("packages", suite)
    command = ["debootstrap", "--variant=minbase", f"--cache-dir={kept}", f"--include={','.join(packages)}"]
    mirror = os.environ.get("VEPYC_MIRROR")
    run_tool([*_ENDS_WITH_US, *command, suite, str(root), *([mirror] if mirror else [])], log)


def put(root: Path, files: Mapping[str, str], links: Mapping[str, str]) -> None:
    """Write text files, of which scripts become executable, and symbolic links; both by their path below ``root``."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    for path, to in links.items():
        link = root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(to)
