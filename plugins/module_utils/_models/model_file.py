# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file of a model on the host: its facts in the store, and its removal."""

from __future__ import annotations

import os
import stat

from .._errors import BadRequest, TuningError
from .._io import textfile
from .._io.checksum import ALGORITHM
from .._notation.gguf_parts import list_gguf_parts
from .._notation.numbers import require_whole_number
from .._notation.shape import ANY
from .._notation.sizes import parse_bytes
from .file_request import CHECKSUM_FROM_SERVER, OwnerAndMode, build_headers_and_remove_token_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._io.store import Store
    from .file_request import FileRequest

#: The file of the store with facts of complete files, and of the ``.part`` files of interrupted downloads.
FACTS_FILE = "model_files.json"
SHAPE = {"files": {ANY: dict}, "parts": {ANY: dict}}


class FetchRun:
    """One run of the module for all files of a model. ``before`` and ``after`` have the differences by address."""

    def __init__(self, options: Mapping[str, Any], store: Store, check: bool) -> None:
        self.options = options
        self.store = store
        self.check = check
        #: False for a run that must not read whole files to compare their digests.
        self.reads_files = True
        self.before: dict[str, str | None] = {}
        self.after: dict[str, str | None] = {}
        self.remarks: list[str] = []
        #: In check mode the token stays on the controller, so a server that needs a token is not asked.
        self.hides_token = bool(check and options.get("token_file"))
        self.headers = build_headers_and_remove_token_file(options, check)
        self.reserve = parse_bytes(options.get("reserve") or "1GiB", "reserve")
        self.timeout = require_whole_number(options.get("timeout") or 60, "timeout")
        self.attributes = OwnerAndMode(options, check, self.remarks)
        self.progress = None if check else options.get("progress")
        #: The bytes that were fetched for earlier files of the model, and the bytes to fetch for all files (or None).
        self.done = 0
        self.total: int | None = None


class ModelFile:
    """A file of a request, which must be present or absent afterwards."""

    def __init__(self, run: FetchRun, request: FileRequest) -> None:
        self.run = run
        self.request = request
        self.path = request.path
        self.part = f"{self.path}.part"
        self.status = find_file_status(self.path)
        if self.status and not stat.S_ISREG(self.status.st_mode):
            raise BadRequest(f"path: {self.path} is not a regular file; give the full path of a model file.")

    def record_difference(self, suffix: str, before: str | None, after: str | None) -> None:
        """Record a difference in the run; ``suffix`` follows the file's address, such as /mode."""
        if before != after:
            self.run.before[f"model_file:{self.path}{suffix}"] = before
            self.run.after[f"model_file:{self.path}{suffix}"] = after

    def save_or_remove_file_facts(self, **rows: Mapping[str, object] | None) -> None:
        """Store facts of the complete file (``files``) or of its ``.part`` (``parts``); None removes stored facts."""
        store = self.run.store
        with store.hold_lock():
            data = store.load_cache(FACTS_FILE, SHAPE)
            for table, row in rows.items():
                data.setdefault(table, {}).pop(self.path, None)
                if row is not None:
                    data[table][self.path] = row
            store.save_document(FACTS_FILE, data)


def has_stored_requested_digests(store: Store, options: Mapping[str, Any]) -> bool:
    """Return whether all files of a model have the requested digests, without reading any file.

    False where the store has no digest of a file, or the file was changed since its digest was stored.
    """
    checksums = [str(checksum) for checksum in options.get("checksum") or () if checksum]
    paths = (
        [options["path"]]
        if len(checksums) == 1 and CHECKSUM_FROM_SERVER not in checksums
        else list_gguf_parts(options["path"])
    )
    wanted = checksums if len(checksums) == len(paths) else [CHECKSUM_FROM_SERVER] * len(paths)
    digests = [load_facts_of_unchanged_file(store, path).get("sha256") for path in paths]
    return all(
        digest and checksum in (CHECKSUM_FROM_SERVER, f"{ALGORITHM}{digest}")
        for digest, checksum in zip(digests, wanted)
    )


def load_facts_of_unchanged_file(store: Store, path: str) -> dict[str, Any]:
    """Return the stored facts of a file, such as its digest; empty where the file was changed since."""
    stored = load_facts_even_if_changed(store, path)
    return stored if stored and stored.get("stamp") == read_file_stamp(path) else {}


def load_facts_even_if_changed(store: Store, path: str) -> dict[str, Any]:
    """Return the stored facts of a file, even of a file that was changed since; empty without facts."""
    row: dict[str, Any] = store.load_cache(FACTS_FILE, SHAPE).get("files", {}).get(path, {})
    return row


class AbsentFile(ModelFile):
    """A file that must be absent, as must its ``.part``."""

    def remove(self) -> None:
        """Remove the file, its ``.part``, and the stored facts of both."""
        digest = load_facts_of_unchanged_file(self.run.store, self.path).get("sha256")
        if self.status:
            self.record_difference("", ALGORITHM + digest if digest else "a file", None)
        left = find_file_status(self.part)
        if left:
            self.record_difference(".part", "a file", None)
        if (self.status or left) and not self.run.check:
            textfile.remove_file(self.path)
            textfile.remove_file(self.part)
            self.save_or_remove_file_facts(files=None, parts=None)


def find_file_status(path: str) -> os.stat_result | None:
    """Return the status of a file, None where there is no such file."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise TuningError(f"{path} cannot be looked at: {error.strerror}.") from None


def read_file_stamp(path: str) -> list[int]:
    """Return size, modification time and inode of a file, which change with its content; empty for a missing file."""
    file_status = find_file_status(path)
    return [file_status.st_size, file_status.st_mtime_ns, file_status.st_ino] if file_status else []
