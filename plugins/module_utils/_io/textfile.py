# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ordinary files of ours, replaced whole: written beside, flushed to the disk, renamed, and the folder flushed.

A crash leaves the old file or the new one, never a piece. Kernel files are not written like this: see kernelfs.py.
"""

from __future__ import annotations

import os
from contextlib import suppress

from .._errors import TuningError


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


def replace(path: str, text: str, mode: int = 0o644) -> None:
    """Write a file, on the disk when this returns; an existing file keeps its mode and owner."""
    beside = f"{path}.sovereign-new"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            before = os.stat(path)
        except FileNotFoundError:
            before = None
        with open(beside, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode if before is None else before.st_mode & 0o7777)
            if before is not None:
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, path)
        flush_folder(path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        raise TuningError(f"{path} cannot be written: {os.strerror(error.errno or 0)}. It is as it was.") from None


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
