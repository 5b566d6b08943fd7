# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Folders as broken or foreign hosts have them: on a read-only or full file system, or belonging to somebody else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

SOMEBODY = 65534


def refuse_changes(patch: pytest.MonkeyPatch, folder: str | Path, code: int, only: str = "") -> None:
    """Have all calls that change a folder, or ``only`` those on this name or part of it, fail with an errno."""
    real = {name: getattr(os, name) for name in ("open", "rename", "unlink")}

    def call(name: str, path: Any, *rest: Any, **more: Any) -> Any:
        place = more.get("dir_fd", more.get("src_dir_fd"))
        whole = os.path.join(os.readlink(f"/proc/self/fd/{place}"), path) if place is not None else os.fspath(path)
        changes = name != "open" or rest[0] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
        if changes and os.path.dirname(whole) == os.fspath(folder) and only in os.path.basename(whole):
            raise OSError(code, os.strerror(code))
        return real[name](path, *rest, **more)

    for name in real:
        patch.setattr(os, name, lambda path, *rest, name=name, **more: call(name, path, *rest, **more))


def give_to_somebody(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Have a file belong to somebody else than root and than who runs this, whoever that is."""
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
    else:
        patch.setattr(os, "geteuid", lambda: SOMEBODY)
