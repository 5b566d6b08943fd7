# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only file that opens kernel files: /sys, /proc, /dev/cpu and the resctrl file system.

Paths are absolute, as a person would type them. ``root`` puts another tree under them, so that a recorded one can be
read in a test. A read-only instance refuses every write, which is how check mode keeps its promise.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager

from .._errors import Absent, Refused, TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

#: errno values that mean "does not exist" rather than "not permitted".
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV, errno.ESRCH)


class KernelFS:
    """Reads and writes kernel files; every OSError comes out as ``Absent`` or ``Refused``."""

    def __init__(self, root: str = "/", read_only: bool = False) -> None:
        self.root = root
        self.read_only = read_only

    def _real_path(self, path: str) -> str:
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    # Reading

    def read(self, path: str, limit: int = 1 << 20) -> str:
        """Return a file's text without its last newline, at most ``limit`` bytes of it."""
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
        """Like read, but None where the file is absent. A refusal is still raised."""
        try:
            return self.read(path)
        except Absent:
            return None

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at an offset: how /dev/cpu/N/msr and /dev/cpu/N/cpuid are read."""
        with _translate_errors(path, "read"):
            fd = os.open(self._real_path(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(fd, size, offset)
            finally:
                os.close(fd)

    def read_words(self, path: str, offsets: Iterable[int]) -> list[int]:
        """Return the 64-bit words at some offsets, with one open: how registers are read from /dev/cpu/N/msr."""
        words = []
        with _open_descriptor(path, self._real_path(path), os.O_RDONLY) as fd:
            for offset in offsets:
                with _translate_errors(path, f"read register {offset:#x} of"):
                    words.append(int.from_bytes(os.pread(fd, 8, offset), "little"))
        return words

    def list_names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; none where it is absent."""
        try:
            with _translate_errors(path, "list"):
                return sorted(os.listdir(self._real_path(path)))
        except Absent:
            return []

    def is_dir(self, path: str) -> bool:
        """Return whether a directory is there."""
        return os.path.isdir(self._real_path(path))

    def read_status(self, path: str) -> os.stat_result | None:
        """Return a file's size, mode and so on; None where it is absent."""
        try:
            with _translate_errors(path, "look at"):
                return os.stat(self._real_path(path))
        except Absent:
            return None

    def write_refusal_errno(self, path: str, invalid_text: str) -> int:
        """Return the errno with which the kernel refuses an invalid text, 0 where it does not refuse it.

        For files where the kernel checks the permission before it reads the text, and shows it in no other way. The
        write can have no effect, so a check may do this too.
        """
        with _open_descriptor(path, self._real_path(path), os.O_WRONLY) as fd:
            try:
                os.write(fd, invalid_text.encode())
            except OSError as error:
                return error.errno or 0
        return 0

    # Writing

    def write(self, path: str, text: str) -> None:
        """Write in one system call, as the kernel's parsers require. Never creates or truncates a file."""
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
        """Set the bits of a mask to those of a value in 64-bit words, (offset, mask, value) each, with one open.

        A word that already is right is not written: a write to /dev/cpu/N/msr taints the kernel even without effect.
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
        """Load a kernel module, or unload it, by modprobe: only it knows compression, dependencies and blacklists."""
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
        """Attach a trusted extended attribute to a file; it lives exactly as long as the file does."""
        self._require_writable(path)
        with _translate_errors(path, "label"):
            os.setxattr(self._real_path(path), f"trusted.{name}", value.encode())

    def read_trusted_attribute(self, path: str, name: str) -> str | None:
        """Return an attribute that ``label`` attached, None where there is none."""
        try:
            return os.getxattr(self._real_path(path), f"trusted.{name}").decode("utf-8", "replace")
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
        # Imported here because it costs more than the rest of the engine and is needed once in a host's uptime.
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        first = () if source is None else (source,)
        with _translate_errors(target, "unmount" if source is None else "mount"):
            if getattr(libc, name)(*first, self._real_path(target).encode(), *rest) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))

    def hold_lock(self, path: str) -> AbstractContextManager[int]:
        """Hold an exclusive flock on a file or directory, the way the kernel documents for resctrl."""
        return hold_file_lock(self._real_path(path), path)

    def _require_writable(self, path: str) -> None:
        if self.read_only:
            raise TuningError(f"A check tried to write {path}. This is a fault of the collection: please report it.")


@contextmanager
def _open_descriptor(path: str, real_path: str, flags: int) -> Iterator[int]:
    """Open for as long as the block lasts."""
    with _translate_errors(path, "open"):
        fd = os.open(real_path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def hold_file_lock(real_path: str, shown_path: str, timeout: float = 30.0) -> Iterator[int]:
    """Hold an exclusive flock, waiting up to ``seconds`` for it; messages call it ``path``. Yields the descriptor."""
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
    """Turn an OSError into one of ours, with the path and the verb in the sentence."""
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        reason = f"Cannot {verb} {path}: {os.strerror(code)}."
        if code in ABSENT:
            raise Absent(reason, errno=code, file=path) from error
        raise Refused(reason, code, path) from error
