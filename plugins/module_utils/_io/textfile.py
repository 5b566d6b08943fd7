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

    What killed runs have left beside this file is removed.
    """
    folder, name = os.path.split(path)
    try:
        os.makedirs(folder, exist_ok=True)
        with _folder(folder) as place:
            _remove_leftovers(place, name)
            before = _before(name, place) if inherit else None
            beside, descriptor = _make_beside(name, place)
            try:
                with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                    file.write(text)
                    if before is not None:
                        os.fchown(descriptor, before.st_uid, before.st_gid)
                    os.fchmod(descriptor, mode if before is None else before.st_mode & 0o7777)
                    file.flush()
                    os.fsync(descriptor)
                    # Before it is closed, which ends its lock.
                    os.rename(beside, name, src_dir_fd=place, dst_dir_fd=place)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=place)
                raise
            os.fsync(place)
    except OSError as error:
        raise TuningError(f"{path} cannot be written: {os.strerror(error.errno or 0)}. It is as it was.") from None


def probe_folder(folder: str) -> None:
    """Make a file in a folder and remove it again. Raises OSError where that cannot be."""
    with _folder(folder) as place:
        name, descriptor = _make_beside("probe", place)
        os.close(descriptor)
        os.unlink(name, dir_fd=place)


def remove_leftovers(folder: str) -> None:
    """Remove all files that killed runs of ``replace`` have left in a folder; one that is being written stays."""
    with suppress(OSError), _folder(folder) as place:
        _remove_leftovers(place)


def _make_beside(name: str, place: int) -> tuple[str, int]:
    """Make the file that is to become another one; return its name, which nobody can know before, and its descriptor.

    It is locked for as long as it is open, which tells it from what a killed run has left.
    """
    import fcntl

    while True:
        beside = f".{name}.{os.urandom(8).hex()}"
        descriptor = os.open(beside, _NEW, 0o600, dir_fd=place)
        with suppress(OSError):  # A file system without locks, where nothing is taken for a left-over either.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return beside, descriptor
        # Somebody took it for a left-over before it was locked.
        os.close(descriptor)


def _remove_leftovers(place: int, name: str = "") -> None:
    """Remove what killed runs have left beside a file of a folder, or beside any; a failure leaves it where it is."""
    for other in os.listdir(place):
        if _is_beside(other, name):
            with suppress(OSError):
                _remove_leftover(other, place)


def _is_beside(other: str, name: str) -> bool:
    """Return whether a name is one that ``_make_beside`` gives, for this file or, without a name, for any."""
    start, dummy, digits = other.rpartition(".")
    if len(digits) != 16 or digits.strip("0123456789abcdef"):
        return False
    return start == f".{name}" if name else len(start) > 1 and start.startswith(".")


def _remove_leftover(name: str, place: int) -> None:
    """Remove a file that nobody writes; OSError, or nothing done, for one that somebody writes or that is not ours."""
    import fcntl

    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=place)
    try:
        there = os.fstat(descriptor)
        ours = _is_ours_alone(place) or (there.st_uid in (0, os.geteuid()) and there.st_nlink == 1)
        if stat.S_ISREG(there.st_mode) and ours:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=place)
    finally:
        os.close(descriptor)


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
    """Remove a file, on the disk when this returns; one that is not there is no error.

    What killed runs have left beside it goes, too.
    """
    folder, name = os.path.split(path)
    with suppress(OSError), _folder(folder) as place:
        _remove_leftovers(place, name)
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
