# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads and writes ordinary text files; a write replaces the whole file and survives a crash.

The text is written to a temporary file, flushed, and renamed, so that a crash leaves the old file or the new one.
Kernel files are written by kernelfs.py.
"""

from __future__ import annotations

import errno
import os
import stat

from .._errors import TuningError
from .blocks import suppress
from .safe_open import OpenFolder, open_file, open_folder

#: The umask of systemd and of Debian's root. Hardening guides give sudo a stricter one.
UMASK = 0o022


def set_umask_of_system() -> None:
    """Make folders of this process and its programs as readable as those that the system makes at boot.

    Else a login with umask 077 leaves folders that the users of instances, HAProxy and metrics collectors cannot enter.
    Files that only root may read get their mode by write_file.
    """
    os.umask(UMASK)


def path_in_tree(root: str, path: str) -> str:
    """Return the place of an absolute path in the tree below a folder; the tree of a real host is /."""
    return os.path.join(root, path.lstrip("/"))


def read_text(path: str) -> str | None:
    """Return a file's text with its newlines as they are; None where it does not exist."""
    try:
        with open(open_file(path), encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error.strerror}.") from None


def write_file(path: str, text: str, mode: int = 0o644, keep_owner: bool = True) -> None:
    """Replace a file, flushed to the disk; with ``keep_owner``, an existing file keeps its owner and mode.

    The folder may belong to another user, such as a metrics collector, who must not make root overwrite or give away
    other files. So the temporary file has a random name and is created without following links, and in such a folder
    the owner and mode of an existing file are not copied. Temporary files of killed runs for the same path are removed.
    """
    parent, name = os.path.split(path)
    try:
        with open_folder(parent, make=True) as folder:
            _remove_temporary_files(folder, name)
            before = _read_trusted_status(name, folder) if keep_owner else None
            temporary, descriptor = _create_temporary_file(name, folder)
            try:
                with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                    file.write(text)
                    if before is not None:
                        os.fchown(descriptor, before.st_uid, before.st_gid)
                    os.fchmod(descriptor, mode if before is None else before.st_mode & 0o7777)
                    file.flush()
                    os.fsync(descriptor)
                    # The file is renamed before it is closed, because the close ends the lock.
                    folder.rename_file(temporary, name)
            except BaseException:
                with suppress(OSError):
                    folder.remove_file(temporary)
                raise
            folder.flush_folder_entries()
    except OSError as error:
        raise TuningError(f"{path} cannot be written: {error.strerror}. It is as it was.") from None


def require_writable_folder(folder: str) -> None:
    """Raise OSError where no file can be created in a folder, by creating and removing one."""
    with open_folder(folder) as opened:
        name, descriptor = _create_temporary_file("probe", opened)
        os.close(descriptor)
        opened.remove_file(name)


def remove_temporary_files(folder: str) -> None:
    """Remove all temporary files of killed runs in a folder; a file that is being written stays."""
    with suppress(OSError), open_folder(folder) as opened:
        _remove_temporary_files(opened)


def _create_temporary_file(name: str, folder: OpenFolder) -> tuple[str, int]:
    """Create a temporary file for a name in a folder; return its random name and its descriptor.

    The file is locked while it is open; an unlocked temporary file is a left-over of a killed run.
    """
    import fcntl

    while True:
        temporary = f".{name}.{os.urandom(8).hex()}"
        descriptor = folder.create_file(temporary)
        with suppress(OSError):  # On a file system without locks, _remove_temporary_file fails too and removes nothing.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        # Another run removed the file as a left-over before it was locked.
        os.close(descriptor)


def _remove_temporary_files(folder: OpenFolder, name: str = "") -> None:
    """Remove temporary files of killed runs for a name in a folder, or for all names; failures are ignored."""
    for other in os.listdir(folder.descriptor):
        if _is_temporary_name(other, name):
            with suppress(OSError):
                _remove_temporary_file(other, folder)


def _is_temporary_name(other: str, name: str) -> bool:
    """Return whether ``other`` names a temporary file of the file ``name``, or of any file if ``name`` is empty."""
    start, dummy, digits = other.rpartition(".")
    if len(digits) != 16 or digits.strip("0123456789abcdef"):
        return False
    return start == f".{name}" if name else len(start) > 1 and start.startswith(".")


def _remove_temporary_file(name: str, folder: OpenFolder) -> None:
    """Remove a temporary file of root or the caller; OSError where a run is still writing it."""
    import fcntl

    descriptor = folder.open_file(name, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if folder.is_writable_by_root_only() or os.fstat(descriptor).st_uid in (0, os.geteuid()):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder.remove_file(name)
    finally:
        os.close(descriptor)


def _read_trusted_status(name: str, folder: OpenFolder) -> os.stat_result | None:
    """Return the status of a regular file; None where users other than root may have put it into the folder."""
    before = folder.file_status(name) if folder.is_writable_by_root_only() else None
    return before if before and stat.S_ISREG(before.st_mode) else None


def set_owner_and_mode(path: str, user: int, group: int, mode: int | None = None) -> None:
    """Set owner and group of a file (-1: unchanged) and its mode.

    In a folder that other users may write, a link and a file with a second name (hard link) are refused, because the
    owner of the folder could make root give away another file.
    """
    parent, name = os.path.split(path)
    try:
        with open_folder(parent) as folder:
            descriptor = folder.open_file(name)
            try:
                before = os.fstat(descriptor)
                os.fchown(descriptor, user, group)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode) if mode is None else mode)
            finally:
                os.close(descriptor)
    except OSError as error:
        reason = error.strerror
        if error.errno == errno.ELOOP:
            reason = f"others may write into {parent}, and it is a link or has a second name. Give the file's own path"
        raise TuningError(f"{path} cannot be given owner or mode: {reason}.") from None


def remove_file(path: str) -> None:
    """Remove a file and its temporary files of killed runs, flushed to the disk; no error where it does not exist."""
    parent, name = os.path.split(path)
    try:
        with open_folder(parent) as folder:
            _remove_temporary_files(folder, name)
            folder.remove_file(name)
            folder.flush_folder_entries()
    except FileNotFoundError:
        return
    except OSError as error:
        raise TuningError(f"{path} cannot be removed: {error.strerror}.") from None


def rename_file(path: str, new_path: str) -> None:
    """Rename a file in its folder, flushed to the disk."""
    parent, name = os.path.split(path)
    try:
        with open_folder(parent) as folder:
            folder.rename_file(name, os.path.basename(new_path))
            folder.flush_folder_entries()
    except OSError as error:
        raise TuningError(
            f"{path} cannot be renamed to {os.path.basename(new_path)}: {error.strerror}. It is as it was."
        ) from None


def flush_parent_folder(path: str) -> None:
    """Flush the folder of a file that was created, removed or renamed."""
    flush_path(os.path.dirname(path))


def flush_path(path: str) -> None:
    """Flush a file or a folder to the disk."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(file)
    finally:
        os.close(file)
