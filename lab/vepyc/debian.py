# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian in a directory, for guests and containers."""

from __future__ import annotations

import os
from collections.abc import Sequence
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
