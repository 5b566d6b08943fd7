# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole files that this collection writes on a host, as a knob: their text, mode and owner.

Addresses: ``PREFIX:/FILE``. A value is the digest of the file's text, followed by mode and owner if these differ from
the wanted ones; for a symbolic link it is the target.
"""

from __future__ import annotations

import hashlib
import os
import stat

from .._errors import TuningError
from .._io import textfile
from .protocol.knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .protocol.knob import Change, Settings

LINK = "link to "


class ManagedFiles(Knob):
    """The files of ``files``, by path. They have no originals in the ledger, but a failed run restores them."""

    has_originals = needs_ledger = False
    #: Paths of executable files.
    programs: tuple[str, ...] = ()

    def __init__(self, files: Mapping[str, str], root: str = "/") -> None:
        self.root = root
        self.files = files
        #: Digest -> text, of the wanted files and, for a rollback, of files that were read.
        self._texts = {_compute_digest(text): text for text in files.values()}

    def wanted_settings(self) -> Settings:
        return {f"{self.prefix}:{path}": _compute_digest(text) for path, text in self.files.items()}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        return {address: self._read_value(address[len(self.prefix) + 1 :]) for address in addresses}

    def write_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._write_or_remove_file(change.address[len(self.prefix) + 1 :], change.after)

    def _read_value(self, path: str) -> str | None:
        path, mode = textfile.path_in_tree(self.root, path), self._wanted_mode(path)
        if os.path.islink(path):
            return f"{LINK}{os.readlink(path)}"
        text = textfile.read_text(path)
        if text is None:
            return None
        digest = _compute_digest(text)
        self._texts[digest] = text
        status = os.stat(path)
        as_wanted = (stat.S_IMODE(status.st_mode), status.st_uid) == (mode, os.geteuid())
        return digest if as_wanted else f"{digest} {stat.S_IMODE(status.st_mode):04o} {status.st_uid}"

    def _write_or_remove_file(self, path: str, value: str | None) -> None:
        path, mode, owner = textfile.path_in_tree(self.root, path), self._wanted_mode(path), os.geteuid()
        # A link is never followed, because the link of a masked unit points to /dev/null.
        if value is None or os.path.islink(path) or value.startswith(LINK):
            textfile.remove_file(path)
        if value is None:
            return
        try:
            if value.startswith(LINK):
                os.symlink(value[len(LINK) :], path)
                return
            digest, *mode_and_owner = value.split(" ")
            if mode_and_owner:
                mode, owner = int(mode_and_owner[0], 8), int(mode_and_owner[1])
            textfile.write_file(path, self._texts[digest], mode, keep_owner=False)
            os.chown(path, owner, -1, follow_symlinks=False)
        except OSError as error:
            raise TuningError(f"{path} cannot be written: {os.strerror(error.errno or 0)}.") from None

    def _wanted_mode(self, path: str) -> int:
        return 0o755 if path in self.programs else 0o644


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
