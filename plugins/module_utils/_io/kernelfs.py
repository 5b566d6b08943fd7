# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to kernel files: /sys, /proc, /dev/cpu and the resctrl file system; no other module opens them for writing.

Paths are absolute, as a person would type them. ``root`` is the folder that they are below, so that tests can read a
recorded tree. A read-only instance refuses every write, so that check mode cannot change the host.
"""

from __future__ import annotations

import errno
import os

from .._errors import Absent, Refused, TuningError, missing_rights_advice
from .blocks import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

#: errno values that mean "does not exist" rather than "not permitted".
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV, errno.ESRCH)


class KernelFS:
    """Reads and writes kernel files; every OSError becomes ``Absent`` or ``Refused``."""

    def __init__(self, root: str = "/", read_only: bool = False) -> None:
        self.root = root
        self.read_only = read_only

    def _real_path(self, path: str) -> str:
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    # Reading

    def read(self, path: str, limit: int = 1 << 20) -> str:
        """Return a file's text without its last newlines, at most ``limit`` bytes of it."""
        with _translate_errors(path, "read"):
            fd = os.open(self._real_path(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                chunks = []
                while limit > 0:
                    chunk = os.read(fd, limit)
                    if not chunk:
                        break
                    chunks.append(chunk)
                    limit -= len(chunk)
            finally:
                os.close(fd)
        return b"".join(chunks).decode("utf-8", "replace").rstrip("\n")

    def read_if_present(self, path: str) -> str | None:
        """Return a file's text as ``read`` does; None where the file does not exist. Refused is still raised."""
        try:
            return self.read(path)
        except Absent:
            return None

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at an offset, as of /dev/cpu/N/cpuid."""
        with _translate_errors(path, "read"):
            fd = os.open(self._real_path(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(fd, size, offset)
            finally:
                os.close(fd)

    def read_words(self, path: str, offsets: Iterable[int]) -> list[int]:
        """Return the 64-bit words at some offsets of a file that is opened once, as registers of /dev/cpu/N/msr."""
        words = []
        with _open_descriptor(path, self._real_path(path), os.O_RDONLY) as fd:
            for offset in offsets:
                with _translate_errors(path, f"read register {offset:#x} of"):
                    words.append(int.from_bytes(os.pread(fd, 8, offset), "little"))
        return words

    def list_names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; none where it does not exist."""
        try:
            with _translate_errors(path, "list"):
                return sorted(os.listdir(self._real_path(path)))
        except Absent:
            return []

    def is_dir(self, path: str) -> bool:
        """Return whether a path is a directory."""
        return os.path.isdir(self._real_path(path))

    def read_status(self, path: str) -> os.stat_result | None:
        """Return a file's size, mode and owner; None where it does not exist."""
        try:
            with _translate_errors(path, "look at"):
                return os.stat(self._real_path(path))
        except Absent:
            return None

    def write_refusal_errno(self, path: str, invalid_text: str) -> int:
        """Write an invalid text to a file; return the errno of the kernel's refusal, 0 where it does not refuse it.

        Some files show only so whether they may be written: the kernel checks the permission before it parses the
        text. The write has no effect, so check mode may do it too.
        """
        with _open_descriptor(path, self._real_path(path), os.O_WRONLY) as fd:
            try:
                os.write(fd, invalid_text.encode())
            except OSError as error:
                return error.errno or 0
        return 0

    # Writing

    def write(self, path: str, text: str) -> None:
        """Write a text in one system call, as the kernel's parsers require; never create or truncate a file."""
        self._require_writable(path)
        data = text.encode()
        with _translate_errors(path, f"write '{text.strip()}' to"):
            fd = os.open(self._real_path(path), os.O_WRONLY | os.O_CLOEXEC)
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
        if written != len(data):
            raise Refused(f"{path} took only {written} of {len(data)} bytes of '{text.strip()}'.", errno.EIO, path)

    def patch_words(self, path: str, edits: Iterable[tuple[int, int, int]]) -> None:
        """Set the masked bits of 64-bit words in a file that is opened once; ``edits`` are (offset, mask, value).

        A word that would not change is not written, because every write to /dev/cpu/N/msr taints the kernel.
        """
        self._require_writable(path)
        with _open_descriptor(path, self._real_path(path), os.O_RDWR) as fd:
            for offset, mask, value in edits:
                with _translate_errors(path, f"read register {offset:#x} of"):
                    old = int.from_bytes(os.pread(fd, 8, offset), "little")
                new = old & ~mask | value & mask
                if new != old:
                    with _translate_errors(path, f"write {new:#x} to register {offset:#x} of"):
                        os.pwrite(fd, new.to_bytes(8, "little"), offset)

    def load_module(self, name: str, load: bool = True) -> None:
        """Load or unload a kernel module by modprobe, which knows compression, dependencies and blacklists."""
        from . import command

        self._require_writable(f"/sys/module/{name}")
        command.run_command(["modprobe", *(() if load else ("-r",)), name])

    def mkdir(self, path: str) -> None:
        """Make a directory, which in resctrl makes a group."""
        self._require_writable(path)
        with _translate_errors(path, "make"):
            os.mkdir(self._real_path(path))

    def rmdir(self, path: str) -> None:
        """Remove a directory, which in resctrl removes a group."""
        self._require_writable(path)
        with _translate_errors(path, "remove"):
            os.rmdir(self._real_path(path))

    def set_trusted_attribute(self, path: str, name: str, value: str) -> None:
        """Attach a trusted extended attribute to a file; it ends with the file."""
        self._require_writable(path)
        with _translate_errors(path, "label"):
            os.setxattr(self._real_path(path), f"trusted.{name}", value.encode())

    def read_trusted_attribute(self, path: str, name: str) -> str | None:
        """Return a trusted extended attribute of a file, None where it has no such attribute."""
        return self._read_attribute(path, f"trusted.{name}")

    def read_selinux_context(self, path: str) -> str | None:
        """Return the context that SELinux gives a file, None without SELinux."""
        context = self._read_attribute(path, "security.selinux")
        return None if context is None else context.rstrip("\0")

    def _read_attribute(self, path: str, name: str) -> str | None:
        try:
            return os.getxattr(self._real_path(path), name).decode("utf-8", "replace")
        except OSError:
            return None

    def mount_filesystem(self, fstype: str, target: str, options: str = "") -> None:
        """Mount a kernel file system, with nosuid, nodev and noexec."""
        nosuid_nodev_noexec = 2 | 4 | 8
        self._require_writable(target)
        self._libc_call("mount", fstype.encode(), target, fstype.encode(), nosuid_nodev_noexec, options.encode())

    def unmount_filesystem(self, target: str) -> None:
        """Unmount a file system."""
        self._require_writable(target)
        self._libc_call("umount2", None, target, 0)

    def _libc_call(self, name: str, source: bytes | None, target: str, *rest: object) -> None:
        # Imported here because its import takes longer than all others, and few runs mount something.
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        first = () if source is None else (source,)
        with _translate_errors(target, "unmount" if source is None else "mount"):
            if getattr(libc, name)(*first, self._real_path(target).encode(), *rest) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))

    def hold_lock(self, path: str) -> AbstractContextManager[int]:
        """Hold an exclusive flock on a file or directory during the block, as the kernel documents it for resctrl."""
        return hold_file_lock(self._real_path(path), path)

    def _require_writable(self, path: str) -> None:
        if self.read_only:
            raise TuningError(f"A check tried to write {path}. This is a fault of the collection: please report it.")


