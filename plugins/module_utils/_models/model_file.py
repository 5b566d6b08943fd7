# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file of a model on the host: what all of its files share, what the store knows of one, and how it is removed."""

from __future__ import annotations

import os
import stat

from .._errors import BadRequest, TuningError
from .._io import textfile
from .._io.checksum import ALGORITHM
from .._io.store import ANY
from .._notation.gguf_parts import list_gguf_parts
from .._notation.numbers import require_whole
from .._notation.sizes import parse_bytes
from .file_request import SERVER, headers_of
from .owner_and_mode import Attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._io.store import Store
    from .file_request import Asked

#: The file in the store: what is known of complete files, and of parts of interrupted downloads.
KNOWN = "model_files.json"
SHAPE = {"files": {ANY: dict}, "parts": {ANY: dict}}


class Run:
    """What all files of a model share. ``before`` and ``after`` hold the differences, by address."""

    def __init__(self, options: Mapping[str, Any], store: Store, check: bool) -> None:
        self.options = options
        self.store = store
        self.check = check
        #: False where a file that is there is not read whole to compare its digest.
        self.reads_files = True
        self.before: dict[str, str | None] = {}
        self.after: dict[str, str | None] = {}
        self.remarks: list[str] = []
        #: In check mode the token stays with the controller, so that a server which wants it is not asked.
        self.silent = bool(check and options.get("token_file"))
        self.headers = headers_of(options, check)
        self.reserve = parse_bytes(options.get("reserve") or "1GiB", "reserve")
        self.timeout = require_whole(options.get("timeout") or 60, "timeout")
        self.attributes = Attributes(options, check, self.remarks)
        self.progress = None if check else options.get("progress")
        #: Bytes of files that were fetched before the present one, and of all that are fetched where that is known.
        self.done = 0
        self.total: int | None = None


class ModelFile:
    """What both states of a file share."""

    def __init__(self, run: Run, asked: Asked) -> None:
        self.run = run
        self.asked = asked
        self.path = asked.path
        self.part = f"{self.path}.part"
        self.found = status(self.path)
        if self.found and not stat.S_ISREG(self.found.st_mode):
            raise BadRequest(f"path: {self.path} is not a regular file; give the full path of a model file.")

    def differs(self, what: str, before: str | None, after: str | None) -> None:
        """Record a difference."""
        if before != after:
            self.run.before[f"model_file:{self.path}{what}"] = before
            self.run.after[f"model_file:{self.path}{what}"] = after

    def known(self) -> dict[str, Any]:
        """Return what is remembered of the file, its digest above all; nothing when the file has changed since."""
        return _known_of(self.run.store, self.path)

    def stored(self) -> dict[str, Any]:
        """Return what was stored of the file when it was taken, also when it has changed since."""
        return _stored_of(self.run.store, self.path)

    def remember(self, **rows: Mapping[str, object] | None) -> None:
        """Store what is known of the complete file (``files``) or of the part (``parts``); None removes the entry."""
        store = self.run.store
        with store.hold_lock():
            data = store.load_cache(KNOWN, SHAPE)
            for table, row in rows.items():
                data.setdefault(table, {}).pop(self.path, None)
                if row is not None:
                    data[table][self.path] = row
            store.save_document(KNOWN, data)


def is_as_verified(store: Store, asked: Mapping[str, Any]) -> bool:
    """Return whether all files of a model are there, and have the digests that a run asks for, as the store knows them.

    False where it is not known: no file is read.
    """
    checksums = [str(one) for one in asked.get("checksum") or () if one]
    paths = [asked["path"]] if len(checksums) == 1 and SERVER not in checksums else list_gguf_parts(asked["path"])
    wanted = checksums if len(checksums) == len(paths) else [SERVER] * len(paths)
    digests = [_known_of(store, path).get("sha256") for path in paths]
    return all(digest and one in (SERVER, f"{ALGORITHM}{digest}") for digest, one in zip(digests, wanted))


def _known_of(store: Store, path: str) -> dict[str, Any]:
    """Return what the store knows of a file; nothing when the file has changed since."""
    stored = _stored_of(store, path)
    return stored if stored and stored.get("stamp") == stamp(path) else {}


def _stored_of(store: Store, path: str) -> dict[str, Any]:
    row: dict[str, Any] = store.load_cache(KNOWN, SHAPE).get("files", {}).get(path, {})
    return row


class Absent(ModelFile):
    """The state absent: neither the file nor a part of it."""

    def make(self) -> None:
        """Remove the file, its part, and what the store knows of them."""
        digest = self.known().get("sha256")
        if self.found:
            self.differs("", ALGORITHM + digest if digest else "a file", None)
        left = status(self.part)
        if left:
            self.differs(".part", "a file", None)
        if (self.found or left) and not self.run.check:
            textfile.remove_file(self.path)
            textfile.remove_file(self.part)
            self.remember(files=None, parts=None)


def status(path: str) -> os.stat_result | None:
    """Return what the system knows of a file, None where there is none."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise TuningError(f"{path} cannot be looked at: {error.strerror}.") from None


def stamp(path: str) -> list[int]:
    """Return size, time and inode: together they change when the content changes."""
    found = status(path)
    return [found.st_size, found.st_mtime_ns, found.st_ino] if found else []
