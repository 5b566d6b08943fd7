# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one door to files in folders that somebody else than root may write, as those of models and of metrics.

The owner of such a folder can put a link, a FIFO or a second name of a file of root's in any place at any moment. So a
folder or a file is opened once, and whatever is asked or changed afterwards is asked of, or changed on, the descriptor.
Source: open(2), path_resolution(7).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Links after which the kernel gives up.
MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: A folder on the way may be entered by those who may not read it.
_ON_THE_WAY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: A FIFO would otherwise block until another process opens its other end.
_FILE = os.O_NONBLOCK | os.O_CLOEXEC
_NULL = os.makedev(1, 3)


class OpenFolder:
    """A folder that is held open: each step happens in this one, wherever its path leads meanwhile.

    All methods raise OSError, whose ``strerror`` says what is wrong.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def is_private(self) -> bool:
        """Return whether only root, or who runs this, can have put into the folder what is there."""
        return is_private(os.fstat(self.descriptor))

    def file_status(self, name: str) -> os.stat_result | None:
        """Return the status of what has a name in the folder, of a link its own; None where there is nothing."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a regular file that has no second name, and never through a link; return its descriptor.

        In a folder that only root may write, a link is followed and second names are fine.
        """
        private = self.is_private()
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
        """Make a file that only root can read, open it for reading and writing, and return its descriptor."""
        return os.open(name, _NEW, 0o600, dir_fd=self.descriptor)

    @contextmanager
    def make_folder(self, name: str, mode: int) -> Iterator[OpenFolder]:
        """Make a folder of this mode in it, and hold that one open."""
        os.mkdir(name, 0o700, dir_fd=self.descriptor)
        descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor)
        try:
            _require_own_user(os.fstat(descriptor))
            os.fchmod(descriptor, mode)
            yield OpenFolder(os.path.join(self.path, name), descriptor)
        finally:
            os.close(descriptor)

    def rename_file(self, name: str, new_name: str, folder: OpenFolder | None = None) -> None:
        """Give a file another name, in the other folder where one is given."""
        os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=(folder or self).descriptor)

    def remove_file(self, name: str) -> None:
        """Remove a file or a link."""
        os.unlink(name, dir_fd=self.descriptor)

    def flush_names(self) -> None:
        """Flush the names in the folder to the disk."""
        os.fsync(self.descriptor)


def open_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file to be read, and return its descriptor; the null device counts as an empty file.

    Links are followed, as those of a cache of models. OSError for what is no regular file.
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
    """Hold a folder open, with ``make`` after making what is missing of its path.

    On the way a link is followed only where root alone can have put it. OSError where there is another one.
    """
    descriptor = _open_step_by_step(os.path.abspath(path), make)
    try:
        yield OpenFolder(path, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def make_private_folder(parent: OpenFolder, name: str) -> Iterator[OpenFolder]:
    """Make a folder that only root can enter, on the file system of its parent; it goes with all that is in it.

    What a killed run left under the name is removed first. OSError where somebody else has put something there.
    """
    _remove_private_folder(parent, name)
    try:
        with parent.make_folder(name, 0o700) as folder:
            yield folder
    finally:
        _remove_private_folder(parent, name)


def find_shared_folder(path: str) -> str | None:
    """Return the folder on the way to a path in which others than root can replace a name; None where there is none."""
    folder = os.path.realpath(path)
    while True:
        try:
            status = os.stat(folder)
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status and not (is_private(status) or _has_sticky_bit(status)):
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
    _require_own_user(status)
    # Imported here because it costs milliseconds, and only models need it.
    import shutil

    shutil.rmtree(f"/proc/self/fd/{parent.descriptor}/{name}")


def _require_own_user(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise OSError(errno.EEXIST, "somebody else has put a folder there")


def _open_step_by_step(path: str, make: bool) -> int:
    """Return the descriptor of a folder, reached name by name."""
    place, links = os.open("/", _ON_THE_WAY), 0
    names = path.split("/")[::-1]
    try:
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            target = _link_target(name, place)
            if target is None:
                inner = _open_subfolder(name, place, make)
            else:
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                names += target.split("/")[::-1]
                inner = os.open("/" if target.startswith("/") else ".", _ON_THE_WAY, dir_fd=place)
            os.close(place)
            place = inner
        return os.open(".", _FOLDER, dir_fd=place)
    finally:
        os.close(place)


def _open_subfolder(name: str, place: int, make: bool) -> int:
    """Return the descriptor of a folder in another one, with ``make`` after making it where it is missing."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=place)
    return os.open(name, _ON_THE_WAY | os.O_NOFOLLOW, dir_fd=place)


def _link_target(name: str, place: int) -> str | None:
    """Return where a link leads, None for what is no link; OSError for a link that cannot be trusted."""
    try:
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(status.st_mode):
        return None
    folder = os.fstat(place)
    if not (is_private(folder) or (_has_sticky_bit(folder) and _is_of_root(status))):
        raise OSError(errno.ELOOP, f"{name} is a link, in a folder that others may write. Give the path it leads to")
    return os.readlink(name, dir_fd=place)


def is_private(status: os.stat_result) -> bool:
    """Return whether only root, or who runs this, may write the file or folder of this status."""
    return _is_of_root(status) and not status.st_mode & 0o022


def _has_sticky_bit(folder: os.stat_result) -> bool:
    """Return whether nobody can move or replace what root has put into a folder: it has the sticky bit, as /tmp."""
    return bool(folder.st_mode & stat.S_ISVTX) and _is_of_root(folder)


def _is_of_root(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _require_regular(descriptor: int) -> os.stat_result:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not (stat.S_ISREG(status.st_mode) or (stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL)):
        raise OSError(errno.EINVAL, "It is no regular file")
    return status