@contextmanager
def _open_descriptor(path: str, real_path: str, flags: int) -> Iterator[int]:
    """Open a file during the block and yield its descriptor."""
    with _translate_errors(path, "open"):
        fd = os.open(real_path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def hold_file_lock(real_path: str, shown_path: str, timeout: float = 30.0) -> Iterator[int]:
    """Hold an exclusive flock during the block and yield its descriptor; wait for it up to ``timeout`` seconds.

    Messages name ``shown_path``.
    """
    import fcntl
    import time

    with _translate_errors(shown_path, "open"):
        fd = os.open(real_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        until = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TuningError(
                        f"Another program has held the lock on {shown_path} for {timeout:.0f} seconds; nothing was "
                        f"changed. 'fuser -v {shown_path}' names it."
                    ) from None
                time.sleep(0.1)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _translate_errors(path: str, verb: str) -> Iterator[None]:
    """Turn an OSError of the block into Absent or Refused, with the path and the verb in its message."""
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        reason = f"Cannot {verb} {path}: {os.strerror(code)}.{missing_rights_advice(error)}"
        if code == errno.EROFS:
            reason += " Kernel files are read-only in a container, because kernel settings belong to its host."
        if code in ABSENT:
            raise Absent(reason, errno=code, file=path) from error
        raise Refused(reason, code, path) from error
