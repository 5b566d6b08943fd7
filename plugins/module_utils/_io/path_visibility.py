# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the hidden folders that a unit's sandbox must show for a file, and what stops a user on the way to a file.

The kernel walks a path through folders and links (path_resolution(7)). A link in a Hugging Face cache leads from one
folder to another, and the unit needs both folders. Where a hidden folder has a shown folder, systemd creates the
folders above the shown folder new, and everyone may enter them.
"""

from __future__ import annotations

import os
import stat

from .safe_open import MOST_LINKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Optional

    #: User and groups of a unit; None for a dynamic user of systemd.
    Who = Optional[tuple[int, Sequence[int]]]

#: Folders that the sandbox hides or replaces by empty ones.
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")


def is_hidden_by_sandbox(path: str) -> bool:
    """Return whether a path is in a folder that the sandbox hides."""
    return f"{path}/".startswith(tuple(f"{folder}/" for folder in HIDDEN))


def hidden_folders_to_show(paths: Iterable[str]) -> list[str]:
    """Return the hidden folders that contain these files or a link on the way to one of them."""
    hidden: dict[str, None] = {}
    for path in paths:
        # The folder in the given path may be a link, so it must be shown too.
        folders = [os.path.dirname(path)]
        for dummy in range(MOST_LINKS):
            folder, name = os.path.split(path)
            real = os.path.realpath(folder)
            folders.append(real)
            path = os.path.join(real, name)
            if not os.path.islink(path):
                break
            path = os.path.join(real, os.readlink(path))
        hidden.update(dict.fromkeys(folder for folder in folders if is_hidden_by_sandbox(folder)))
    return list(hidden)


def find_access_barrier(path: str, user: Who, is_staged: bool = False) -> tuple[str, str] | None:
    """Return the first path on the way to a file that stops a user, with the verb seen, entered or read; else None.

    Only modes of files count, and not access control lists (acl(5)). For a staged file only the mode of the file
    counts, because the unit reads a copy in an open folder.
    """
    shown = hidden_folders_to_show([path])
    if not is_staged:
        for folder, name in _list_lookups(path):
            if is_hidden_by_sandbox(folder) and not _is_visible(folder, name, shown):
                return os.path.join(folder, name), "seen"
            above_shown = is_hidden_by_sandbox(folder) and not _is_in_shown_folder(folder, shown)
            if not above_shown and not _mode_allows(folder, user, stat.S_IXOTH):
                return folder, "entered"
    return None if _mode_allows(path, user, stat.S_IROTH) else (path, "read")


def _list_lookups(path: str) -> Iterator[tuple[str, str]]:
    """Yield folder and name of each lookup of the kernel on the way to a file."""
    folder, names, links = "/", path.split("/")[::-1], 0
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            folder = os.path.dirname(folder)
            continue
        yield folder, name
        next_path = os.path.join(folder, name)
        if not os.path.islink(next_path):
            folder = next_path
            continue
        links += 1
        if links > MOST_LINKS:
            return
        target = os.readlink(next_path)
        folder = "/" if target.startswith("/") else folder
        names += target.split("/")[::-1]


def _is_visible(folder: str, name: str, shown: Sequence[str]) -> bool:
    """Return whether the unit sees a name in a hidden folder: in a shown folder, or on the way to a shown folder."""
    path = os.path.join(folder, name)
    return _is_in_shown_folder(folder, shown) or any(f"{visible}/".startswith(f"{path}/") for visible in shown)


def _is_in_shown_folder(folder: str, shown: Sequence[str]) -> bool:
    return f"{folder}/".startswith(tuple(f"{visible}/" for visible in shown))


def _mode_allows(path: str, user: Who, others_right: int) -> bool:
    """Return whether the mode of a file gives a right to a user; ``others_right`` is its bit for other users."""
    status = os.stat(path)
    shift = 0
    if user:
        user_id, groups = user
        shift = 6 if status.st_uid == user_id else 3 if status.st_gid in groups else 0
    return bool(status.st_mode >> shift & others_right)
