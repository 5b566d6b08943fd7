# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Safe access to files in folders that users other than root may write, such as those of models and of metrics.

The owner of such a folder can replace any file at any moment by a link, a FIFO or a hard link to a file of root. So
each folder and file is opened once, and all further steps use its descriptor. Source: open(2), path_resolution(7).
"""

from __future__ import annotations

import errno
import os
import stat

from .blocks import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The largest number of links that the kernel follows on the way to a file.
MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Flags that open a folder which the caller may enter but not read.
_ENTER_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Without O_NONBLOCK, opening a FIFO would block until another process opens its other end.
_FILE = os.O_NONBLOCK | os.O_CLOEXEC
_NULL = os.makedev(1, 3)


class OpenFolder:
    """An open folder: all methods work in this folder, even if its path leads to another folder meanwhile.

    All methods raise OSError with a readable ``strerror``.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def is_writable_by_root_only(self) -> bool:
        """Return whether only root and the caller may write the folder."""
        return is_writable_by_root_only(os.fstat(self.descriptor))

    def file_status(self, name: str) -> os.stat_result | None:
        """Return the status of a name in the folder, without following a link; None where it does not exist."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a regular file and return its descriptor.

        A link and a file with a second name (hard link) are refused, unless only root may write the folder.
        """
        private = self.is_writable_by_root_only()
        flags |= _FILE if private else _FILE | os.O_NOFOLLOW
        descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
        try:
            status = _require_regular(descriptor)
            if status.st_nlink > 1 and not private:
                raise OSError(errno.ELOOP, "others may write into its folder, and it has a second name")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def create_file(self, name: str) -> int:
        """Create a file with mode 0600, open it for reading and writing, and return its descriptor."""
        return os.open(name, _NEW, 0o600, dir_fd=self.descriptor)

    @contextmanager
    def make_folder(self, name: str, mode: int) -> Iterator[OpenFolder]:
        """Create a folder of this mode in the folder, and hold it open during the block."""
        os.mkdir(name, 0o700, dir_fd=self.descriptor)
        descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor)
        try:
            _require_created_by_caller(os.fstat(descriptor))
            os.fchmod(descriptor, mode)
            yield OpenFolder(os.path.join(self.path, name), descriptor)
        finally:
            os.close(descriptor)

    def rename_file(self, name: str, new_name: str, folder: OpenFolder | None = None) -> None:
        """Rename a file, or move it to another folder."""
        os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=(folder or self).descriptor)

    def remove_file(self, name: str) -> None:
        """Remove a file or a link; FileNotFoundError where there is none, also on a read-only file system."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno == errno.EROFS:
                # The kernel refuses before it looks whether there is a file; this says so where there is none.
                os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
            raise

    def flush_folder_entries(self) -> None:
        """Flush the names in the folder to the disk."""
        os.fsync(self.descriptor)


def open_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, or the null device, and return its descriptor; OSError for any other kind of file.

    Links are followed, because caches of models consist of links.
    """
    descriptor = os.open(path, flags | _FILE)
    try:
        _require_regular(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def open_folder(path: str, make: bool = False) -> Iterator[OpenFolder]:
    """Hold a folder open during the block; with ``make``, missing folders of its path are created.

    A link on the way is followed only where no other user than root can have created it; OSError for another link.
    """
    descriptor = _open_folder_checking_links(os.path.abspath(path), make)
    try:
        yield OpenFolder(path, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def make_private_folder(parent: OpenFolder, name: str) -> Iterator[OpenFolder]:
    """Create a folder that only root can enter, in its parent; remove it with its contents at the end of the block.

    The folder of a killed run with this name is removed first. OSError where another user created a folder of this
    name.
    """
    _remove_private_folder(parent, name)
    try:
        with parent.make_folder(name, 0o700) as folder:
            yield folder
    finally:
        _remove_private_folder(parent, name)


def remove_folder_or_link(path: str) -> None:
    """Remove a folder with all in it, or a link in its place; what cannot be removed stays.

    A link on the way to it that another user can have created is not followed.
    """
    parent, name = os.path.split(os.path.abspath(path))
    with suppress(OSError), open_folder(parent) as folder:
        status = folder.file_status(name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            _remove_tree(folder, name)
        elif status is not None:
            folder.remove_file(name)


def find_folder_others_can_write(path: str) -> str | None:
    """Return the nearest folder above a path in which other users than root can replace files, or None."""
    folder = os.path.realpath(path)
    while True:
        try:
            status = os.stat(folder)
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status and not (is_writable_by_root_only(status) or _has_sticky_bit(status)):
            return folder
        if folder == "/":
            return None
        folder = os.path.dirname(folder)


def _remove_private_folder(parent: OpenFolder, name: str) -> None:
    status = parent.file_status(name)
    if status is None:
        return
    if not stat.S_ISDIR(status.st_mode):
        parent.remove_file(name)
        return
    _require_created_by_caller(status)
    _remove_tree(parent, name)


def _remove_tree(parent: OpenFolder, name: str) -> None:
    # Imported here because its import takes milliseconds, and few runs remove a folder.
    import shutil

    shutil.rmtree(f"/proc/self/fd/{parent.descriptor}/{name}")


def _require_created_by_caller(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise OSError(errno.EEXIST, "somebody else has put a folder there")


def _open_folder_checking_links(path: str, make: bool) -> int:
    """Open a folder name by name from the root, so that each link is checked; return its descriptor."""
    place, links = os.open("/", _ENTER_ONLY), 0
    names = path.split("/")[::-1]
    try:
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            target = _read_trusted_link_target(name, place)
            if target is None:
                inner = _open_subfolder(name, place, make)
            else:
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                names += target.split("/")[::-1]
                inner = os.open("/" if target.startswith("/") else ".", _ENTER_ONLY, dir_fd=place)
            os.close(place)
            place = inner
        return os.open(".", _FOLDER, dir_fd=place)
    finally:
        os.close(place)


def _open_subfolder(name: str, place: int, make: bool) -> int:
    """Open a folder in the folder of a descriptor and return its descriptor; with ``make``, create a missing one."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=place)
    return os.open(name, _ENTER_ONLY | os.O_NOFOLLOW, dir_fd=place)


def _read_trusted_link_target(name: str, place: int) -> str | None:
    """Return the target of a link, None for any other name; OSError for a link that other users may have put there."""
    try:
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(status.st_mode):
        return None
    folder = os.fstat(place)
    if not (is_writable_by_root_only(folder) or (_has_sticky_bit(folder) and _is_of_root_or_caller(status))):
        raise OSError(errno.ELOOP, f"{name} is a link, in a folder that others may write. Give the path it leads to")
    return os.readlink(name, dir_fd=place)


def is_writable_by_root_only(status: os.stat_result) -> bool:
    """Return whether only root and the caller may write the file or folder of this status."""
    return _is_of_root_or_caller(status) and not status.st_mode & 0o022


def _has_sticky_bit(folder: os.stat_result) -> bool:
    """Return whether a folder of root has the sticky bit, as /tmp, which protects files of root in it."""
    return bool(folder.st_mode & stat.S_ISVTX) and _is_of_root_or_caller(folder)


def _is_of_root_or_caller(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _require_regular(descriptor: int) -> os.stat_result:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not (stat.S_ISREG(status.st_mode) or (stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL)):
        raise OSError(errno.EINVAL, "It is no regular file")
    return status
