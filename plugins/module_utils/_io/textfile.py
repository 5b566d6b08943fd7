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
from .untrusted import Folder, open_file, open_folder


def under(root: str, path: str) -> str:
    """Return where an absolute path lies in a tree; the tree of a real host is /."""
    return os.path.join(root, path.lstrip("/"))


def read(path: str) -> str | None:
    """Return a file's text, byte for byte; None where it is absent."""
    try:
        with open(open_file(path), encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error.strerror}.") from None


def replace(path: str, text: str, mode: int = 0o644, inherit: bool = True) -> None:
    """Write a file, on the disk when this returns; an existing one keeps its mode and owner if it is to ``inherit``.

    The folder may belong to somebody else, as that of a metrics collector does. What is written beside has a name that
    nobody can know before, is made anew and never through a link, and in such a folder nothing is inherited: else its
    owner could have root write, or give away, any file of the host.
    """
    parent, name = os.path.split(path)
    beside = f".{name}.{os.urandom(8).hex()}"
    try:
        with open_folder(parent, make=True) as folder:
            before = _trusted_status(name, folder) if inherit else None
            descriptor = folder.create_file(beside)
            try:
                with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                    file.write(text)
                    if before is not None:
                        os.fchown(descriptor, before.st_uid, before.st_gid)
                    os.fchmod(descriptor, mode if before is None else before.st_mode & 0o7777)
                    file.flush()
                    os.fsync(descriptor)
                folder.rename(beside, name)
            except BaseException:
                with suppress(OSError):
                    folder.remove(beside)
                raise
            folder.flush()
    except OSError as error:
        raise TuningError(f"{path} cannot be written: {error.strerror}. It is as it was.") from None


def _trusted_status(name: str, folder: Folder) -> os.stat_result | None:
    """Return the status of the file that is there, None where somebody else than root can have put it there."""
    before = folder.status(name) if folder.is_private() else None
    return before if before and stat.S_ISREG(before.st_mode) else None


def give(path: str, user: int, group: int, mode: int | None = None) -> None:
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


def remove(path: str) -> None:
    """Remove a file, on the disk when this returns; one that is not there is no error."""
    parent, name = os.path.split(path)
    try:
        with open_folder(parent) as folder:
            folder.remove(name)
            folder.flush()
    except FileNotFoundError:
        return
    except OSError as error:
        raise TuningError(f"{path} cannot be removed: {error.strerror}.") from None


def rename(path: str, new: str) -> None:
    """Give a file another name in its folder, on the disk when this returns."""
    parent, name = os.path.split(path)
    try:
        with open_folder(parent) as folder:
            folder.rename(name, os.path.basename(new))
            folder.flush()
    except OSError as error:
        raise TuningError(f"{path} cannot be renamed {new}: {error.strerror}.") from None


def flush_folder(path: str) -> None:
    """Flush a folder after a file in it was created, removed or renamed."""
    flush(os.path.dirname(path))


def flush(path: str) -> None:
    """Flush a file or a folder to the disk."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(file)
    finally:
        os.close(file)
