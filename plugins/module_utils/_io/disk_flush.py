# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Has files lie on the disk where a reader that does not replay journals finds them, as a boot loader does not.

fsync is not enough for that: it leaves the size and the blocks of a file in the journal of ext4 and in the log of XFS,
and after a power cut GRUB reads the places from before. Freezing writes them to where they belong.
Source: ext4_freeze (fs/ext4/super.c), xfs_fs_freeze (fs/xfs/xfs_super.c) and ioctl_fsfreeze (fs/ioctl.c) of the Linux
kernel; grub-core/fs/ext2.c and grub-core/fs/xfs.c of GRUB, which read no journal.
"""

from __future__ import annotations

import errno
import fcntl
import os

from .._errors import TuningError
from . import command, textfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: _IOWR('X', 119, int) and _IOWR('X', 120, int) of linux/fs.h.
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878


def flush_to_disk(paths: Sequence[str]) -> str | None:
    """Have files and folders lie on the disk for good. Return why that is not certain, None where it is."""
    there = [path for path in paths if os.path.exists(path)]
    try:
        for path in there:
            textfile.flush_path(path)
            textfile.flush_parent_folder(path)
        for path in {os.stat(path).st_dev: path for path in there}.values():
            # Before the freeze, so that nobody has to wait long for a write while it is frozen.
            command.run_command(["sync", "-f", path])
            _freeze_and_thaw(path)
    except OSError as error:
        return os.strerror(error.errno or 0)
    except TuningError as error:
        return str(error)
    return None


def unflushed_message(path: str, reason: str) -> str:
    """Return the sentence for what ``settle`` could not do."""
    return (
        f"{path} is written, but lies partly in the journal of its file system ({reason}), which a boot loader does "
        "not read: if the power fails within the next minute, the host starts with what was there before."
    )


def _freeze_and_thaw(path: str) -> None:
    """Freeze the file system of a path and thaw it at once; a child thaws it when this process dies in between.

    One that cannot be frozen, as vfat, has no journal, and ZFS, which cannot either, writes all within seconds.
    """
    # Imported here, as few runs write what a boot loader reads; and before the fork, as an import may write bytecode to
    # the file system that is frozen.
    import signal

    def ignore_ends() -> None:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    file = os.open(path, os.O_RDONLY)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _thaw_when_orphaned(file, reading, writing, ignore_ends)
    os.close(reading)
    try:
        try:
            fcntl.ioctl(file, FIFREEZE, 0)
        except OSError as error:
            os.write(writing, b"-")
            if error.errno != errno.EOPNOTSUPP:
                raise
            return
        fcntl.ioctl(file, FITHAW, 0)
        os.write(writing, b"-")
    finally:
        os.close(writing)
        os.waitpid(child, 0)
        os.close(file)


def _thaw_when_orphaned(file: int, reading: int, writing: int, ignore_ends: Callable[[], None]) -> None:
    """Be the child: wait for the word that all is thawed. When the pipe ends without it, thaw."""
    try:
        ignore_ends()
        os.close(writing)
        if not os.read(reading, 1):
            fcntl.ioctl(file, FITHAW, 0)
    finally:
        os._exit(0)
