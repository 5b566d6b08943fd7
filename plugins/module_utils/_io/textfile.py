# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ordinary files of ours, replaced whole: written beside, flushed to the disk, renamed, and the folder flushed.

A crash leaves the old file or the new one, never a piece. Kernel files are not written like this: see kernelfs.py.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from .._errors import TuningError
from .safe_open import OpenFolder, open_file, open_folder


def path_in_tree(root: str, path: str) -> str:
    """Return where an absolute path lies in a tree; the tree of a real host is /."""
    return os.path.join(root, path.lstrip("/"))


def read_text(path: str) -> str | None:
    """Return a file's text, byte for byte; None where it is absent."""
    try:
        with open(open_file(path), encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error.strerror}.") from None


def write_file(path: str, text: str, mode: int = 0o644, keep_owner: bool = True) -> None:
    """Write a file, on the disk when this returns; an existing one keeps its mode and owner if it is to ``inherit``.

    The folder may belong to somebody else, as that of a metrics collector does. What is written beside has a name that
    nobody can know before, is made anew and never through a link, and in such a folder nothing is inherited: else its
    owner could have root write, or give away, any file of the host.

    What killed runs have left beside this file is removed.
    """
    parent, name = os.path.split(path)
    try:
        with open_folder(parent, make=True) as folder:
            _remove_leftovers(folder, name)
            before = _read_trusted_status(name, folder) if keep_owner else None
            beside, descriptor = _create_temporary_file(name, folder)
            try:
                with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                    file.write(text)
                    if before is not None:
                        os.fchown(descriptor, before.st_uid, before.st_gid)
                    os.fchmod(descriptor, mode if before is None else before.st_mode & 0o7777)
                    file.flush()
                    os.fsync(descriptor)
                    # Before it is closed, which ends its lock.
                    folder.rename_file(beside, name)
            except BaseException:
                with suppress(OSError):
                    folder.remove_file(beside)
                raise
            folder.flush_names()
    except OSError as error:
        raise TuningError(f"{path} cannot be written: {error.strerror}. It is as it was.") from None


def require_writable_folder(folder: str) -> None:
    """Make a file in a folder and remove it again. Raises OSError where that cannot be."""
    with open_folder(folder) as opened:
        name, descriptor = _create_temporary_file("probe", opened)
        os.close(descriptor)
        opened.remove_file(name)


def remove_leftovers(folder: str) -> None:
    """Remove all files that killed runs of ``replace`` have left in a folder; one that is being written stays."""
    with suppress(OSError), open_folder(folder) as opened:
        _remove_leftovers(opened)


def _create_temporary_file(name: str, folder: OpenFolder) -> tuple[str, int]:
    """Make the file that is to become another one; return its name, which nobody can know before, and its descriptor.

    It is locked for as long as it is open, which tells it from what a killed run has left.
    """
    import fcntl

    while True:
        beside = f".{name}.{os.urandom(8).hex()}"
        descriptor = folder.create_file(beside)
        with suppress(OSError):  # A file system without locks, where nothing is taken for a left-over either.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return beside, descriptor
        # Somebody took it for a left-over before it was locked.
        os.close(descriptor)


def _remove_leftovers(folder: OpenFolder, name: str = "") -> None:
    """Remove what killed runs have left beside a file of a folder, or beside any; a failure leaves it where it is."""
    for other in os.listdir(folder.descriptor):
        if _is_temporary_name(other, name):
            with suppress(OSError):
                _remove_leftover(other, folder)


def _is_temporary_name(other: str, name: str) -> bool:
    """Return whether a name is one that ``_make_beside`` gives, for this file or, without a name, for any."""
    start, dummy, digits = other.rpartition(".")
    if len(digits) != 16 or digits.strip("0123456789abcdef"):
        return False
    return start == f".{name}" if name else len(start) > 1 and start.startswith(".")


def _remove_leftover(name: str, folder: OpenFolder) -> None:
    """Remove a file that nobody writes; OSError, or nothing done, for one that somebody writes or that is not ours."""
    import fcntl

    descriptor = folder.open_file(name, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if folder.is_private() or os.fstat(descriptor).st_uid in (0, os.geteuid()):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder.remove_file(name)
    finally:
        os.close(descriptor)


def _read_trusted_status(name: str, folder: OpenFolder) -> os.stat_result | None:
    """Return the status of the file that is there, None where somebody else than root can have put it there."""
    before = folder.file_status(name) if folder.is_private() else None
    return before if before and stat.S_ISREG(before.st_mode) else None


def set_owner_and_mode(path: str, user: int, group: int, mode: int | None = None) -> None:
    """Set owner and group of a file, -1 for as they are, and its mode.

    In a folder that others may write it has to be a file with one name: else what is given away may be any other file.
    """
    parent, name = os.path.split(path)
    try:
        with open_folder(parent) as folder:
            descriptor = folder.open_file(name)
            try:
                there = os.fstat(descriptor)
                os.fchown(descriptor, user, group)
                os.fchmod(descriptor, stat.S_IMODE(there.st_mode) if mode is None else mode)
            finally:
                os.close(descriptor)
    except OSError as error:
        reason = error.strerror
        if error.errno == errno.ELOOP:
            reason = f"others may write into {parent}, and it is a link or has a second name. Give the file's own path"
        raise TuningError(f"{path} cannot be given owner or mode: {reason}.") from None


def remove_file(path: str) -> None:
    """Remove a file, on the disk when this returns; one that is not there is no error.

    What killed runs have left beside it goes, too.
    """
    parent, name = os.path.split(path)
    try:
        with open_folder(parent) as folder:
            _remove_leftovers(folder, name)
            folder.remove_file(name)
            folder.flush_names()
    except FileNotFoundError:
        return
    except OSError as error:
        raise TuningError(f"{path} cannot be removed: {error.strerror}.") from None


def rename_file(path: str, new_path: str) -> None:
    """Give a file another name in its folder, on the disk when this returns."""
    parent, name = os.path.split(path)
    try:
        with open_folder(parent) as folder:
            folder.rename_file(name, os.path.basename(new_path))
            folder.flush_names()
    except OSError as error:
        raise TuningError(
            f"{path} cannot be renamed to {os.path.basename(new_path)}: {error.strerror}. It is as it was."
        ) from None


def flush_parent_folder(path: str) -> None:
    """Flush a folder after a file in it was created, removed or renamed."""
    flush_path(os.path.dirname(path))


def flush_path(path: str) -> None:
    """Flush a file or a folder to the disk."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(file)
    finally:
        os.close(file)
