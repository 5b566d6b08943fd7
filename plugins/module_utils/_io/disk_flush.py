# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flushes files to the disk so that a boot loader, which does not replay journals, reads their new contents.

fsync is not enough: it leaves the size and the blocks of a file in the journal of ext4 and in the log of XFS, and after
a power cut GRUB reads the old blocks. Freezing the file system writes the journal to its final place.
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
    """Flush files, folders and the journals of their file systems; return the reason where that failed, else None."""
    existing = [path for path in paths if os.path.exists(path)]
    try:
        for path in existing:
            textfile.flush_path(path)
            textfile.flush_parent_folder(path)
        for path in {os.stat(path).st_dev: path for path in existing}.values():
            # Written before the freeze, so that the file system is frozen for a short time only.
            command.run_command(["sync", "-f", path])
            _freeze_and_thaw(path)
    except OSError as error:
        return os.strerror(error.errno or 0)
    except TuningError as error:
        return str(error)
    return None


def unflushed_message(path: str, reason: str) -> str:
    """Return the remark that a file was written, but could not be flushed for the boot loader."""
    return (
        f"{path} is written, but lies partly in the journal of its file system ({reason}), which a boot loader does "
        "not read: if the power fails within the next minute, the host starts with what was there before."
    )


def _freeze_and_thaw(path: str) -> None:
    """Freeze the file system of a path and thaw it at once; a child process thaws it where this process dies meanwhile.

    A file system that cannot be frozen is left alone: vfat has no journal, and ZFS writes everything within seconds.
    """
    # Imported here because few runs write files of a boot loader; and before the fork, because an import may write
    # bytecode to the frozen file system.
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
    """Run as the child process: thaw the file system where the parent ends before it reports through the pipe."""
    try:
        ignore_ends()
        os.close(writing)
        if not os.read(reading, 1):
            fcntl.ioctl(file, FITHAW, 0)
    finally:
        os._exit(0)
