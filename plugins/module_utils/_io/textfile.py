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
from contextlib import contextmanager, suppress

from .._errors import TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def under(root: str, path: str) -> str:
    """Return where an absolute path lies in a tree; the tree of a real host is /."""
    return os.path.join(root, path.lstrip("/"))


def read(path: str) -> str | None:
    """Return a file's text, byte for byte; None where it is absent."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from None


def replace(path: str, text: str, mode: int = 0o644, inherit: bool = True) -> None:
    """Write a file, on the disk when this returns; an existing one keeps its mode and owner if it is to ``inherit``.

    The folder may belong to somebody else, as that of a metrics collector does. What is written beside has a name that
    nobody can know before, is made anew and never through a link, and in such a folder nothing is inherited: else its
    owner could have root write, or give away, any file of the host.
    """
    folder, name = os.path.split(path)
    beside = f".{name}.{os.urandom(8).hex()}"
    try:
        os.makedirs(folder, exist_ok=True)
        with _folder(folder) as place:
            before = _before(name, place) if inherit else None
            descriptor = os.open(beside, _NEW, 0o600, dir_fd=place)
            try:
                with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                    file.write(text)
                    if before is not None:
                        os.fchown(descriptor, before.st_uid, before.st_gid)
                    os.fchmod(descriptor, mode if before is None else before.st_mode & 0o7777)
                    file.flush()
                    os.fsync(descriptor)
                os.rename(beside, name, src_dir_fd=place, dst_dir_fd=place)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=place)
                raise
            os.fsync(place)
    except OSError as error:
        raise TuningError(f"{path} cannot be written: {os.strerror(error.errno or 0)}. It is as it was.") from None


@contextmanager
def _folder(path: str) -> Iterator[int]:
    """Hold a folder open, so that all steps happen in the same one whatever is renamed meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_ours_alone(place: int) -> bool:
    """Return whether only root, or who runs this, can have put into a folder what is there."""
    folder = os.fstat(place)
    return folder.st_uid in (0, os.geteuid()) and not folder.st_mode & 0o022


def _before(name: str, place: int) -> os.stat_result | None:
    """Return the file that is there, where it can be trusted."""
    if not _is_ours_alone(place):
        return None
    try:
        before = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return before if stat.S_ISREG(before.st_mode) else None


def give(path: str, user: int, group: int, mode: int | None = None) -> None:
    """Set owner and group of a file, -1 for as they are, and its mode.

    In a folder that others may write it has to be a file with one name: else what is given away may be any other file.
    """
    folder, name = os.path.split(path)
    try:
        with _folder(folder) as place:
            alone = _is_ours_alone(place)
            link = 0 if alone else os.O_NOFOLLOW
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | link, dir_fd=place)
            try:
                there = os.fstat(descriptor)
                if not alone and there.st_nlink > 1:
                    raise OSError(errno.ELOOP, "")
                os.fchown(descriptor, user, group)
                os.fchmod(descriptor, stat.S_IMODE(there.st_mode) if mode is None else mode)
            finally:
                os.close(descriptor)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        if error.errno == errno.ELOOP:
            reason = f"others may write into {folder}, and it is a link or has a second name. Give the file's own path"
        raise TuningError(f"{path} cannot be given owner or mode: {reason}.") from None


def remove(path: str) -> None:
    """Remove a file, on the disk when this returns; one that is not there is no error."""
    try:
        os.unlink(path)
        flush_folder(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TuningError(f"{path} cannot be removed: {os.strerror(error.errno or 0)}.") from None


def flush_folder(path: str) -> None:
    """Flush a folder after a file in it was created, removed or renamed."""
    flush(os.path.dirname(path))


def flush(path: str) -> None:
    """Flush a file or a folder to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
