# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files a unit reaches: the folders that its sandbox hides and must show all the same, and what bars its user.

A path leads through folders and links, as the kernel walks it (path_resolution(7)). A link of a Hugging Face cache
leads from one folder to another, and both have to be there. In a hidden folder only what is shown counts: systemd makes
the folders above it anew, open to everyone.
"""

from __future__ import annotations

import os
import stat

from .safe_open import MOST_LINKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Optional

    #: The user and the groups of a unit; None for the user that systemd makes.
    Who = Optional[tuple[int, Sequence[int]]]

#: Folders that the sandbox hides or makes anew.
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")


def is_hidden(path: str) -> bool:
    """Return whether a path lies in a folder that the sandbox hides."""
    return f"{path}/".startswith(tuple(f"{folder}/" for folder in HIDDEN))


def folders_to_show(paths: Iterable[str]) -> list[str]:
    """Return the hidden folders that files and the links to them lie in."""
    found: dict[str, None] = {}
    for path in paths:
        # As it is given, and not only where it leads: a folder on the way may be a link.
        folders = [os.path.dirname(path)]
        for dummy in range(MOST_LINKS):
            folder, name = os.path.split(path)
            real = os.path.realpath(folder)
            folders.append(real)
            path = os.path.join(real, name)
            if not os.path.islink(path):
                break
            path = os.path.join(real, os.readlink(path))
        found.update(dict.fromkeys(folder for folder in folders if is_hidden(folder)))
    return list(found)


def find_access_barrier(path: str, user: Who, is_staged: bool = False) -> tuple[str, str] | None:
    """Return the first thing on the way to a file that bars a user, and what cannot be done with it.

    None where the modes let the user pass; lists of access (acl(5)) may say otherwise, both ways. Of a file that is
    ``staged``, a copy in an open folder is read.
    """
    shown = folders_to_show([path])
    if not is_staged:
        for folder, name in _walk_lookups(path):
            if is_hidden(folder) and not _is_visible(folder, name, shown):
                return os.path.join(folder, name), "seen"
            above_shown = is_hidden(folder) and not _is_within(folder, shown)
            if not above_shown and not _mode_allows(folder, user, stat.S_IXOTH):
                return folder, "entered"
    return None if _mode_allows(path, user, stat.S_IROTH) else (path, "read")


def _walk_lookups(path: str) -> Iterator[tuple[str, str]]:
    """Yield each folder that the kernel looks a name up in on the way to a file, and that name."""
    at, left, links = "/", path.split("/")[::-1], 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        yield at, name
        following = os.path.join(at, name)
        if not os.path.islink(following):
            at = following
            continue
        links += 1
        if links > MOST_LINKS:
            return
        target = os.readlink(following)
        at = "/" if target.startswith("/") else at
        left += target.split("/")[::-1]


def _is_visible(folder: str, name: str, shown: Sequence[str]) -> bool:
    """Return whether a name in a hidden folder is there for the unit: it is shown, or leads to what is shown."""
    path = os.path.join(folder, name)
    return _is_within(folder, shown) or any(f"{one}/".startswith(f"{path}/") for one in shown)


def _is_within(folder: str, shown: Sequence[str]) -> bool:
    return f"{folder}/".startswith(tuple(f"{one}/" for one in shown))


def _mode_allows(path: str, user: Who, others_right: int) -> bool:
    """Return whether the mode of a file gives a right, told as that of others, to a user."""
    status = os.stat(path)
    shift = 0
    if user:
        user_id, groups = user
        shift = 6 if status.st_uid == user_id else 3 if status.st_gid in groups else 0
    return bool(status.st_mode >> shift & others_right)
