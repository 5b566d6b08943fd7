# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of the cache: each is built once, completely or not at all, however many processes need it at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .paths import hold_lock

#: The file that is written last into a folder that has to be built in place.
_COMPLETE = "complete"


def ensure_folder(folder: Path, build: Callable[[Path], object], in_place: bool = False, awaited: str = "") -> Path:
    """Return a folder of the cache; ``build`` fills it first when it is missing or was not completed.

    ``build`` gets an empty folder, which has another name until it is complete. With ``in_place`` it has the final one
    from the start, for what contains its own path, as a Python environment does. A process that has to wait for another
    one's build prints what is ``awaited``.
    """
    with hold_lock(f"{folder.parent.name}-{folder.name}", awaited):
        if in_place and not (folder / _COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            build(folder)
            (folder / _COMPLETE).touch()
        elif not folder.exists():
            with replaced_folder(folder) as work:
                build(work)
    return folder


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, which takes the place and name of ``folder`` at the end of the block unless that fails."""
    work = folder.with_name(f"{folder.name}.building")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        yield work
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
