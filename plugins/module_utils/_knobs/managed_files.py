# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole files of ours on a host, as a knob: their text, mode and owner.

Addresses: ``PREFIX:/FILE``; a value is the digest of the file's text, with mode and owner where those are not ours, or
the target of a link that is there instead.
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
    """Files to have, by path. They have no originals in the ledger, but a run that fails puts back what was there."""

    has_originals = needs_ledger = False
    #: Paths of the executable ones.
    programs: tuple[str, ...] = ()

    def __init__(self, files: Mapping[str, str], root: str = "/") -> None:
        self.root = root
        self.files = files
        #: Digest -> text, of the wanted files and, for an undo, of those found.
        self._texts = {_compute_digest(text): text for text in files.values()}

    def wanted_settings(self) -> Settings:
        """Return a digest for each file to have."""
        return {f"{self.prefix}:{path}": _compute_digest(text) for path, text in self.files.items()}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the digest of each file that is there."""
        return {address: self._read_value(address[len(self.prefix) + 1 :]) for address in addresses}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write and remove files."""
        for change in changes:
            self._put_file(change.address[len(self.prefix) + 1 :], change.after)

    def _read_value(self, path: str) -> str | None:
        path, mode = textfile.path_in_tree(self.root, path), self._mode_of(path)
        if os.path.islink(path):
            return f"{LINK}{os.readlink(path)}"
        text = textfile.read_text(path)
        if text is None:
            return None
        digest = _compute_digest(text)
        self._texts[digest] = text
        there = os.stat(path)
        mine = (stat.S_IMODE(there.st_mode), there.st_uid) == (mode, os.geteuid())
        return digest if mine else f"{digest} {stat.S_IMODE(there.st_mode):04o} {there.st_uid}"

    def _put_file(self, path: str, value: str | None) -> None:
        path, mode, owner = textfile.path_in_tree(self.root, path), self._mode_of(path), os.geteuid()
        # A link is never followed: that of a masked unit leads to /dev/null.
        if value is None or os.path.islink(path) or value.startswith(LINK):
            textfile.remove_file(path)
        if value is None:
            return
        try:
            if value.startswith(LINK):
                os.symlink(value[len(LINK) :], path)
                return
            digest, *odd = value.split(" ")
            if odd:
                mode, owner = int(odd[0], 8), int(odd[1])
            textfile.write_file(path, self._texts[digest], mode, keep_owner=False)
            os.chown(path, owner, -1, follow_symlinks=False)
        except OSError as error:
            raise TuningError(f"{path} cannot be written: {os.strerror(error.errno or 0)}.") from None

    def _mode_of(self, path: str) -> int:
        return 0o755 if path in self.programs else 0o644


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
